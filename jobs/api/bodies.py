"""What clients send: one class for each body."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from jobs.recovery.draft import FASTEST, ITEMS_LIMIT
from jobs.states import Observation, Verb
from workspaces.http.bodies import Body, Moment, Number, Reason, Text, Whole

MODES = (Verb.RESUME.value, Verb.RESTART.value)


class NewJob(Body):
    """An intent: its kind and params, and the caller's own key for it."""

    kind = Text(max_length=100, help_text="One that is open to the API.")
    params = serializers.DictField(default=dict, help_text="As the kind's handler takes them.")
    key = Text(
        max_length=255,
        required=False,
        trim_whitespace=False,
        help_text=(
            "Names the intent in the whole workspace. Without it the Idempotency-Key does, for "
            "you; without either nothing does, and a lost answer cannot be asked for again."
        ),
    )
    eta = Moment(required=False, help_text="Not before this moment.")


class RetryJob(Body):
    """Why and how a job is retried, and the digest of the plan that was read."""

    reason = Reason()
    mode = serializers.ChoiceField(choices=MODES, default=Verb.RESUME.value)
    digest = Text(
        max_length=64, required=False, help_text="Of the plan; with another plan by now, 409."
    )


class CancelJob(Body):
    """Why a job is cancelled."""

    reason = Reason()


class ResolveJob(Body):
    """How a dead letter was dealt with; kept as its resolution."""

    reason = Reason()


class ReconcileJob(Body):
    """What was observed about an open step, and how that is known."""

    step = Text(max_length=120)
    outcome = serializers.ChoiceField(choices=[o.value for o in Observation])
    output = serializers.JSONField(
        required=False, help_text="What the step would have returned; only if it happened."
    )
    reason = Reason()

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "output" in attrs and attrs["outcome"] != Observation.HAPPENED:
            raise serializers.ValidationError({"output": ["Only a step that happened has one."]})
        return attrs


class CareInOperation(Body):
    """How carefully a bulk deed is done."""

    canary = Whole(
        required=False, min_value=0, max_value=ITEMS_LIMIT, help_text="So many go first."
    )
    rate_per_minute = Whole(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=FASTEST,
        help_text="Items a minute; the verb's own rate where it is null or left out.",
    )
    stop_after = Whole(
        required=False,
        min_value=1,
        max_value=ITEMS_LIMIT,
        help_text="It pauses after so many bad endings in a row.",
    )
    stop_ratio = Number(
        required=False,
        min_value=0.001,
        max_value=1,
        help_text="It pauses when so large a share of the recent ones ended badly.",
    )


def _plain(text: str) -> None:
    if "," in text or "=" in text:
        raise serializers.ValidationError({"filter": ["Neither , nor = can be in it."]})


class Criterion(Text):
    """A value of a filter."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"max_length": 100, "validators": [_plain], **kwargs})


class NewOperation(Body):
    """One verb for many: chosen by their ids, or by a filter. What is chosen stays as it is now."""

    verb = Text(max_length=60, help_text="resume, restart, resolve or cancel, for jobs.")
    ids = serializers.ListField(
        child=Text(max_length=100), required=False, allow_empty=False, max_length=ITEMS_LIMIT
    )
    filter = serializers.DictField(
        child=Criterion(),
        required=False,
        allow_empty=False,
        help_text="Of jobs a state, and perhaps cause, kind and fingerprint.",
    )
    care = CareInOperation(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("ids" in attrs) is ("filter" in attrs):
            raise serializers.ValidationError({"ids": ["Give either ids or a filter."]})
        for name in attrs.get("filter", {}):
            _plain(name)
        return attrs


class OperationDeed(Body):
    """Why something is done to an operation."""

    reason = Reason()
