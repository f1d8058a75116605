"""Sending by hand: a delivery once more, with the same id and bytes; or a test message.

Each makes one job with one request, whose failure says nothing about the endpoint; a success
does. Order of locks: the job, the delivery.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from django.utils import timezone

from jobs.models import Job
from jobs.models.job import DEAD_LETTER
from jobs.recovery.deed import done
from jobs.recovery.resolve import resolve
from webhooks import bodies
from webhooks.catalogue import TEST
from webhooks.endpoints import refuse_disabled, visible_endpoint
from webhooks.errors import DeliveryInFlight, DeliveryNotFound
from webhooks.making import send
from webhooks.models import Message, WebhookDelivery
from webhooks.states import DeliveryState, Trigger
from workspaces import audit
from workspaces.actors import Actor, as_actor
from workspaces.permissions import allowed, require

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def redeliver(
    pk: uuid.UUID | str, *, actor: Actor | User, reason: str, request_id: str = ""
) -> WebhookDelivery:
    """Send a delivery that has ended once more, a success too.

    A dead letter of its last job is resolved by it. Raises, having changed nothing:
    DeliveryNotFound, NotAllowed, DeliveryInFlight, EndpointDisabled, WorkspaceClosed,
    ReasonRequired, Busy.
    """
    who, why = as_actor(actor), audit.reason_given(reason)
    seen = visible_delivery(pk, who)

    def work() -> WebhookDelivery:
        refuse_in_flight(seen)  # of many at once most need not wait for the lock
        delivery = locked(seen.pk)
        refuse_in_flight(delivery)
        refuse_disabled(delivery.endpoint)
        close_letter(delivery, who, f"Sent again by hand: {why}", request_id)
        send([delivery], Trigger.MANUAL, actor=who, request_id=request_id)
        delivery.refresh_from_db()
        return delivery

    return _deed("redeliver", seen, who, why, request_id, work)


def send_test(
    endpoint_pk: uuid.UUID | str, *, actor: Actor | User, request_id: str = ""
) -> WebhookDelivery:
    """Send an endpoint a message of the type `webhook.test`, also while it is failing.

    Raises, having written nothing: EndpointNotFound, NotAllowed, EndpointDisabled,
    WorkspaceClosed.
    """
    who = as_actor(actor)
    endpoint = visible_endpoint(endpoint_pk, who)
    message_id = bodies.new_id()
    body = bodies.written(message_id, TEST, timezone.now(), {"endpoint_id": str(endpoint.pk)})
    message = Message(id=message_id, workspace=endpoint.workspace, type=TEST, body=body)
    delivery = WebhookDelivery(workspace=endpoint.workspace, endpoint=endpoint, message=message)

    def work() -> WebhookDelivery:
        refuse_disabled(endpoint)
        message.save(force_insert=True)
        delivery.save(force_insert=True)
        send([delivery], Trigger.MANUAL, actor=who, request_id=request_id)
        delivery.refresh_from_db()
        return delivery

    return _deed("test", delivery, who, "", request_id, work)


def visible_delivery(pk: uuid.UUID | str, actor: Actor) -> WebhookDelivery:
    """The delivery, if the actor may see it. Raises DeliveryNotFound, the same for a foreign."""
    rows = WebhookDelivery.objects.select_related("workspace", "endpoint", "message")
    try:
        found = rows.get(pk=uuid.UUID(str(pk)))
    except (ValueError, WebhookDelivery.DoesNotExist):
        found = None
    if found is None or not allowed(actor, "webhooks.view", found.workspace_id):
        raise no_such_delivery(pk)
    return found


def no_such_delivery(pk: object) -> DeliveryNotFound:
    return DeliveryNotFound(
        f"Nothing was done: there is no delivery {str(pk)[:60]!r} that you may see. Check the id."
    )


def locked(pk: uuid.UUID) -> WebhookDelivery:
    """The delivery, its newest job locked before it."""
    while True:
        job_id = WebhookDelivery.objects.values_list("job_id", flat=True).get(pk=pk)
        if job_id is not None:
            Job.objects.select_for_update().filter(pk=job_id).first()
        row = WebhookDelivery.objects.select_for_update().get(pk=pk)
        if row.job_id == job_id:
            return row


def refuse_in_flight(delivery: WebhookDelivery) -> None:
    """Raise DeliveryInFlight while its job lives."""
    if delivery.status == DeliveryState.OPEN:
        raise DeliveryInFlight(
            "Nothing was sent: this message is on its way already, or waits for its turn. "
            f"See job {delivery.job_id}."
        )


def letter_of(delivery: WebhookDelivery) -> Job | None:
    """The dead letter that its last job left, if it did."""
    if delivery.job_id is None:
        return None
    return Job.objects.filter(DEAD_LETTER, pk=delivery.job_id).first()


def close_letter(delivery: WebhookDelivery, actor: Actor, reason: str, request_id: str) -> None:
    """Resolve the dead letter that its last job left, if it did."""
    letter = letter_of(delivery)
    if letter is not None:
        resolve(letter.pk, actor=actor, reason=reason[: audit.REASON_MAX], request_id=request_id)


def _deed(
    name: str,
    delivery: WebhookDelivery,
    who: Actor,
    reason: str,
    request_id: str,
    work: Callable[[], WebhookDelivery],
) -> WebhookDelivery:
    """Authorised, audited, in one transaction."""
    attempt = audit.Attempt(
        who,
        f"webhook.{name}",
        delivery.workspace_id,
        "webhook_delivery",
        delivery.pk,
        reason,
        request_id,
    )

    def whole() -> WebhookDelivery:
        require(who, "webhooks.operate", delivery.workspace_id)
        made = work()
        audit.record(
            actor=who,
            action=attempt.action,
            workspace=delivery.workspace_id,
            object_type=attempt.object_type,
            object_id=made.pk,
            reason=reason,
            request_id=request_id,
            after={"job_id": str(made.job_id), "endpoint_id": str(made.endpoint_id)},
        )
        return made

    with audit.attempted(attempt):
        return done(whole)
