"""What clients are sent: one class for each answer, which the schema is made from."""

from __future__ import annotations

from rest_framework import serializers

from webhooks.shown import STATUSES
from webhooks.states import EndpointState, Trigger


def _moment() -> serializers.DateTimeField:
    return serializers.DateTimeField(allow_null=True)


class EndpointLine(serializers.Serializer):
    """An endpoint in a list."""

    id = serializers.UUIDField()
    url = serializers.CharField(
        help_text="Without its query, for those who may not manage endpoints."
    )
    description = serializers.CharField(allow_blank=True)
    events = serializers.ListField(child=serializers.CharField())
    state = serializers.ChoiceField(choices=[state.value for state in EndpointState])
    reason = serializers.CharField(allow_blank=True, help_text="Why it is disabled.")
    state_since = serializers.DateTimeField()
    failures = serializers.IntegerField(help_text="Deliveries that died since its last 2xx.")
    first_failed_at = _moment()
    last_failed_at = _moment()
    lane = serializers.CharField(help_text="The queue its deliveries go through.")
    delays = serializers.ListField(child=serializers.FloatField(), allow_null=True)
    created_at = serializers.DateTimeField()


class EndpointPage(serializers.Serializer):
    """A page of the list, newest first. The list ends where `next` is null."""

    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    results = EndpointLine(many=True)


class SecretShown(serializers.Serializer):
    """A secret that signs, by its last characters."""

    hint = serializers.CharField()
    created_at = serializers.DateTimeField()
    expires_at = _moment()


class EndpointShown(EndpointLine):
    """One endpoint. `secret` is told once, by what makes it, and not again under the same key."""

    headers = serializers.ListField(child=serializers.CharField(), help_text="Names alone.")
    waiting = serializers.IntegerField(help_text="Deliveries that have not ended.")
    secret = serializers.CharField(allow_null=True)
    secrets = SecretShown(many=True)


class DeliveryLine(serializers.Serializer):
    """One message for one endpoint."""

    id = serializers.UUIDField()
    endpoint_id = serializers.UUIDField()
    message_id = serializers.CharField(help_text="The `webhook-id` that receivers see.")
    event_type = serializers.CharField()
    status = serializers.ChoiceField(choices=list(STATUSES))
    job_id = serializers.UUIDField(allow_null=True, help_text="The newest job that sends it.")
    sends = serializers.IntegerField(help_text="How many jobs it had.")
    created_at = serializers.DateTimeField()
    finished_at = _moment()


class DeliveryPage(serializers.Serializer):
    """A page of the list, newest first. The list ends where `next` is null."""

    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    results = DeliveryLine(many=True)


class RequestShown(serializers.Serializer):
    """One request and what came back. `unknown`: a crash cut it off, it may have gone out."""

    job_id = serializers.UUIDField()
    number = serializers.IntegerField()
    trigger = serializers.ChoiceField(choices=[trigger.value for trigger in Trigger])
    url = serializers.CharField(allow_blank=True, help_text="Without its query.")
    code = serializers.CharField()
    status_code = serializers.IntegerField(allow_null=True)
    headers = serializers.DictField(child=serializers.CharField(allow_blank=True))
    excerpt = serializers.CharField(allow_blank=True, trim_whitespace=False)
    milliseconds = serializers.IntegerField()
    ended_at = serializers.DateTimeField()


class DeliveryShown(DeliveryLine):
    """One delivery with every request that was made for it."""

    attempts = RequestShown(many=True)


class RecoveryStarted(serializers.Serializer):
    """The operation that recovers; look at it, pause and stop it as any other."""

    operation_id = serializers.UUIDField()
    matched = serializers.IntegerField()
    left = serializers.IntegerField(help_text="More than one operation holds: recover again then.")
