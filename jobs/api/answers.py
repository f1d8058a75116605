"""What clients are sent: one class for each answer, which the schema is made from.

Answers are put together by `jobs.shown` and its kin, which the console and the commands share; a
test holds that they have these fields and no others.
"""

from __future__ import annotations

from rest_framework import serializers

from jobs.states import (
    AttemptOutcome,
    Cause,
    Effect,
    ItemOutcome,
    Observation,
    OperationState,
    State,
    StepState,
    Verb,
    Word,
)
from jobs.states import WaitReason as Wait


class Answer(serializers.Serializer):
    """The base of all."""


def moment(**kwargs: bool | str) -> serializers.DateTimeField:
    return serializers.DateTimeField(allow_null=True, **kwargs)  # type: ignore[arg-type]


def one_of(words: object, *, blank: bool = False) -> serializers.ChoiceField:
    return serializers.ChoiceField(
        choices=[word.value for word in words],  # type: ignore[attr-defined]
        allow_blank=blank,
    )


class Progress(Answer):
    """How far a job is, in its own words."""

    fraction = serializers.FloatField(min_value=0, max_value=1)
    text = serializers.CharField(allow_blank=True)


class JobLine(Answer):
    """A job in a list, and what deeds on it answer."""

    id = serializers.UUIDField()
    kind = serializers.CharField()
    workspace = serializers.CharField(help_text="Its slug.")
    key = serializers.CharField()
    state = one_of(State)
    cause = one_of(Cause, blank=True)
    wait_reason = one_of(Wait, blank=True)
    run_at = serializers.DateTimeField(help_text="It does not run before this.")
    attempt = serializers.IntegerField(help_text="The number of its newest attempt.")
    progress = Progress(allow_null=True)
    retry_of = serializers.UUIDField(allow_null=True)
    root_id = serializers.UUIDField(help_text="The first job of its chain.")
    epoch = serializers.IntegerField(help_text="How often its chain was restarted.")
    mode = serializers.ChoiceField(choices=["resume", "restart"], allow_blank=True)
    actor = serializers.CharField(help_text="Who asked for it: of a retry, who retried.")
    request_id = serializers.CharField(allow_blank=True)
    created_at = serializers.DateTimeField()
    finished_at = moment()
    cancel_requested_at = moment()
    retried_at = moment(help_text="When its successor was made.")
    resolved_at = moment()


class JobPage(Answer):
    """A page of the list, newest first. The list ends where `next` is null."""

    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    results = JobLine(many=True)


class JobMade(JobLine):
    """The job of an intent, new or known already; or the one successor of a retried job."""

    created = serializers.BooleanField(help_text="Whether this request made it.")


class AttemptShown(Answer):
    """One execution that has ended."""

    number = serializers.IntegerField()
    outcome = one_of(AttemptOutcome)
    classification = serializers.CharField(allow_blank=True)
    reason = serializers.CharField(allow_blank=True)
    step = serializers.CharField(allow_blank=True)
    error_class = serializers.CharField(allow_blank=True)
    message = serializers.CharField(allow_blank=True)
    fingerprint = serializers.CharField(allow_blank=True)
    delay = serializers.FloatField(allow_null=True, help_text="Seconds before the next.")
    cost = serializers.JSONField(allow_null=True)
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField()
    worker = serializers.CharField()
    request_id = serializers.CharField(allow_blank=True, help_text="Of the request it stems from.")


class StepShown(Answer):
    """One checkpoint. `started` without an observation: nobody has recorded its outcome."""

    name = serializers.CharField()
    effect = one_of(Effect)
    state = one_of(StepState)
    attempt = serializers.IntegerField()
    carried_from = serializers.UUIDField(allow_null=True)
    output = serializers.JSONField(allow_null=True)
    output_error = serializers.CharField(allow_blank=True)
    observed = one_of(Observation, blank=True)


class JobShown(JobLine):
    """One job with everything that is recorded of it, secrets hidden."""

    traceparent = serializers.CharField(allow_blank=True)
    attempts = AttemptShown(many=True)
    steps = StepShown(many=True)
    more_steps = serializers.BooleanField(help_text="Whether it has more than are shown.")
    successor = serializers.UUIDField(allow_null=True)
    params = serializers.JSONField()
    result = serializers.JSONField(allow_null=True)
    resolution = serializers.CharField(allow_blank=True)


class PlannedStepShown(Answer):
    """What would become of one step, and why."""

    name = serializers.CharField()
    effect = serializers.CharField(allow_blank=True)
    boundary = serializers.CharField(allow_blank=True)
    recorded = serializers.CharField(allow_blank=True)
    word = one_of(Word)
    why = serializers.CharField()
    carry = serializers.CharField(allow_blank=True)


class CheckShown(Answer):
    """One thing that was looked at."""

    level = serializers.ChoiceField(choices=["pass", "warn", "block"])
    code = serializers.CharField(allow_blank=True)
    sentence = serializers.CharField()


class PlanShown(Answer):
    """The preflight of a retry. Send its `digest` along to have exactly this done, or nothing."""

    job_id = serializers.UUIDField()
    verb = one_of((Verb.RESUME, Verb.RESTART))
    steps = PlannedStepShown(many=True)
    checks = CheckShown(many=True)
    cost = serializers.ListField(child=serializers.JSONField())
    digest = serializers.CharField()
    allowed = serializers.BooleanField()


class StandingShown(Answer):
    """How far a job is. Nothing more happens to a `final` one but deeds of operators."""

    state = one_of(State)
    cause = one_of(Cause, blank=True)
    attempt = serializers.IntegerField()
    progress = Progress(allow_null=True)
    final = serializers.BooleanField()


class EventShown(Answer):
    """Something that happened to a job."""

    id = serializers.IntegerField()
    type = serializers.CharField()
    created_at = serializers.DateTimeField()
    data = serializers.JSONField()  # type: ignore[assignment]  # a field, no property


class EventFeed(Answer):
    """Events of a job, oldest first, and how it stands; `after` goes into the next request."""

    results = EventShown(many=True)
    after = serializers.IntegerField()
    job = StandingShown()


class OperationLine(Answer):
    """A bulk deed in a list."""

    id = serializers.UUIDField()
    workspace = serializers.CharField(help_text="Its slug.")
    verb = serializers.CharField()
    state = one_of(OperationState)
    note = serializers.CharField(allow_blank=True, help_text="Why it is paused or stopped.")
    selection = serializers.CharField()
    frozen_at = serializers.DateTimeField(help_text="What came to match later is not in it.")
    selected = serializers.IntegerField()
    eligible = serializers.IntegerField(help_text="The others were skipped from the start.")
    reason = serializers.CharField(allow_blank=True)
    actor = serializers.CharField(help_text="In whose name its items are done.")
    job_id = serializers.UUIDField(allow_null=True, help_text="The job that drives it.")
    started_at = moment()
    finished_at = moment()
    resolved_at = moment()


class OperationPage(Answer):
    """A page of the list, newest first. The list ends where `next` is null."""

    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    results = OperationLine(many=True)


class OperationCounts(Answer):
    """How many items have each outcome."""

    pending = serializers.IntegerField()
    done = serializers.IntegerField()
    skipped = serializers.IntegerField()
    failed = serializers.IntegerField()


class OperationShown(OperationLine):
    """One bulk deed and how far it is."""

    counts = OperationCounts()
    not_done = serializers.DictField(
        child=serializers.DictField(child=serializers.IntegerField()),
        help_text="How many were skipped and failed, by the code of the reason.",
    )
    outward = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="Calls to the outside that its plans meant to make, by effect.",
    )
    canary = serializers.IntegerField()
    rate_per_minute = serializers.IntegerField(allow_null=True)
    stop_after = serializers.IntegerField()
    stop_ratio = serializers.FloatField()
    resolution = serializers.CharField(allow_blank=True)


class ItemShown(Answer):
    """One item, and why it was not done if it was not."""

    position = serializers.IntegerField()
    object_id = serializers.CharField()
    outcome = one_of(ItemOutcome)
    code = serializers.CharField(allow_blank=True)
    sentence = serializers.CharField(allow_blank=True)
    result_id = serializers.CharField(
        allow_blank=True, help_text="What came of it: of a retry, the successor."
    )
    done_at = moment()


class ItemPage(Answer):
    """A page of items in their order. The list ends where `next` is null."""

    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    results = ItemShown(many=True)
