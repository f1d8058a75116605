"""Endpoints over HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, ClassVar

from django.db.models import Q
from django.urls import reverse
from django_filters import ChoiceFilter
from rest_framework.request import Request
from rest_framework.response import Response

from webhooks import again, endpoints
from webhooks.api.answers import DeliveryShown, EndpointPage, EndpointShown, RecoveryStarted
from webhooks.api.bodies import ChangedEndpoint, NewEndpoint, Nothing, Recovering, Rotation
from webhooks.models import Endpoint
from webhooks.recover import recover
from webhooks.shown import delivery_shown, endpoint_line, endpoint_shown
from webhooks.states import EndpointState
from workspaces.http.filtering import StrictFilters
from workspaces.http.idempotency import idempotent
from workspaces.http.keyset import Keyset, Selection
from workspaces.http.views import WorkspaceView
from workspaces.permissions import allowed


class EndpointFilters(StrictFilters):
    """Endpoints in a state."""

    state = ChoiceFilter(choices=[(s.value, s.value) for s in EndpointState])

    class Meta:
        model = Endpoint
        fields: tuple[str, ...] = ()


class EndpointList(WorkspaceView):
    """`GET` lists, newest first; `POST` makes one."""

    rights = {"GET": "webhooks.view", "POST": "webhooks.manage"}
    filters = EndpointFilters
    takes = {"POST": NewEndpoint}
    gives = {"GET": {200: EndpointPage}, "POST": {201: EndpointShown}}

    def get(self, request: Request, slug: str) -> Response:
        """Endpoints of the workspace, a page at a time."""
        pages = Keyset[Endpoint](request)
        asked = EndpointFilters.asked(request)
        wanted = Selection(Q(workspace=self.workspace), Q(**asked) if asked else None)
        whole = _may_write(self)
        page = pages.page(_ALL, wanted)
        return pages.answer([endpoint_line(one, whole_url=whole) for one in page])

    @idempotent
    def post(self, request: Request, slug: str) -> Response:
        """The new endpoint, with its signing secret this once."""
        said = NewEndpoint.given(request)
        made, secret = endpoints.create(
            self.workspace, actor=self.actor, request_id=self.request_id, **said
        )
        self.told_once = {"secret": secret}
        address = reverse("api-webhook-endpoint", kwargs={"slug": slug, "endpoint_id": made.pk})
        location = request.build_absolute_uri(address)
        return Response(endpoint_shown(made, whole_url=True), 201, headers={"Location": location})


_ALL = Endpoint.objects.all()


def _may_write(view: WorkspaceView) -> bool:
    return allowed(view.actor, "webhooks.manage", view.workspace)


class EndpointView(WorkspaceView):
    """A view about one endpoint; one of another workspace does not exist: 404."""

    rights: ClassVar[dict[str, str]] = {"GET": "webhooks.view", "POST": "webhooks.manage"}
    endpoint: Endpoint

    def permitted(self, request: Request, **kwargs: Any) -> None:
        found = Endpoint.objects.select_related("workspace").filter(workspace=self.workspace)
        endpoint = found.filter(pk=kwargs["endpoint_id"]).first()
        if endpoint is None:
            raise endpoints.no_such_endpoint(kwargs["endpoint_id"])
        self.endpoint = endpoint


class EndpointDetail(EndpointView):
    """One endpoint."""

    rights = {"GET": "webhooks.view", "PATCH": "webhooks.manage"}
    takes = {"PATCH": ChangedEndpoint}
    gives = {"GET": {200: EndpointShown}, "PATCH": {200: EndpointShown}}

    def get(self, request: Request, slug: str, endpoint_id: uuid.UUID) -> Response:
        """The endpoint as it is now."""
        return Response(endpoint_shown(self.endpoint, whole_url=_may_write(self)))

    @idempotent
    def patch(self, request: Request, slug: str, endpoint_id: uuid.UUID) -> Response:
        """Change what is said; what waits goes to the new URL."""
        said = ChangedEndpoint.given(request)
        changed = endpoints.update(
            self.endpoint.pk, actor=self.actor, request_id=self.request_id, **said
        )
        return Response(endpoint_shown(changed, whole_url=True))


class RotateSecret(EndpointView):
    """`POST` makes a new signing secret."""

    needs_key = True
    takes = {"POST": Rotation}
    gives = {"POST": {200: EndpointShown}}

    @idempotent
    def post(self, request: Request, slug: str, endpoint_id: uuid.UUID) -> Response:
        """The endpoint, with its new secret this once."""
        said = Rotation.given(request)
        changed, secret = endpoints.rotate_secret(
            self.endpoint.pk, actor=self.actor, request_id=self.request_id, **said
        )
        self.told_once = {"secret": secret}
        return Response(endpoint_shown(changed, whole_url=True))


class _Switch(EndpointView):
    """`POST` enables or disables."""

    service: ClassVar[Callable[..., Endpoint]]
    takes = {"POST": Nothing}
    gives = {"POST": {200: EndpointShown}}

    @idempotent
    def post(self, request: Request, slug: str, endpoint_id: uuid.UUID) -> Response:
        """The endpoint as it is then."""
        Nothing.given(request)
        changed = type(self).service(self.endpoint.pk, actor=self.actor, request_id=self.request_id)
        return Response(endpoint_shown(changed, whole_url=True))


class EnableEndpoint(_Switch):
    """`POST` lets it try again: one message at a time until one is taken."""

    service = staticmethod(endpoints.enable)


class DisableEndpoint(_Switch):
    """`POST` sends nothing more to it; what waits is cancelled."""

    service = staticmethod(endpoints.disable)


class TestEndpoint(EndpointView):
    """`POST` sends a message of the type `webhook.test`."""

    rights = {"POST": "webhooks.operate"}
    takes = {"POST": Nothing}
    gives = {"POST": {202: DeliveryShown}}

    @idempotent
    def post(self, request: Request, slug: str, endpoint_id: uuid.UUID) -> Response:
        """The delivery. Look at it for what came back."""
        Nothing.given(request)
        made = again.send_test(self.endpoint.pk, actor=self.actor, request_id=self.request_id)
        self.job_id = made.job_id
        return Response(delivery_shown(made), 202)


class RecoverEndpoint(EndpointView):
    """`POST` sends what the endpoint missed."""

    needs_key = True
    rights = {"POST": "webhooks.operate"}
    takes = {"POST": Recovering}
    gives = {"POST": {202: RecoveryStarted}}

    @idempotent
    def post(self, request: Request, slug: str, endpoint_id: uuid.UUID) -> Response:
        """The operation that does it."""
        said = Recovering.given(request)
        found = recover(self.endpoint.pk, actor=self.actor, request_id=self.request_id, **said)
        self.job_id = found.operation.job_id
        told = {
            "operation_id": str(found.operation.pk),
            "matched": found.operation.selected,
            "left": found.left,
        }
        return Response(told, 202)
