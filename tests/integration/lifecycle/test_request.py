"""Who may ask for a workspace, what asking twice does, and when one may close."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.test import Client

from jobs.errors import KeyConflict, ParamsInvalid
from jobs.models import Job
from jobs.recovery.cancel import cancel
from jobs.recovery.reconcile import reconcile
from provisioning.lifecycle.models import Lifecycle
from provisioning.lifecycle.request import request
from tests.integration.lifecycle.looking import lifecycle_of, requested
from tests.integration.lifecycle.workers import DIES_BEFORE_THE_START, reaped, worker
from workspaces import closing
from workspaces.actors import SYSTEM
from workspaces.errors import WorkspaceClosed
from workspaces.models import AuditEvent, Membership, Workspace
from workspaces.permissions import NotAllowed


def person(role: str, workspace: Workspace | None) -> User:
    user = User.objects.create_user(f"{role}-{workspace}", is_staff=True)
    Membership.objects.create(user=user, workspace=workspace, role=role)
    return user


def test_a_request_is_recorded_with_who_made_it(workspace: Workspace) -> None:
    user = person("operator", workspace)

    lifecycle = request(workspace, actor=user, request_id="req-12345678")

    (event,) = AuditEvent.objects.filter(action="workspace.provision")
    assert (lifecycle.state, lifecycle.requested_by) == ("provisioning", f"user:{user.pk}")
    assert (event.actor, event.request_id) == (f"user:{user.pk}", "req-12345678")
    assert Job.objects.get().request_id == "req-12345678"


def test_a_viewer_may_not_ask(workspace: Workspace) -> None:
    with pytest.raises(NotAllowed):
        request(workspace, actor=person("viewer", workspace))

    assert not Lifecycle.objects.exists()


def test_a_closed_workspace_is_refused_and_nothing_is_written(workspace: Workspace) -> None:
    closing.close(workspace.pk, actor=SYSTEM, reason="gone")

    with pytest.raises(WorkspaceClosed):
        request(workspace, actor=SYSTEM)

    assert not Lifecycle.objects.exists()


def test_what_is_no_json_is_refused_and_nothing_is_written(workspace: Workspace) -> None:
    with pytest.raises(ParamsInvalid):
        request(workspace, actor=SYSTEM, variables={"size": object()})

    assert not Lifecycle.objects.exists()


def test_asking_again_for_something_else_is_a_conflict(workspace: Workspace) -> None:
    request(workspace, actor=SYSTEM)

    with pytest.raises(KeyConflict):
        request(workspace, actor=SYSTEM, variables={"fail_at": "app"})

    assert Job.objects.count() == 1


def test_requests_at_once_make_one_job(workspace: Workspace) -> None:
    def once(_: int) -> object:
        try:
            return request(workspace, actor=SYSTEM).job_id
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        asked = set(pool.map(once, range(8)))

    assert asked == {Job.objects.get().pk}


def test_a_failed_workspace_is_not_begun_again_by_asking(workspace: Workspace) -> None:
    job = requested(workspace)
    cancel(job.pk, actor=SYSTEM, reason="a test")

    again = request(workspace, actor=SYSTEM)

    assert (again.state, again.job_id) == ("provision_failed", job.pk)


@pytest.mark.parametrize(
    "wrong",
    [{"state": "purged"}, {"state": "ready"}, {"state": "requested"}, {"job_id": None}],
    ids=str,
)
def test_the_database_refuses_a_lifecycle_that_cannot_be(
    workspace: Workspace, wrong: dict[str, object]
) -> None:
    requested(workspace)

    with pytest.raises(IntegrityError), transaction.atomic():
        Lifecycle.objects.update(**wrong)


def test_a_workspace_closes_once_nothing_of_its_apply_is_in_doubt(workspace: Workspace) -> None:
    job = requested(workspace)
    with worker(job, before=DIES_BEFORE_THE_START) as process:
        process.wait(60)
    cancel(reaped(job).pk, actor=SYSTEM, reason="it has to close")

    with pytest.raises(closing.CloseRefused) as refused:
        closing.close(workspace.pk, actor=SYSTEM, reason="gone")
    reconcile(job.pk, step="apply", outcome="did_not_happen", actor=SYSTEM, reason="looked")
    closing.close(workspace.pk, actor=SYSTEM, reason="gone")

    assert str(job.pk) in refused.value.sentence
    workspace.refresh_from_db()
    assert workspace.closed_at is not None


def test_closing_cancels_what_waits_and_fails_the_lifecycle(workspace: Workspace) -> None:
    job = requested(workspace)

    closing.close(workspace.pk, actor=SYSTEM, reason="gone")

    job.refresh_from_db()
    assert job.state == "cancelled"
    assert lifecycle_of(workspace).state == "provision_failed"


@pytest.mark.parametrize(("role", "sees"), [("viewer", True), (None, False)])
def test_the_console_lists_what_the_reader_may_see(
    workspace: Workspace, client: Client, role: str | None, sees: bool
) -> None:
    lifecycle = request(workspace, actor=SYSTEM)
    elsewhere = Workspace.objects.create(slug="elsewhere", name="Elsewhere")
    client.force_login(person(role or "admin", workspace if role else elsewhere))

    listed = client.get("/admin/lifecycle/lifecycle/", {"q": str(lifecycle.job_id)})
    page = f"/admin/lifecycle/lifecycle/{lifecycle.pk}/change/"
    shown = client.get(page)

    assert (page in listed.content.decode()) is sees
    assert (shown.status_code == 200) is sees
    assert client.get("/admin/lifecycle/lifecycle/add/").status_code == 403
