"""A deployment's first steps from a shell: a workspace, and somebody who may look into it."""

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from tests.drills.kinds import noop
from workspaces.actors import SYSTEM, as_actor
from workspaces.errors import NoSuchWorkspace, WorkspaceClosed
from workspaces.models import AuditEvent, Workspace
from workspaces.permissions import allowed
from workspaces.visibility import visible_workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


def test_a_workspace_is_made_once(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("workspace", "add", "acme", "--name", "Acme Ltd")
    call_command("workspace", "add", "acme")
    assert Workspace.objects.get(slug="acme").name == "Acme Ltd"
    assert "was there before" in capsys.readouterr().out


@pytest.mark.parametrize("slug", ["Acme", "a b", "", "_x", "a" * 64, "bad\n", "ä"])
def test_what_is_no_slug_is_refused(slug: str) -> None:
    with pytest.raises(CommandError, match="Nothing was made"):
        call_command("workspace", "add", slug)
    assert not Workspace.objects.exists()


@pytest.mark.parametrize("name", ["n" * 201, "two\nlines", "\udcff", "a\0b"], ids=ascii)
def test_a_name_that_cannot_be_shown_in_a_line_is_refused(name: str) -> None:
    with pytest.raises(CommandError, match="Nothing was"):
        call_command("workspace", "add", "acme", "--name", name)
    assert not Workspace.objects.exists()


@pytest.mark.parametrize("slug", ["acme\n", "v\0", "\udcff", "9" * 5000], ids=ascii)
def test_an_odd_slug_names_no_workspace(slug: str) -> None:
    Workspace.objects.create(slug="acme", name="Acme")
    with pytest.raises(CommandError, match="Nothing was done"):
        call_command("workspace", "close", slug, "--reason", "why")
    with pytest.raises(NoSuchWorkspace):
        visible_workspace(SYSTEM, slug)
    with pytest.raises(NoSuchWorkspace):
        noop.s().enqueue(workspace=slug, key="a")


def test_a_member_has_the_rights_of_the_role_in_that_workspace_alone() -> None:
    acme, other = (Workspace.objects.create(slug=slug, name=slug) for slug in ("acme", "other"))
    user = User.objects.create_user("ana")
    call_command("workspace", "member", "ana", "--role", "operator", "--workspace", "acme")
    user.refresh_from_db()
    actor = as_actor(user)
    assert user.is_staff
    assert allowed(actor, "jobs.view", acme)
    assert not allowed(actor, "jobs.view", other)
    assert AuditEvent.objects.filter(action="members.grant").exists()


def test_nobody_is_let_in_by_a_misspelt_name() -> None:
    with pytest.raises(CommandError, match="there is no user"):
        call_command("workspace", "member", "nobody", "--role", "admin")


def test_a_closed_workspace_cancels_what_waits_and_takes_no_more() -> None:
    acme = Workspace.objects.create(slug="acme", name="Acme")
    job = noop.s().enqueue(workspace=acme, key="a", countdown=3600)
    call_command("workspace", "close", "acme", "--reason", "the customer left")
    job.refresh_from_db()
    assert job.state == "cancelled"
    with pytest.raises(WorkspaceClosed):
        noop.s().enqueue(workspace=acme, key="b")
