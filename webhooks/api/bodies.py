"""What clients send: one class for each body."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from webhooks.catalogue import SUBSCRIBABLE
from webhooks.endpoints import DEFAULT_GRACE, LONGEST_GRACE, MOST_DELAYS
from webhooks.outcome import LONGEST_DELAY
from webhooks.requests import HEADERS_LIMIT, VALUE_LIMIT
from workspaces.http.bodies import Body, Moment, Number, Reason, Text, Whole


class Headers(serializers.DictField):
    """The tenant's own headers, at most ten."""

    child = Text(max_length=VALUE_LIMIT, trim_whitespace=False)

    def __init__(self, **kwargs: Any) -> None:
        said = f"At most {HEADERS_LIMIT}, kept sealed and sent along."
        super().__init__(**{"help_text": said, **kwargs})


class Delays(serializers.ListField):
    """Waits before the second and the third request."""

    child = Number(min_value=1, max_value=LONGEST_DELAY)

    def __init__(self, **kwargs: Any) -> None:
        bounds: dict[str, Any] = {"min_length": 1, "max_length": MOST_DELAYS, "allow_null": True}
        super().__init__(**{**bounds, "help_text": "Seconds; null for ours.", **kwargs})


class Events(serializers.ListField):
    """What it is told of."""

    child = serializers.ChoiceField(choices=list(SUBSCRIBABLE))

    def __init__(self, **kwargs: Any) -> None:
        said = "`*` is all but `job.succeeded`, which has to be named."
        super().__init__(**{"allow_empty": False, "max_length": 50, "help_text": said, **kwargs})


class NewEndpoint(Body):
    """Where a workspace wants its events sent."""

    url = Text(max_length=2048)
    events = Events()
    description = Text(max_length=200, required=False, allow_blank=True)
    headers = Headers(required=False)
    delays = Delays(required=False)


class ChangedEndpoint(Body):
    """What is to be different; what is left out stays."""

    url = Text(max_length=2048, required=False)
    events = Events(required=False)
    description = Text(max_length=200, required=False, allow_blank=True)
    headers = Headers(required=False)
    delays = Delays(required=False)


class Rotation(Body):
    """How long the secret before the new one signs too; 0 ends all earlier ones."""

    grace_seconds = Whole(min_value=0, max_value=LONGEST_GRACE, default=DEFAULT_GRACE)


class Nothing(Body):
    """No words are needed."""


class Redelivery(Body):
    """Why it is sent again."""

    reason = Reason()


class Recovering(Body):
    """From when to when, two weeks at most, and why."""

    since = Moment()
    until = Moment(required=False, help_text="Until now where it is left out.")
    include_skipped = serializers.BooleanField(default=False)
    reason = Reason()
