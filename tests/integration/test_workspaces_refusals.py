"""What is refused is in the audit trail too, whichever door it was tried through."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from jobs.errors import NotRetryable
from tests.drills.kinds import noop
from workspaces import audit, closing
from workspaces.actors import SYSTEM, Actor, Grant
from workspaces.audit import Attempt
from workspaces.errors import FiredoorError, NoSuchWorkspace
from workspaces.models import AuditEvent, Workspace
from workspaces.permissions import NotAllowed, Role

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

WHY = "the contract ended"


def viewer(workspace: Workspace) -> Actor:
    return Actor("user:7", "Vic", (Grant(Role.VIEWER, workspace.pk),))


def trail() -> list[tuple[str, str]]:
    return list(AuditEvent.objects.order_by("pk").values_list("action", "result"))


def test_a_deed_without_the_right_is_on_record_with_its_reason(acme: Workspace) -> None:
    with pytest.raises(NotAllowed):
        closing.close(acme.pk, actor=viewer(acme), reason=WHY, request_id="req-12345")

    event = AuditEvent.objects.get()
    assert (event.actor, event.actor_label, event.workspace) == ("user:7", "Vic", acme)
    assert (event.action, event.object_type, event.object_id) == (
        "workspaces.close",
        "workspace",
        str(acme.pk),
    )
    assert (event.reason, event.request_id, event.result) == (WHY, "req-12345", "not_allowed")
    assert (event.before, event.after, event.operation_id) == (None, None, None)


def test_what_the_deed_had_written_is_gone_before_its_refusal_is_recorded(acme: Workspace) -> None:
    def refused() -> None:
        with audit.attempted(Attempt(SYSTEM, "x.do", acme.pk, "x", 1)), transaction.atomic():
            Workspace.objects.create(slug="half-made", name="Half made")
            raise NotRetryable("Nothing was done: it is over.")

    with pytest.raises(NotRetryable):
        refused()
    assert trail() == [("x.do", "not_retryable")]
    assert not Workspace.objects.filter(slug="half-made").exists()


def test_a_deed_within_a_deed_is_one_refusal_named_by_the_outer(acme: Workspace) -> None:
    def refused() -> None:
        with (
            audit.attempted(Attempt(SYSTEM, "outer.do", acme.pk, "x", 1)),
            transaction.atomic(),
            audit.attempted(Attempt(SYSTEM, "inner.do", acme.pk, "y", 2)),
        ):
            raise NotRetryable("Nothing was done: it is over.")

    with pytest.raises(NotRetryable):
        refused()
    assert trail() == [("outer.do", "not_retryable")]


def test_inside_somebody_elses_transaction_the_owner_records_it(acme: Workspace) -> None:
    def refused() -> None:
        with transaction.atomic():
            closing.close(acme.pk, actor=viewer(acme), reason=WHY)

    with pytest.raises(NotAllowed) as caught:
        refused()
    before = trail()
    audit.record_refusal(caught.value)
    audit.record_refusal(caught.value)

    assert before == []
    assert trail() == [("workspaces.close", "not_allowed")]


@pytest.mark.parametrize(
    ("reason", "workspace_id", "raised"),
    [("", None, audit.ReasonRequired), (WHY, 10**6, NoSuchWorkspace)],
    ids=["bad input", "not found"],
)
def test_bad_input_and_what_one_may_not_know_of_are_not_recorded(
    acme: Workspace, reason: str, workspace_id: int | None, raised: type[FiredoorError]
) -> None:
    with pytest.raises(raised):
        closing.close(workspace_id or acme.pk, actor=SYSTEM, reason=reason)
    assert trail() == []


def test_a_reason_that_is_too_long_is_cut_for_the_record(acme: Workspace) -> None:
    with pytest.raises(NotAllowed):
        closing.close(acme.pk, actor=viewer(acme), reason="x" * 3000)
    assert len(AuditEvent.objects.get().reason) == audit.REASON_MAX


def test_a_refusal_that_cannot_be_recorded_stands_all_the_same(
    acme: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    """No such workspace: the row's foreign key fails when it is written."""
    with (
        pytest.raises(NotRetryable),
        audit.attempted(Attempt(SYSTEM, "x.do", 10**6, "x", 1)),
    ):
        raise NotRetryable("Nothing was done: it is over.")
    assert "audit.refusal_not_recorded" in caplog.text
    assert trail() == []


def test_a_command_that_is_refused_leaves_its_line(acme: Workspace) -> None:
    job = noop.s().enqueue(workspace=acme, key="a", countdown=3600)
    with pytest.raises(CommandError, match="not_retryable"):
        call_command("job", "retry", str(job.pk), "--reason", WHY, stdout=io.StringIO())
    event = AuditEvent.objects.get()
    assert (event.actor, event.action, event.object_id, event.reason, event.result) == (
        "system",
        "job.resume",
        str(job.pk),
        WHY,
        "not_retryable",
    )


def test_what_is_done_says_so(acme: Workspace, rights: Callable[[Role], Actor]) -> None:
    closing.close(acme.pk, actor=rights(Role.ADMIN), reason=WHY)
    assert trail() == [("workspaces.close", audit.DONE)]


@pytest.fixture
def rights(acme: Workspace) -> Callable[[Role], Actor]:
    return lambda role: Actor("user:8", "Ada", (Grant(role, acme.pk),))
