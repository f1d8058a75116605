"""Sending what an endpoint missed: an operation over its dead deliveries, and its skipped ones.

Each gets the budget of a new delivery and stands behind the endpoint's gate, so a recovery drains
as fast as the endpoint takes it. What was taken at any time is left out.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from jobs.errors import OperationInvalid
from jobs.models import Job, Operation
from jobs.recovery.draft import ITEMS_LIMIT, Care, draft
from jobs.recovery.item_verbs import ItemVerb, Judgement, Mandate
from jobs.recovery.operation import start
from jobs.recovery.retry import retry
from jobs.states import FINAL, OperationState, State
from webhooks.again import close_letter, letter_of, locked
from webhooks.endpoints import refuse_disabled, visible_endpoint
from webhooks.errors import EndpointDisabled, RecoverRunning, WindowInvalid
from webhooks.making import send
from webhooks.models import DeliveryAttempt, Endpoint, WebhookDelivery
from webhooks.states import DeliveryState, EndpointState, Trigger
from workspaces import audit
from workspaces.actors import Actor, as_actor
from workspaces.errors import FiredoorError
from workspaces.permissions import allowed, require

if TYPE_CHECKING:
    from django.contrib.auth.models import User

NAME = "recover"
LONGEST_WINDOW = timedelta(days=14)
RATE_A_MINUTE = 600
_MISSED = (DeliveryState.DEAD,)
_SKIPPED = (DeliveryState.DEAD, DeliveryState.SKIPPED, DeliveryState.CANCELLED)
_AT_WORK = (OperationState.DRAFT, OperationState.RUNNING, OperationState.PAUSED)


@dataclass(frozen=True)
class Recovery:
    """The operation, and how many more there are than one operation may have."""

    operation: Operation
    left: int


class Refusal(FiredoorError):
    """Why one delivery is not sent again."""

    status = 409

    def __init__(self, judgement: Judgement) -> None:
        super().__init__(f"Nothing was done: {judgement.sentence}")
        self.code = judgement.code


def recover(
    endpoint_pk: uuid.UUID | str,
    *,
    since: datetime,
    until: datetime | None = None,
    include_skipped: bool = False,
    actor: Actor | User,
    reason: str,
    request_id: str = "",
) -> Recovery:
    """Start sending what the endpoint missed from ``since`` (included) to ``until`` (not).

    The oldest first; what does not fit into one operation is counted as ``left``: recover again
    once this one has ended. Raises, having started nothing: EndpointNotFound, NotAllowed,
    WindowInvalid, EndpointDisabled, RecoverRunning, NothingEligible, ReasonRequired.
    """
    who = as_actor(actor)
    endpoint = visible_endpoint(endpoint_pk, who)
    action = "webhook.recover"
    attempt = audit.Attempt(
        who, action, endpoint.workspace_id, "webhook_endpoint", endpoint.pk, reason, request_id
    )
    with audit.attempted(attempt), transaction.atomic():
        require(who, "webhooks.operate", endpoint.workspace_id)
        end = until or timezone.now()
        _check_window(since, end)
        locked_one = Endpoint.objects.select_for_update(no_key=True).get(pk=endpoint.pk)
        refuse_disabled(locked_one)  # locked: of two at the same moment the second one sees it
        _refuse_second(locked_one)
        matching, total = _matching(endpoint, since, end, skipped=include_skipped)
        operation = draft(endpoint.workspace, NAME, actor=who, matching=matching, care=Care())
        started = start(operation.pk, actor=who, reason=reason, request_id=request_id)
    return Recovery(started, total - started.selected)


def _matching(
    endpoint: Endpoint, since: datetime, end: datetime, *, skipped: bool
) -> tuple[str, int]:
    """The filter of as many as one operation holds, the oldest, and how many there are in all."""
    rows = _missed(endpoint, since, end, skipped=skipped)
    last = rows.values_list("created_at", flat=True)[ITEMS_LIMIT : ITEMS_LIMIT + 1].first()
    words = {
        "endpoint": str(endpoint.pk),
        "since": since.isoformat(),
        "until": (last or end).isoformat(),
        **({"skipped": "yes"} if skipped else {}),
    }
    return ",".join(f"{name}={value}" for name, value in words.items()), rows.count()


def _check_window(since: datetime, until: datetime) -> None:
    if until <= since or until - since > LONGEST_WINDOW:
        raise WindowInvalid(
            "Nothing was started: the time begins before its end, and is 14 days at most."
        )


def _refuse_second(endpoint: Endpoint) -> None:
    same = Operation.objects.filter(
        workspace_id=endpoint.workspace_id,
        verb=NAME,
        selection__startswith=f"endpoint={endpoint.pk},",
        state__in=_AT_WORK,
    )
    other = same.first()
    if other is not None:
        raise RecoverRunning(
            f"Nothing was started: operation {other.pk} recovers this endpoint already. "
            "Wait for its end, or stop it."
        ).telling(operation_id=str(other.pk))


def _missed(
    endpoint: Endpoint, since: datetime, until: datetime, *, skipped: bool
) -> QuerySet[WebhookDelivery]:
    taken = DeliveryAttempt.objects.filter(delivery=OuterRef("pk"), code="ok")
    rows = WebhookDelivery.objects.filter(
        ~Exists(taken),
        endpoint=endpoint,
        status__in=_SKIPPED if skipped else _MISSED,
        created_at__gte=since,
        created_at__lt=until,
    )
    return rows.order_by("created_at", "pk")


def _select(workspace_id: int, criteria: Mapping[str, str], limit: int) -> list[str]:
    """By ``endpoint``, ``since`` and ``until`` (ISO 8601), and perhaps ``skipped=yes``."""
    try:
        endpoint = Endpoint.objects.get(pk=uuid.UUID(criteria["endpoint"]), workspace=workspace_id)
        since, until = (datetime.fromisoformat(criteria[name]) for name in ("since", "until"))
        known = set(criteria) <= {"endpoint", "since", "until", "skipped"}
    except (KeyError, ValueError, Endpoint.DoesNotExist):
        known = False
    if not known or since.tzinfo is None or until.tzinfo is None:
        raise OperationInvalid(
            "Nothing was selected: a filter of deliveries has an endpoint of the workspace, since "
            "and until (moments with their offset), and may have skipped=yes."
        )
    rows = _missed(endpoint, since, until, skipped=criteria.get("skipped") == "yes")
    return [str(pk) for pk in rows.values_list("pk", flat=True)[:limit]]


def _judge(workspace_id: int, ids: Sequence[str], actor: Actor) -> list[Judgement]:
    """In the order of ``ids``, in two queries."""
    rows = WebhookDelivery.objects.filter(workspace_id=workspace_id).select_related("endpoint")
    found = rows.in_bulk([pk for pk in map(_uuid, ids) if pk is not None])
    may = allowed(actor, "webhooks.operate", workspace_id)
    return [_judged(each, found.get(_uuid(each) or uuid.UUID(int=0)), may=may) for each in ids]


def _judged(object_id: str, delivery: WebhookDelivery | None, *, may: bool) -> Judgement:
    if delivery is None:
        return Judgement(object_id, "webhook_delivery_not_found", "There is no such delivery.")
    if not may:
        return Judgement(object_id, "not_allowed", "It takes the right webhooks.operate.")
    if delivery.endpoint.state == EndpointState.DISABLED:
        return Judgement(object_id, EndpointDisabled.code, "The endpoint is disabled.")
    if delivery.status not in _SKIPPED:
        return Judgement(object_id, "not_missed", f"The delivery is {delivery.status}.")
    return Judgement(object_id)


def _act(object_id: str, mandate: Mandate) -> str:
    """Send one delivery: as a retry of its dead job where that is what it waits for."""
    (judgement,) = _judge(mandate.workspace_id, [object_id], mandate.actor)
    if judgement.code:
        raise Refusal(judgement)
    delivery = locked(uuid.UUID(object_id))
    (judgement,) = _judge(mandate.workspace_id, [object_id], mandate.actor)
    if judgement.code:
        raise Refusal(judgement)
    who, why, request = mandate.actor, mandate.reason, mandate.request_id
    letter = letter_of(delivery)
    if letter is not None and letter.params.get("trigger", "automatic") == Trigger.AUTOMATIC:
        successor = retry(letter.pk, mode="resume", actor=who, reason=why, request_id=request)
        return str(successor.pk)
    close_letter(delivery, who, f"Recovered: {why}", request)
    return str(send([delivery], Trigger.AUTOMATIC, actor=who, request_id=request)[0].pk)


def _fates(job_ids: Sequence[str]) -> dict[str, bool]:
    ended = Job.objects.filter(pk__in=job_ids, state__in=FINAL)
    return {str(pk): state == State.SUCCEEDED for pk, state in ended.values_list("pk", "state")}


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


VERB = ItemVerb(
    name=NAME,
    select=_select,
    judge=_judge,
    act=_act,
    fates=_fates,
    rate_per_minute=RATE_A_MINUTE,
)
