"""The audit trail: written once by services, and never again."""

from __future__ import annotations

import uuid
from threading import Barrier, Thread
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction

from workspaces import audit
from workspaces.actors import SYSTEM, as_actor
from workspaces.errors import RecordKept
from workspaces.models import AuditEvent, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def acme(db: None) -> Workspace:
    return Workspace.objects.create(slug="acme", name="Acme")


def resolved(workspace: Workspace | None, operation_id: uuid.UUID | None = None) -> AuditEvent:
    return audit.record(
        actor=SYSTEM,
        action="jobs.resolve",
        workspace=workspace,
        object_type="job",
        object_id="7f3c",
        reason="fixed by hand",
        operation_id=operation_id,
        after={"moment": uuid.UUID(int=1)},
    )


def test_an_event_keeps_who_what_why_and_the_request(acme: Workspace) -> None:
    operation_id = uuid.uuid4()
    actor = as_actor(User.objects.create_user("ana", first_name="Ana"))
    written = audit.record(
        actor=actor,
        action="jobs.resume",
        workspace=acme.pk,
        object_type="job",
        object_id=uuid.UUID(int=7),
        reason="registry is \x00back",
        request_id="req-1",
        operation_id=operation_id,
        before={"state": "dead"},
        after={"successor": uuid.UUID(int=8)},
        result="already_done",
    )
    event = AuditEvent.objects.get()
    assert event == written == audit.earlier(operation_id)
    assert (event.workspace, event.actor, event.actor_label) == (acme, actor.id, "Ana")
    assert (event.action, event.object_type, event.object_id) == (
        "jobs.resume",
        "job",
        str(uuid.UUID(int=7)),
    )
    assert (event.reason, event.request_id) == ("registry is back", "req-1")
    assert (event.before, event.after) == (
        {"state": "dead"},
        {"successor": str(uuid.UUID(int=8))},
    )
    assert event.result == "already_done"
    assert str(event) == f"Ana: jobs.resume job {uuid.UUID(int=7)}"


def test_the_trail_outlives_the_person(acme: Workspace) -> None:
    ana = User.objects.create_user("ana")
    audit.record(actor=as_actor(ana), action="x", workspace=acme, object_type="job", object_id="1")
    ana.delete()
    assert AuditEvent.objects.get().actor_label == "ana"


def _save(event: AuditEvent) -> None:
    event.reason = "rewritten"
    event.save()


def _save_a_copy_with_its_id(event: AuditEvent) -> None:
    AuditEvent(pk=event.pk, actor="x", action="x", object_type="x", object_id="x").save()


@pytest.mark.parametrize(
    "rewrite",
    [
        _save,
        lambda event: event.save(update_fields=["reason"]),
        lambda event: event.delete(),
        lambda event: AuditEvent.objects.update(reason="rewritten"),
        lambda event: AuditEvent.objects.all().update(reason="rewritten"),
        lambda event: AuditEvent.objects.all().delete(),
        lambda event: AuditEvent.objects.filter(pk=event.pk).delete(),
        lambda event: AuditEvent.objects.bulk_update([event], ["reason"]),
        lambda event: event.workspace.audit_events.all().delete(),
        lambda event: event.workspace.audit_events.update(reason="rewritten"),
    ],
)
def test_an_event_is_never_changed_or_deleted(
    acme: Workspace, rewrite: Callable[[AuditEvent], object]
) -> None:
    event = resolved(acme)
    with pytest.raises(RecordKept, match="stays as it was written") as caught:
        rewrite(event)
    assert caught.value.code == "record_kept"
    assert list(AuditEvent.objects.values_list("reason", flat=True)) == ["fixed by hand"]


def test_a_new_event_cannot_take_the_place_of_an_old_one(acme: Workspace) -> None:
    event = resolved(acme)
    with pytest.raises(IntegrityError), transaction.atomic():
        _save_a_copy_with_its_id(event)
    assert AuditEvent.objects.get().reason == "fixed by hand"


def test_an_operation_id_is_taken_once_and_the_transaction_stays_usable(acme: Workspace) -> None:
    operation_id = uuid.uuid4()
    first = resolved(acme, operation_id)
    with transaction.atomic():
        with pytest.raises(audit.OperationRepeated) as caught:
            resolved(acme, operation_id)
        assert audit.earlier(operation_id) == first
    assert (caught.value.code, caught.value.status) == ("operation_repeated", 409)


def test_events_without_an_operation_id_do_not_collide(acme: Workspace) -> None:
    resolved(acme)
    resolved(None)
    assert AuditEvent.objects.count() == 2
    assert audit.earlier(None) is None


def test_an_event_falls_with_the_deed_it_records(acme: Workspace) -> None:
    with transaction.atomic():
        resolved(acme)
        transaction.set_rollback(True)
    assert not AuditEvent.objects.exists()


INVISIBLE = ["\u200b\u200d\ufeff", "\u2060 \u00ad", "\u3164\u2800", "\u0301", "\x07\x1b"]


@pytest.mark.parametrize("reason", ["", "  \n", "\x00", *INVISIBLE], ids=ascii)
def test_a_reason_that_nobody_can_read_is_refused(reason: str) -> None:
    with pytest.raises(audit.ReasonRequired, match="Nothing was done") as refused:
        audit.reason_given(reason)
    assert refused.value.code == "reason_required"


def test_a_reason_that_is_too_long_is_refused_as_such() -> None:
    with pytest.raises(audit.ReasonTooLong, match="2001 characters, 2000 are kept") as refused:
        audit.reason_given("x" * (audit.REASON_MAX + 1))
    assert refused.value.code == "reason_too_long"


@pytest.mark.parametrize(
    "reason", ["ok", "已付款", "нет", "👍", "e\u0301", "?", "a\u200bb"], ids=ascii
)
def test_whatever_can_be_read_is_a_reason(reason: str) -> None:
    assert audit.reason_given(reason) == reason


def test_half_a_surrogate_pair_in_a_reason_is_kept_as_a_question_mark() -> None:
    assert audit.reason_given("paid \ud800 twice") == "paid ? twice"


def test_a_reason_is_kept_without_the_space_around_it() -> None:
    assert audit.reason_given("  registry is back\n") == "registry is back"


@pytest.mark.django_db(transaction=True)
def test_of_two_at_once_with_the_same_operation_id_one_is_recorded() -> None:
    acme = Workspace.objects.create(slug="acme", name="Acme")
    operation_id, start, refused = uuid.uuid4(), Barrier(2), list[str]()

    def try_it() -> None:
        try:
            start.wait(10)
            with transaction.atomic():
                resolved(acme, operation_id)
        except audit.OperationRepeated as error:
            refused.append(error.code)
        finally:
            connection.close()

    threads = [Thread(target=try_it) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert refused == ["operation_repeated"]
    assert AuditEvent.objects.filter(operation_id=operation_id).count() == 1


def refused(statement: str) -> None:
    """By the database itself, whoever asks it."""
    resolved(Workspace.objects.create(slug="acme", name="Acme"))

    def rewrite() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)

    with pytest.raises(IntegrityError, match="stays as it was written"):
        rewrite()
    assert AuditEvent.objects.get().reason == "fixed by hand"


@pytest.mark.sqlite
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE workspaces_auditevent SET reason = 'rewritten'",
        "UPDATE workspaces_auditevent SET result = 'done' WHERE id > 0",
        "DELETE FROM workspaces_auditevent",
    ],
)
def test_the_database_refuses_to_rewrite_the_trail(statement: str) -> None:
    refused(statement)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE workspaces_auditevent",
        "TRUNCATE workspaces_workspace CASCADE",
        "INSERT INTO workspaces_auditevent SELECT * FROM workspaces_auditevent"
        " ON CONFLICT (id) DO UPDATE SET reason = 'rewritten'",
    ],
)
def test_postgresql_has_more_ways_to_rewrite_and_refuses_them_too(statement: str) -> None:
    refused(statement)


@pytest.mark.django_db(transaction=True)
def test_conflicting_rows_written_in_bulk_do_not_rewrite_it() -> None:
    event = resolved(Workspace.objects.create(slug="acme", name="Acme"))
    event.reason = "rewritten"
    with pytest.raises(IntegrityError, match="stays as it was written"):
        AuditEvent.objects.bulk_create(
            [event], update_conflicts=True, unique_fields=["id"], update_fields=["reason"]
        )
