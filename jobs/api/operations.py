"""Bulk deeds: drafted from ids or a filter, looked at, and let run."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, ClassVar

from django.db.models import Q
from django.urls import reverse
from django_filters import CharFilter, ChoiceFilter
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.answers import ItemPage, OperationPage, OperationShown
from jobs.api.bodies import NewOperation, OperationDeed
from jobs.models import Operation, OperationItem
from jobs.recovery import operation as deeds
from jobs.recovery.account import account_of, item_told, line_of
from jobs.recovery.bulk import right_for
from jobs.recovery.draft import Care, draft
from jobs.recovery.operation import no_such_operation
from jobs.states import ItemOutcome, OperationState
from workspaces.http.filtering import StrictFilters
from workspaces.http.idempotency import idempotent
from workspaces.http.keyset import Keyset, Selection, number
from workspaces.http.views import WorkspaceView
from workspaces.permissions import require


class OperationFilters(StrictFilters):
    """All must hold. Looked for among the newest: there are never many."""

    state = ChoiceFilter(choices=[(s.value, s.value) for s in OperationState])
    verb = CharFilter(max_length=60, strip=False)

    class Meta:
        model = Operation
        fields: tuple[str, ...] = ()


class ItemFilters(StrictFilters):
    """Items by what became of them."""

    outcome = ChoiceFilter(choices=[(o.value, o.value) for o in ItemOutcome])

    class Meta:
        model = OperationItem
        fields: tuple[str, ...] = ()


class OperationList(WorkspaceView):
    """`GET` lists, newest first; `POST` drafts."""

    rights = {"GET": "jobs.view", "POST": "operations.run"}
    filters = OperationFilters
    takes = {"POST": NewOperation}
    gives = {"GET": {200: OperationPage}, "POST": {201: OperationShown}}

    def get(self, request: Request, slug: str) -> Response:
        """Operations of the workspace, a page at a time; each by itself has its counts."""
        pages = Keyset[Operation](request)
        asked = OperationFilters.asked(request)
        wanted = Selection(Q(workspace=self.workspace), Q(**asked) if asked else None)
        page = pages.page(Operation.objects.select_related("workspace"), wanted)
        return pages.answer([line_of(operation) for operation in page])

    @idempotent
    def post(self, request: Request, slug: str) -> Response:
        """Freeze a selection and judge each of it. Nothing is done before it is started."""
        said = NewOperation.given(request)
        operation = draft(
            self.workspace,
            said["verb"],
            actor=self.actor,
            ids=said.get("ids", ()),
            matching=",".join(f"{name}={value}" for name, value in said.get("filter", {}).items()),
            care=Care(**said.get("care", {})),
        )
        address = reverse("api-operation", kwargs={"slug": slug, "operation_id": operation.pk})
        location = request.build_absolute_uri(address)
        return Response(account_of(operation), 201, headers={"Location": location})


class OperationView(WorkspaceView):
    """A view about one operation; one of another workspace does not exist: 404."""

    rights: ClassVar[dict[str, str]] = {"GET": "jobs.view"}
    operation: Operation

    def permitted(self, request: Request, **kwargs: Any) -> None:
        found = Operation.objects.select_related("workspace").filter(workspace=self.workspace)
        operation = found.filter(pk=kwargs["operation_id"]).first()
        if operation is None:
            raise no_such_operation(kwargs["operation_id"])
        self.operation = operation

    def without_secrets(self, reason: str) -> str:
        operation = getattr(self, "operation", None)
        return deeds.without_secrets(reason, operation) if operation is not None else reason


class OperationDetail(OperationView):
    """One operation and how many of its items have which outcome."""

    gives = {"GET": {200: OperationShown}}

    def get(self, request: Request, slug: str, operation_id: uuid.UUID) -> Response:
        """The operation as it is now."""
        return Response(account_of(self.operation))


class OperationItems(OperationView):
    """What became of each item, in the order in which they are done."""

    filters = ItemFilters
    gives = {"GET": {200: ItemPage}}

    def get(self, request: Request, slug: str, operation_id: uuid.UUID) -> Response:
        """Items, a page at a time."""
        pages = Keyset[OperationItem](request, "position", number)
        asked = ItemFilters.asked(request)
        wanted = Selection(Q(operation=self.operation), Q(**asked) if asked else None)
        page = pages.page(OperationItem.objects.all(), wanted)
        return pages.answer([item_told(item) for item in page])


class _DeedOnOperation(OperationView):
    """`POST` with a reason does it; the console's service, in the name of the caller."""

    service: ClassVar[Callable[..., Operation]]
    status: ClassVar[int] = 200
    name: ClassVar[str]
    lets_run: ClassVar[bool] = False  # then its size says which right it needs
    takes = {"POST": OperationDeed}
    gives = {"POST": {200: OperationShown}}

    def permitted(self, request: Request, **kwargs: Any) -> None:
        super().permitted(request, **kwargs)
        if request.method == "POST":
            right = right_for(self.operation) if self.lets_run else "operations.run"
            require(self.actor, right, self.workspace)

    def deed(self, request: Request) -> str:
        return f"operation.{self.name}"

    @idempotent
    def post(self, request: Request, slug: str, operation_id: uuid.UUID) -> Response:
        """The operation as it is then."""
        said = OperationDeed.given(request)
        operation = type(self).service(
            self.operation.pk,
            actor=self.actor,
            reason=said["reason"],
            request_id=self.request_id,
        )
        self.job_id = operation.job_id
        return Response(account_of(operation), self.status)


class StartOperation(_DeedOnOperation):
    """`POST` lets a draft run, from now on in the name of the caller."""

    service = staticmethod(deeds.start)
    name = "start"
    status = 202
    lets_run = True
    gives = {"POST": {202: OperationShown}}


class PauseOperation(_DeedOnOperation):
    """`POST` holds a running one: once answered, no item is under way and none begins."""

    service = staticmethod(deeds.pause)
    name = "pause"


class GoOperation(_DeedOnOperation):
    """`POST` lets a paused one go on after its last item, in the name of the caller."""

    service = staticmethod(deeds.resume_operation)
    name = "go"
    status = 202
    lets_run = True
    gives = {"POST": {202: OperationShown}}


class StopOperation(_DeedOnOperation):
    """`POST` ends one where it is, for good; what was done stays done."""

    service = staticmethod(deeds.stop)
    name = "stop"


class ResolveOperation(_DeedOnOperation):
    """`POST` notes that the failures of an ended one were looked after; its alert closes."""

    service = staticmethod(deeds.resolve)
    name = "resolve"
