"""What the incident bundle is made of: one class for each part, which the schema is made from."""

from __future__ import annotations

from rest_framework import serializers

from jobs.api.answers import Answer, PlanShown, moment, one_of
from jobs.recovery.boundaries import Reached
from jobs.states import AttemptOutcome, Cause, Effect, Observation, State, StepState


class EvidenceJob(Answer):
    """The job of an incident, secrets hidden."""

    id = serializers.UUIDField()
    workspace = serializers.CharField()
    kind = serializers.CharField()
    version = serializers.IntegerField()
    key = serializers.CharField()
    state = one_of(State)
    cause = one_of(Cause, blank=True)
    request_id = serializers.CharField(allow_blank=True)
    traceparent = serializers.CharField(allow_blank=True)
    root_id = serializers.UUIDField()
    retry_of = serializers.UUIDField(allow_null=True)
    epoch = serializers.IntegerField()
    actor = serializers.CharField()
    attempt = serializers.IntegerField()
    failures = serializers.IntegerField()
    losses = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    finished_at = moment()
    resolved_at = moment()
    resolution = serializers.CharField(allow_blank=True)
    params = serializers.JSONField()
    result = serializers.JSONField(allow_null=True)
    risk = serializers.IntegerField()
    runbook = serializers.CharField(allow_blank=True)


class EvidenceLink(Answer):
    """One job of the chain."""

    id = serializers.UUIDField()
    state = one_of(State)
    cause = one_of(Cause, blank=True)
    mode = serializers.ChoiceField(choices=["resume", "restart"], allow_blank=True)
    actor = serializers.CharField()
    created_at = serializers.DateTimeField()
    finished_at = moment()
    resolved_at = moment()
    resolution = serializers.CharField(allow_blank=True)


class EvidenceAttempt(Answer):
    """One execution that has ended."""

    number = serializers.IntegerField()
    outcome = one_of(AttemptOutcome)
    step = serializers.CharField(allow_blank=True)
    reason = serializers.CharField(allow_blank=True)
    error_class = serializers.CharField(allow_blank=True)
    message = serializers.CharField(allow_blank=True)
    fingerprint = serializers.CharField(allow_blank=True)
    provider_request_id = serializers.CharField(allow_blank=True)
    cost = serializers.JSONField(allow_null=True)
    worker = serializers.CharField()
    request_id = serializers.CharField(allow_blank=True, help_text="Of the request it stems from.")
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField()


class EvidenceStep(Answer):
    """One checkpoint, with everything that was brought and observed of it."""

    name = serializers.CharField()
    effect = one_of(Effect)
    boundary = serializers.CharField(allow_blank=True)
    state = one_of(StepState)
    open = serializers.BooleanField(help_text="Whether nobody knows if it happened.")
    attempt = serializers.IntegerField()
    carried_from = serializers.UUIDField(allow_null=True)
    key = serializers.CharField(allow_blank=True, help_text="By which its provider knows it.")
    started_at = moment()
    done_at = moment()
    output = serializers.JSONField(allow_null=True)
    output_error = serializers.CharField(allow_blank=True)
    late_at = moment()
    late_output = serializers.JSONField(allow_null=True)
    observed = one_of(Observation, blank=True)
    observed_by = serializers.CharField(allow_blank=True)
    observed_at = moment()
    observed_output = serializers.JSONField(allow_null=True)


class EvidenceDeed(Answer):
    """What an operator did to the chain, or was refused."""

    at = serializers.DateTimeField()
    actor = serializers.CharField()
    actor_label = serializers.CharField()
    action = serializers.CharField()
    job_id = serializers.CharField()
    reason = serializers.CharField(allow_blank=True)
    request_id = serializers.CharField(allow_blank=True)
    result = serializers.CharField()


class EvidenceBoundaries(Answer):
    """Whether the job took effect there."""

    provider = one_of(Reached)
    agent = one_of(Reached)
    repository = one_of(Reached)


class EvidenceCrossing(Answer):
    """One step that calls outside, and what became of its call."""

    step = serializers.CharField()
    boundary = serializers.CharField(allow_blank=True)
    effect = one_of((Effect.KEYED, Effect.ONCE))
    reached = one_of(Reached)
    why = serializers.CharField()


class EvidencePlans(Answer):
    """What each of the two retries would do."""

    resume = PlanShown()
    restart = PlanShown()


class EvidenceSection(Answer):
    """One of the six steps of a recovery; its sentences are Markdown."""

    number = serializers.IntegerField(min_value=1, max_value=6)
    title = serializers.CharField()
    says = serializers.ListField(child=serializers.CharField())
    next = serializers.ListField(child=serializers.CharField())


class EvidenceBundle(Answer):
    """All that is known of a job that came to grief."""

    format = serializers.CharField()
    made_at = serializers.DateTimeField()
    job = EvidenceJob()
    chain = EvidenceLink(many=True)
    attempts = EvidenceAttempt(many=True)
    steps = EvidenceStep(many=True)
    trail = EvidenceDeed(many=True, allow_null=True, help_text="Null without `audit.view`.")
    boundaries = EvidenceBoundaries()
    crossings = EvidenceCrossing(many=True)
    plans = EvidencePlans()
    cut = serializers.ListField(child=serializers.CharField(), help_text="Of what there is more.")
    recovery = EvidenceSection(many=True)
