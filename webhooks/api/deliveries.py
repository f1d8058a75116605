"""Deliveries over HTTP. What receivers answered is shown to who may operate webhooks alone."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any, ClassVar

from django.db.models import Q
from django_filters import CharFilter, ChoiceFilter, UUIDFilter
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.models.ids import first_id_of
from webhooks import again
from webhooks.api.answers import DeliveryPage, DeliveryShown
from webhooks.api.bodies import Redelivery
from webhooks.models import WebhookDelivery
from webhooks.shown import delivery_lines, delivery_shown
from webhooks.states import DeliveryState
from workspaces.http.filtering import Moment, StrictFilters
from workspaces.http.idempotency import idempotent
from workspaces.http.keyset import Keyset, Selection
from workspaces.http.views import WorkspaceView

CLOCKS = timedelta(hours=1)
"""How far the clock that made an id may be from the database's."""
_FIELDS = {
    "endpoint": "endpoint_id",
    "status": "status",
    "event_type": "message__type",
    "since": "created_at__gte",
    "until": "created_at__lt",
}


class DeliveryFilters(StrictFilters):
    """All must hold. `status=open` is what has not ended: pending or sending."""

    endpoint = UUIDFilter()
    status = ChoiceFilter(choices=[(s.value, s.value) for s in DeliveryState])
    event_type = CharFilter(max_length=60, strip=False)
    since = Moment()
    until = Moment()

    class Meta:
        model = WebhookDelivery
        fields: tuple[str, ...] = ()


class DeliveryList(WorkspaceView):
    """`GET` lists, newest first."""

    rights = {"GET": "webhooks.operate"}
    filters = DeliveryFilters
    gives = {"GET": {200: DeliveryPage}}

    def get(self, request: Request, slug: str) -> Response:
        """Deliveries of the workspace, a page at a time."""
        pages = Keyset[WebhookDelivery](request)
        asked = DeliveryFilters.asked(request)
        rows = WebhookDelivery.objects.select_related("message").defer("message__body")
        page = pages.page(rows, self._selected(asked))
        return pages.answer(delivery_lines(page))

    def _selected(self, asked: dict[str, Any]) -> Selection:
        """An endpoint and a status together lead by their index; a time bounds the ids."""
        conditions = {_FIELDS[name]: value for name, value in asked.items()}
        leads = {"endpoint_id", "status"} if "endpoint" in asked and "status" in asked else set()
        led = Q(workspace=self.workspace, **{name: conditions.pop(name) for name in leads})
        bounds = {}
        if "since" in asked:
            bounds["low"] = first_id_of(asked["since"] - CLOCKS)
        if "until" in asked:
            bounds["high"] = first_id_of(asked["until"] + CLOCKS)
        return Selection(led, Q(**conditions) if conditions else None, **bounds)


class DeliveryView(WorkspaceView):
    """A view about one delivery; one of another workspace does not exist: 404."""

    rights: ClassVar[dict[str, str]] = {"GET": "webhooks.operate", "POST": "webhooks.operate"}
    delivery: WebhookDelivery

    def permitted(self, request: Request, **kwargs: Any) -> None:
        rows = WebhookDelivery.objects.select_related("message").defer("message__body")
        found = rows.filter(workspace=self.workspace, pk=kwargs["delivery_id"]).first()
        if found is None:
            raise again.no_such_delivery(kwargs["delivery_id"])
        self.delivery = found


class DeliveryDetail(DeliveryView):
    """One delivery and every request that was made for it."""

    gives = {"GET": {200: DeliveryShown}}

    def get(self, request: Request, slug: str, delivery_id: uuid.UUID) -> Response:
        """The delivery as it is now."""
        return Response(delivery_shown(self.delivery))


class Redeliver(DeliveryView):
    """`POST` sends it once more: the same id and bytes, one request."""

    needs_key = True
    takes = {"POST": Redelivery}
    gives = {"POST": {202: DeliveryShown}}

    @idempotent
    def post(self, request: Request, slug: str, delivery_id: uuid.UUID) -> Response:
        """The delivery, on its way again."""
        said = Redelivery.given(request)
        sent = again.redeliver(
            self.delivery.pk, actor=self.actor, request_id=self.request_id, **said
        )
        self.job_id = sent.job_id
        return Response(delivery_shown(sent), 202)
