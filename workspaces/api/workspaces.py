"""Which workspaces a caller may know of, and closing one."""

from __future__ import annotations

from django.db.models import Q
from rest_framework.request import Request
from rest_framework.response import Response

from workspaces.api.answers import WorkspacePage, WorkspaceShown, line_of, shown
from workspaces.api.filters import NoFilters
from workspaces.closing import close
from workspaces.http.bodies import Body, Reason
from workspaces.http.idempotency import idempotent
from workspaces.http.keyset import Keyset, Selection
from workspaces.http.views import ApiView, WorkspaceView
from workspaces.models import Workspace
from workspaces.visibility import visible_workspaces


class CloseWorkspace(Body):
    """Why a workspace is closed, for good."""

    reason = Reason()


class WorkspaceList(ApiView):
    """`GET` lists the workspaces in which the caller has any role, closed ones too."""

    filters = NoFilters
    gives = {"GET": {200: WorkspacePage}}

    def get(self, request: Request) -> Response:
        """Workspaces by their slug, a page at a time."""
        NoFilters.asked(request)
        pages = Keyset[Workspace](request, "slug", str)
        page = pages.page(visible_workspaces(self.actor), Selection(Q()))
        return pages.answer([line_of(workspace) for workspace in page])


class WorkspaceDetail(WorkspaceView):
    """One workspace. Any role in it is enough."""

    gives = {"GET": {200: WorkspaceShown}}

    def get(self, request: Request, slug: str) -> Response:
        """The workspace, and what the caller may do there."""
        return Response(shown(self.workspace, self.actor))


class Close(WorkspaceView):
    """`POST` closes: no new work, what waits is cancelled, what runs is asked to stop.

    It also ends the tokens of the workspace's own accounts, the caller's too: only an account for
    all workspaces is answered again. Closing a closed one changes nothing.
    """

    rights = {"POST": "workspaces.close"}
    takes = {"POST": CloseWorkspace}
    gives = {"POST": {200: WorkspaceShown}}

    @idempotent
    def post(self, request: Request, slug: str) -> Response:
        """Close it for good."""
        reason = CloseWorkspace.given(request)["reason"]
        closed = close(
            self.workspace.pk, actor=self.actor, reason=reason, request_id=self.request_id
        )
        return Response(shown(closed, self.actor))
