"""What an owner is asked and told, and what listeners hear, in the transaction of the deed."""

from collections.abc import Callable, Iterator
from threading import Barrier, Thread
from typing import Any

import pytest
from django.db import connection

from jobs import events, registry
from jobs.errors import AlreadyRetried, PlanChanged, Refused, VersionChanged
from jobs.models import Event, Job
from jobs.recovery.cancel import cancel
from jobs.recovery.preflight import preflight
from jobs.recovery.resolve import resolve
from jobs.recovery.retry import retry
from jobs.states import Verb
from jobs.sweep import sweep
from tests.drills.kinds import noop, once, repeatable
from tests.drills.ledger import effects
from tests.integration.kernel.scene import attempt, attempts, counts, seen
from workspaces.actors import SYSTEM
from workspaces.models import AuditEvent, Workspace

pytestmark = [pytest.mark.django_db(transaction=True)]

WHY = "somebody looked into it"


@pytest.fixture
def hooks() -> Iterator[registry.KindSpec]:
    """The kind whose hooks a test may add to; they are gone afterwards."""
    spec = registry.named("drills.repeatable")
    yield spec
    spec.before_hooks.clear()
    spec.after_hooks.clear()


@pytest.fixture
def listening() -> Iterator[Callable[..., None]]:
    """Let a function hear of events, for one test."""
    added: list[events.Receiver] = []

    def listen(function: Callable[[Event], None], *types: str, wants: Any = None) -> None:
        added.append(events.Receiver(frozenset(types), function, wants))
        events._receivers.append(added[-1])

    yield listen
    for receiver in added:
        events._receivers.remove(receiver)


def dead(workspace: Workspace, ledger: str) -> Job:
    job = repeatable.s(ledger=ledger, fault="terminal").enqueue(workspace=workspace, key="a")
    return attempts(job)


def test_an_owner_refuses_a_verb_and_only_that_is_written(
    workspace: Workspace, ledger: str, hooks: registry.KindSpec
) -> None:
    job = dead(workspace, ledger)

    def still_open(_job: Job, _verb: str) -> None:
        raise Refused("order_closed", "Nothing was done: the order is closed.")

    hooks.before_hooks.append(still_open)
    before = counts(Job, Event)
    with pytest.raises(Refused) as caught:
        retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY)
    assert caught.value.code == "order_closed"
    assert counts(Job, Event) == before
    assert AuditEvent.objects.get().result == "order_closed"


def test_an_owner_that_fails_after_a_verb_undoes_the_whole_deed(
    workspace: Workspace, ledger: str, hooks: registry.KindSpec
) -> None:
    job = dead(workspace, ledger)

    def fails(_job: Job, _verb: str, _successor: Job | None) -> None:
        raise ValueError("the owner's rows would not move")

    hooks.after_hooks.append(fails)
    before = counts(Job, Event, AuditEvent)
    with pytest.raises(ValueError, match="would not move"):
        retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY)
    assert counts(Job, Event, AuditEvent) == before


def test_an_owner_is_told_of_verbs_and_final_states(
    workspace: Workspace, ledger: str, hooks: registry.KindSpec
) -> None:
    told: list[tuple[str, bool]] = []
    hooks.after_hooks.append(lambda _job, word, successor: told.append((word, bool(successor))))
    job = dead(workspace, ledger)
    attempts(retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY))
    assert told == [("dead", False), ("resume", True), ("dead", False)]


def test_an_owner_that_fails_on_a_final_state_is_undone_alone_and_told_again(
    workspace: Workspace, ledger: str, hooks: registry.KindSpec
) -> None:
    calls: list[str] = []

    def fails_once(job: Job, word: str, _successor: Job | None) -> None:
        calls.append(word)
        if len(calls) == 1:
            Workspace.objects.filter(pk=job.workspace_id).update(name="half done")
            raise ValueError("not yet")

    hooks.after_hooks.append(fails_once)
    job = dead(workspace, ledger)
    assert seen(job).state == "dead"
    assert Workspace.objects.get(pk=workspace.pk).name == "W"
    assert Event.objects.filter(type="job.hook_failed", delivered_at=None).count() == 1
    assert sweep().delivered == 1
    assert calls == ["dead", "dead"]


def test_a_listener_that_fails_is_undone_alone_and_hears_again(
    workspace: Workspace, ledger: str, listening: Callable[..., None]
) -> None:
    heard: list[int] = []

    def fails_once(event: Event) -> None:
        heard.append(event.pk)
        if len(heard) == 1:
            raise ValueError("secret=hunter2-canary is not ready")

    listening(fails_once, "job.dead")
    job = dead(workspace, ledger)
    event = Event.objects.get(type="job.dead", subject=str(job.pk))
    assert (event.delivered_at, event.tries) == (None, 1)
    assert "canary" not in event.error
    assert sweep().delivered == 1
    assert heard == [event.pk, event.pk]


@pytest.mark.parametrize("wanted", [True, False])
def test_a_plain_success_is_written_only_where_somebody_wants_it(
    workspace: Workspace, listening: Callable[..., None], wanted: bool
) -> None:
    heard: list[str] = []
    listening(lambda event: heard.append(event.type), "job.succeeded", wants=lambda _ws: wanted)
    attempt(noop.s().enqueue(workspace=workspace, key="a"))
    assert heard == (["job.succeeded"] if wanted else [])
    assert Event.objects.filter(type="job.succeeded").exists() is wanted


def test_the_success_of_a_retry_is_always_told(
    workspace: Workspace, ledger: str, listening: Callable[..., None], tmp_path: Any
) -> None:
    heard: list[str] = []
    listening(lambda event: heard.append(event.type), "job.succeeded", wants=lambda _ws: False)
    broken = repeatable.s(ledger=ledger, fault="terminal", once_file=str(tmp_path / "once"))
    job = attempts(broken.enqueue(workspace=workspace, key="a"))
    attempts(retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY))
    assert heard == ["job.succeeded"]


def test_sixteen_retries_at_once_make_one_successor(workspace: Workspace, ledger: str) -> None:
    job = dead(workspace, ledger)
    barrier = Barrier(16)
    answers: list[Any] = []

    def call() -> None:
        try:
            barrier.wait(20)
            answers.append(retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY))
        finally:
            connection.close()

    threads = [Thread(target=call) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == 16
    assert len({answer.pk for answer in answers}) == 1
    assert [answer.created for answer in answers].count(True) == 1
    assert Job.objects.filter(retry_of=job).count() == 1
    assert AuditEvent.objects.filter(action="job.resume").count() == 1


def test_who_chooses_another_mode_second_is_told_who_was_first(
    workspace: Workspace, ledger: str
) -> None:
    job = dead(workspace, ledger)
    successor = retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY)
    with pytest.raises(AlreadyRetried, match=str(successor.pk)):
        retry(job.pk, mode="restart", actor=SYSTEM, reason=WHY)


def test_a_plan_that_changed_since_it_was_read_is_not_done(
    workspace: Workspace, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = dead(workspace, ledger)
    digest = preflight(job, Verb.RESTART, SYSTEM).digest
    assert digest == preflight(job, Verb.RESTART, SYSTEM).digest, "no clock is in it"
    monkeypatch.setattr(registry.named(job.kind), "version", 2)
    with pytest.raises(PlanChanged):
        retry(job.pk, mode="restart", actor=SYSTEM, reason=WHY, digest=digest)
    with pytest.raises(VersionChanged):
        retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY)
    assert retry(job.pk, mode="restart", actor=SYSTEM, reason=WHY).version == 2


def test_a_resolved_dead_letter_says_why_and_is_resolved_once(
    workspace: Workspace, ledger: str
) -> None:
    job = dead(workspace, ledger)
    assert resolve(job.pk, actor=SYSTEM, reason="the order was cancelled").resolved_at is not None
    assert seen(job).resolution == "the order was cancelled"
    assert AuditEvent.objects.get(action="job.resolve").reason == "the order was cancelled"


def test_a_running_job_is_cancelled_at_its_next_boundary(
    workspace: Workspace, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.drills import faults

    job = repeatable.s(ledger=ledger, fault="cancel").enqueue(workspace=workspace, key="a")

    def asks() -> None:
        cancel(job.pk, actor=SYSTEM, reason=WHY)

    monkeypatch.setitem(faults.FAULTS, "cancel", asks)
    assert attempt(job).state == "cancelled"
    assert effects(ledger) == {"first": 1}


def test_uncertain_is_an_event_of_its_own(workspace: Workspace, ledger: str) -> None:
    job = attempts(once.s(ledger=ledger, fault="reset").enqueue(workspace=workspace, key="a"))
    event = Event.objects.get(subject=str(job.pk), type__startswith="job.")
    assert (event.type, event.data["step"]) == ("job.uncertain", "charge")
