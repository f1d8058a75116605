"""A resource that does what a test tells it, behind the same base as every other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.contrib.auth.models import Group
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.urls import path
from rest_framework.request import Request
from rest_framework.response import Response

from config import urls
from workspaces.http.idempotency import idempotent
from workspaces.http.views import WorkspaceView

Act = Callable[["Probe"], Any]


class Probe(WorkspaceView):
    """`POST` makes a group and then does `act`; `DELETE` removes it. `calls` are the bodies."""

    rights = {"GET": "jobs.view", "POST": "jobs.operate", "DELETE": "jobs.operate"}
    act: ClassVar[Act] = lambda view: None
    calls: ClassVar[list[Any]] = []

    @classmethod
    def does(cls, act: Act) -> None:
        cls.act = staticmethod(act)

    def get(self, request: Request, slug: str, thing_id: str = "") -> Any:
        return Probe.act(self) or Response({"read": True})

    @idempotent
    def post(self, request: Request, slug: str, thing_id: str = "") -> Any:
        Probe.calls.append(request.data)
        body: Any = request.data
        made = Group.objects.create(name=str(body.get("name", "made")))
        answer = Response({"made": made.name}, 201, headers={"ETag": '"1"', "Link": "</x>"})
        return Probe.act(self) or answer

    @idempotent
    def delete(self, request: Request, slug: str, thing_id: str = "") -> Response:
        Probe.calls.append("delete")
        get_object_or_404(Group, name=thing_id).delete()
        return Response(status=204)


def streamed(_view: Probe) -> HttpResponse:
    return StreamingHttpResponse([b"a", b"b"])  # type: ignore[return-value]


urlpatterns = [
    path(f"{urls.WORKSPACE}probe/", Probe.as_view(), name="probe"),
    path(f"{urls.WORKSPACE}probe/<slug:thing_id>/", Probe.as_view()),
    path(f"{urls.WORKSPACE}probe/<slug:thing_id>/part/", Probe.as_view()),
    *urls.urlpatterns,
]
handler400, handler403 = urls.handler400, urls.handler403
handler404, handler500 = urls.handler404, urls.handler500
