"""What clients send: one class for each body."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from jobs.states import Observation, Verb
from workspaces.http.bodies import Body, Moment, Reason, Text

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
