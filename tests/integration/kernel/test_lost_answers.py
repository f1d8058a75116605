"""A commit whose answer was lost, and a connection that dies: nothing is done or told twice."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.db.models.functions import Now

from jobs import events, moves, registry, runner
from jobs.kinds import Defer, Intended, Run, job_kind
from jobs.models import Event, Job
from jobs.sweep import sweep
from jobs.testing import at_step, attempt, drain
from tests.drills.kinds import once, repeatable
from tests.drills.ledger import effects
from tests.integration.kernel.acting import (
    claimed_elsewhere,
    expired,
    outcomes,
    states,
    swept,
    told,
    waiting,
)
from tests.integration.kernel.sessions import cut_off
from tests.integration.meanwhile import meanwhile
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db(transaction=True)


def loses_its_answer(
    monkeypatch: pytest.MonkeyPatch, name: str, *, times: int = 1
) -> Callable[[], int]:
    """Let a move commit and then fail, so often; answers how often it was sent."""
    real, sent = getattr(moves, name), [0]

    def act(*args: Any, **words: Any) -> Any:
        sent[0] += 1
        result = real(*args, **words)
        if sent[0] <= times:
            raise OperationalError("server closed the connection unexpectedly")
        return result

    monkeypatch.setattr(moves, name, act)
    return lambda: sent[0]


def loses_a_commit(monkeypatch: pytest.MonkeyPatch, which: Callable[[], bool]) -> list[bool]:
    """Let the first transaction after which this holds commit and then fail; whether it did."""
    real_exit = transaction.Atomic.__exit__
    lost: list[bool] = []

    def committed(atomic: transaction.Atomic, *error: Any) -> None:
        real_exit(atomic, *error)
        if not lost and not connection.in_atomic_block and which():
            lost.append(True)
            raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(transaction.Atomic, "__exit__", committed)
    return lost


@pytest.mark.sqlite
def test_a_finish_whose_answer_was_lost_is_recognised(
    acme: Workspace, ledger: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sent = loses_its_answer(monkeypatch, "succeed")
    with caplog.at_level(logging.INFO):
        job = attempt(waiting(repeatable.s(ledger=ledger), acme))
    assert (job.state, sent(), outcomes(job)) == ("succeeded", 2, [("succeeded", "")])
    assert "job.late_close" not in caplog.messages
    assert effects(ledger) == {"first": 1, "second": 1}


def deferring(act: Callable[[], object] = list) -> Intended:
    @job_kind("scene.defers")
    def defers(run: Run) -> None:
        act()
        raise Defer(60.0, "not yet")

    return defers.s()


@pytest.mark.sqlite
def test_a_deferral_whose_answer_was_lost_is_recognised(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It leaves no attempt by which to know it again."""
    lost = loses_a_commit(monkeypatch, Job.objects.filter(deferrals=1).exists)
    job = attempt(waiting(deferring(), acme))
    assert (lost, job.state, job.deferrals, outcomes(job)) == ([True], "queued", 1, [])
    assert "job.late_close" not in caplog.messages


@pytest.mark.sqlite
@pytest.mark.parametrize("by", ["reaper", "another worker"])
def test_a_deferral_that_comes_too_late_is_said_to(
    acme: Workspace, caplog: pytest.LogCaptureFixture, by: str
) -> None:
    def taken_away() -> None:
        if by == "reaper":
            swept(expired(job))
        else:
            Job.objects.filter(pk=job.pk).update(worker="another")

    job = waiting(deferring(taken_away), acme)
    attempt(job)
    assert (job.deferrals, "job.late_close" in caplog.messages) == (0, True)


@pytest.mark.sqlite
def test_a_death_whose_answer_was_lost_is_told_once(
    acme: Workspace, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Move, hooks and event are one transaction; its commit is what was lost here."""
    job = waiting(repeatable.s(ledger=ledger, fault="terminal"), acme)
    lost = loses_a_commit(monkeypatch, Event.objects.exists)
    attempt(job)
    assert (lost, job.state, told(job)) == ([True], "dead", ["job.dead"])
    assert outcomes(job) == [("failed", "terminal")]


@pytest.mark.sqlite
@pytest.mark.parametrize("move", ["begin_step", "finish_step"])
def test_a_step_write_whose_answer_was_lost_is_mine_and_the_function_runs_once(
    acme: Workspace, ledger: str, monkeypatch: pytest.MonkeyPatch, move: str
) -> None:
    loses_its_answer(monkeypatch, move)
    job = attempt(waiting(once.s(ledger=ledger), acme))
    assert (job.state, states(job)) == ("succeeded", {"charge": "done", "second": "done"})
    assert effects(ledger) == {"charge": 1, "second": 1}


@pytest.mark.sqlite
def test_a_denial_whose_answer_was_lost_still_closes_the_intent(
    acme: Workspace, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loses_its_answer(monkeypatch, "deny_step")
    job = attempt(waiting(once.s(ledger=ledger, fault="refused"), acme))
    assert (job.state, states(job)) == ("queued", {"charge": "not_done"})


@pytest.mark.sqlite
def test_a_claim_whose_answer_was_lost_costs_one_loss(
    acme: Workspace, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hole that the guarantees name: nobody runs it until its lease is over."""
    job = waiting(repeatable.s(ledger=ledger), acme)
    Job.objects.filter(pk=job.pk).update(run_at=Now())
    with monkeypatch.context() as patch:
        loses_its_answer(patch, "claim")
        with pytest.raises(runner.ClaimUnavailable):
            runner.execute(job.kind, job.pk)
    assert not runner.execute(job.kind, job.pk)
    expired(job)
    sweep(reap_now=True)
    drain()
    job.refresh_from_db()
    assert (job.state, job.losses, job.failures) == ("succeeded", 1, 0)
    assert effects(ledger) == {"first": 1, "second": 1}


@pytest.mark.sqlite
def test_a_database_that_cannot_be_had_for_the_claim_is_the_envelopes_business(
    acme: Workspace, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise OperationalError("connection refused")

    job = waiting(repeatable.s(ledger=ledger), acme)
    monkeypatch.setattr(moves, "claim", away)
    with pytest.raises(runner.ClaimUnavailable, match="connection refused"):
        runner.execute(job.kind, job.pk)
    assert effects(ledger) == {}


@pytest.mark.parametrize("name", ["charge", "second"])
@pytest.mark.parametrize("when", ["before", "started", "during", "after"])
def test_a_connection_that_dies_under_a_run_is_made_anew(
    acme: Workspace, ledger: str, name: str, when: Any
) -> None:
    job = waiting(once.s(ledger=ledger), acme)
    with at_step(name, when, cut_off):
        attempt(job)
    assert (job.state, job.attempt) == ("succeeded", 1)
    assert effects(ledger) == {"charge": 1, "second": 1}


def test_a_connection_that_died_between_two_jobs_is_made_anew(acme: Workspace, ledger: str) -> None:
    """Kept connections never heal by themselves; the claim is what finds out."""
    job = waiting(repeatable.s(ledger=ledger), acme)
    Job.objects.filter(pk=job.pk).update(run_at=Now())
    cut_off()
    assert runner.execute(job.kind, job.pk)
    job.refresh_from_db()
    assert job.state == "succeeded"


def test_a_connection_that_died_in_the_handlers_own_query_is_a_failure_to_be_retried(
    acme: Workspace, ledger: str
) -> None:
    @job_kind("scene.queries")
    def queries(run: Run) -> int:
        if run.attempt == 1:
            cut_off()
        return Workspace.objects.count()

    job = waiting(queries.s(), acme)
    attempt(job)
    first = (job.state, outcomes(job))
    drain()
    job.refresh_from_db()
    assert first == ("queued", [("failed", "database_unavailable")])
    assert (job.state, job.result) == ("succeeded", 1)


def test_a_zombie_that_waits_behind_its_reaper_writes_nothing(acme: Workspace, ledger: str) -> None:
    job = waiting(repeatable.s(ledger=ledger), acme)
    claims: list[Any] = []

    def zombie() -> None:
        assert moves.finish_step(
            claims[0].fence, name="first", effect="repeatable", boundary="", output="1"
        ) is None  # fmt: skip

    Job.objects.filter(pk=job.pk).update(run_at=Now())
    claims.append(moves.claim(job.pk, job.kind, worker="z", lease=60, time_limit=900))
    with meanwhile(zombie):
        Job.objects.select_for_update().get(pk=job.pk)
        expired(job)
        sweep(reap_now=True)
    job.refresh_from_db()
    assert (job.state, states(job), job.losses) == ("queued", {}, 1)


@pytest.mark.parametrize("whose", ["hook", "receiver"])
def test_a_connection_that_dies_under_who_hears_of_the_end_loses_neither_end_nor_telling(
    acme: Workspace, ledger: str, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    """What only raises is told again later; this undid the whole move, which is sent again."""
    heard: list[str] = []

    def hears(*_: object) -> None:
        heard.append(whose)
        if len(heard) == 1:
            cut_off()
            Workspace.objects.count()

    spec = registry.named("drills.repeatable")
    if whose == "hook":
        monkeypatch.setattr(spec, "after_hooks", [hears])
    else:
        events.receives("job.dead")(hears)
    job = attempt(waiting(repeatable.s(ledger=ledger, fault="terminal"), acme))
    assert (job.state, job.attempts.count(), heard) == ("dead", 1, [whose, whose])
    assert told(job) == ["job.dead"]
    assert not Event.objects.filter(delivered_at=None).exists()


def test_a_connection_that_dies_under_a_pass_costs_one_row_and_not_the_others(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in "abc":
        expired(claimed_elsewhere(waiting(repeatable.s(ledger=""), acme, key)))
    real, cuts = moves.retry_later, iter([cut_off])

    def cut_once(*args: Any, **words: Any) -> Any:
        next(cuts, lambda: None)()
        return real(*args, **words)

    monkeypatch.setattr(moves, "retry_later", cut_once)
    first, second = sweep(reap_now=True), sweep(reap_now=True)
    assert (first.reaped, first.faults) == (2, 1)
    assert (second.reaped, second.faults) == (1, 0)
