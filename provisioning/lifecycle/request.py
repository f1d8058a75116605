"""How is a workspace asked for? Its record and its job commit together, or neither does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction

from provisioning.lifecycle.kinds import provision
from provisioning.lifecycle.models import Lifecycle
from provisioning.lifecycle.moves import move
from provisioning.lifecycle.states import BEGIN
from workspaces import audit
from workspaces.actors import Actor, as_actor
from workspaces.permissions import require

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from workspaces.models import Workspace


def request(
    workspace: Workspace,
    *,
    actor: Actor | User,
    variables: dict[str, Any] | None = None,
    request_id: str = "",
) -> Lifecycle:
    """Have a workspace provisioned; asked again, it answers how the first request stands.

    `variables` are more of the module's variables, JSON and free of secrets. A failed
    provisioning is not begun again here: retry its job, which keeps what is finished.

    Raises, having written nothing: NotAllowed, WorkspaceClosed, KeyConflict (asked before with
    other variables), ParamsInvalid, ParamsTooLarge.
    """
    who = as_actor(actor)
    attempt = audit.Attempt(
        who, "workspace.provision", workspace.pk, "workspace", workspace.pk, request_id=request_id
    )
    with audit.attempted(attempt):
        require(who, "jobs.enqueue", workspace)
        lifecycle = _requested(workspace, who, variables or {}, request_id)
    lifecycle.refresh_from_db()
    return lifecycle


def _requested(
    workspace: Workspace, who: Actor, variables: dict[str, Any], request_id: str
) -> Lifecycle:
    with transaction.atomic():
        lifecycle, _ = Lifecycle.objects.get_or_create(
            workspace=workspace, defaults={"requested_by": who.id}
        )
        job = provision.s(slug=workspace.slug, variables=variables).enqueue(
            workspace=workspace,
            key=f"provision:{lifecycle.pk}",
            actor=who,
            request_id=request_id,
        )
        if move(Lifecycle.objects.filter(pk=lifecycle.pk), BEGIN, job_id=job.pk):
            _record(lifecycle, who, request_id)
    return lifecycle


def _record(lifecycle: Lifecycle, actor: Actor, request_id: str) -> None:
    audit.record(
        actor=actor,
        action="workspace.provision",
        workspace=lifecycle.workspace_id,
        object_type="lifecycle",
        object_id=lifecycle.pk,
        request_id=request_id,
    )
