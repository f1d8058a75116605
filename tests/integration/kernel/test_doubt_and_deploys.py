"""What was begun stays in doubt when a later release declares its step otherwise, or not at all."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from jobs.kinds import DidNotHappen, Happened, Intended, Intent, Run, job_kind, step
from jobs.models import Job, Step
from jobs.steps import Step as Declared
from jobs.testing import attempt, crash_at, drain
from jobs.testing.points import When
from tests.drills.ledger import effects, happened
from tests.integration.kernel.acting import outcomes, states, waiting
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

DAY = timedelta(hours=24)
SENT = {"prepare": 1, "post": 1}
UNCERTAIN = ("dead", "uncertain", 2)


def posts(ledger: str) -> dict[str, int]:
    happened(ledger, "post")
    return {"sent": 1}


def posts_keyed(key: str, ledger: str) -> dict[str, int]:
    return posts(ledger)


def denies(intent: Intent, ledger: str) -> DidNotHappen:
    happened(ledger, "asked")
    return DidNotHappen()


def finds(intent: Intent, ledger: str) -> Happened:
    happened(ledger, "asked")
    return Happened({"sent": 1})


def release(declared: Declared[..., Any], *, version: int = 1, turn: str = "") -> Intended:
    """The kind as a release has it: one step before, and the one that posts."""

    @step("prepare", carry=False)
    def prepare(ledger: str) -> None:
        happened(ledger, "prepare")

    @job_kind("scene.deployed", steps=(prepare, declared), version=version, retry_backoff=1)
    def deployed(run: Run, *, ledger: str) -> object:
        run(prepare, ledger)
        run.check()
        return run(declared.at(turn) if turn else declared, ledger)

    return deployed.s(ledger="")


def begun(
    before: Declared[..., Any],
    acme: Workspace,
    ledger: str,
    *,
    turn: str = "",
    when: When = "during",
) -> Job:
    """A job whose process died in the step, as the release before declared it: after its effect."""
    intended = release(before, turn=turn)
    job = waiting(Intended(intended.spec, {"ledger": ledger}), acme)
    with crash_at(before.name, when):
        attempt(job)
    return job


def ended(job: Job) -> Job:
    drain()
    job.refresh_from_db()
    return job


def late(job: Job, name: str = "post") -> None:
    """Let the worker of the first attempt bring the step's output after all."""
    Step.objects.filter(job=job, name=name).update(late_output={"sent": 1}, late_at=Now())


ONCE = step.once("post")(posts)
KEYED = step.keyed("post", remembers=DAY)(posts_keyed)
NO_INTENT = {"repeatable": step("post")(posts), "local": step.local("post")(posts)}


@pytest.mark.parametrize("now", sorted(NO_INTENT))
@pytest.mark.parametrize("before", [ONCE, KEYED], ids=["once", "keyed"])
@pytest.mark.parametrize("version", [1, 2])
def test_what_was_begun_stays_in_doubt_whatever_it_is_called_now(
    acme: Workspace, ledger: str, before: Declared[..., Any], now: str, version: int
) -> None:
    """Without the key of a keyed step, sending again is no more safe."""
    job = begun(before, acme, ledger)
    release(NO_INTENT[now], version=version)
    ended(job)
    assert (job.state, job.cause, job.attempt) == UNCERTAIN
    assert "step post: it was started as another than" in outcomes(job)[-1][1]
    assert effects(ledger) == SENT
    assert states(job)["post"] == "started"


@pytest.mark.parametrize("now", sorted(NO_INTENT))
def test_a_late_output_settles_it_all_the_same(acme: Workspace, ledger: str, now: str) -> None:
    job = begun(ONCE, acme, ledger)
    late(job)
    release(NO_INTENT[now])
    ended(job)
    assert (job.state, job.result) == ("succeeded", {"sent": 1})
    assert effects(ledger) == SENT


@pytest.mark.parametrize(("before", "now"), [(ONCE, KEYED), (KEYED, ONCE)], ids=["key", "no key"])
def test_between_once_and_keyed_nothing_is_sent_again_on_a_guess(
    acme: Workspace, ledger: str, before: Declared[..., Any], now: Declared[..., Any]
) -> None:
    job = begun(before, acme, ledger)
    release(now)
    ended(job)
    assert (job.state, job.cause, job.attempt) == UNCERTAIN
    assert effects(ledger) == SENT


def test_a_release_that_can_ask_asks(acme: Workspace, ledger: str) -> None:
    job = begun(ONCE, acme, ledger)
    release(step.keyed("post", remembers=DAY, reconcile=finds)(posts_keyed))
    ended(job)
    assert (job.state, job.result) == ("succeeded", {"sent": 1})
    assert effects(ledger) == {**SENT, "asked": 1}


def test_what_surely_did_not_happen_is_done_as_it_is_declared_now(
    acme: Workspace, ledger: str
) -> None:
    job = begun(ONCE, acme, ledger, when="started")
    release(step.keyed("post", remembers=DAY, reconcile=denies)(posts_keyed))
    ended(job)
    row = job.steps.get(name="post")
    assert (job.state, row.state) == ("succeeded", "done")
    assert effects(ledger) == {"prepare": 1, "asked": 1, "post": 1}


RENAMED = {
    "once": step.once("send")(posts),
    "repeatable": step("send")(posts),
    "asks": step.once("send", reconcile=denies)(posts),
}


@pytest.mark.parametrize("now", sorted(RENAMED))
@pytest.mark.parametrize("before", [ONCE, KEYED], ids=["once", "keyed"])
@pytest.mark.parametrize("version", [1, 2])
def test_what_was_begun_under_a_name_that_is_gone_stops_the_job_before_any_effect(
    acme: Workspace, ledger: str, before: Declared[..., Any], now: str, version: int
) -> None:
    """A key is made of the name: under another one the provider would not know it again."""
    job = begun(before, acme, ledger)
    release(RENAMED[now], version=version)
    ended(job)
    assert (job.state, job.cause, job.attempt) == UNCERTAIN
    assert "step post" in outcomes(job)[-1][1]
    assert "renamed or removed" in outcomes(job)[-1][1]
    assert effects(ledger) == SENT


PAGES = step.once("page", many=True)(posts)


def test_a_turn_of_a_loop_belongs_to_the_loop(acme: Workspace, ledger: str) -> None:
    job = begun(PAGES, acme, ledger, turn="17", when="started")
    release(step.once("page", many=True, reconcile=denies)(posts), turn="17")
    ended(job)
    assert (job.state, effects(ledger)) == ("succeeded", {"prepare": 1, "asked": 1, "post": 1})


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (PAGES, step.once("page")(posts)),
        (PAGES, step.once("pages", many=True)(posts)),
        (step.once("page")(posts), PAGES),
    ],
    ids=["no loop now", "renamed", "a loop now"],
)
def test_a_turn_of_no_loop_is_gone(
    acme: Workspace, ledger: str, before: Declared[..., Any], now: Declared[..., Any]
) -> None:
    job = begun(before, acme, ledger, turn="17" if before.many else "")
    release(now, turn="17" if now.many else "")
    ended(job)
    assert (job.state, job.cause, job.attempt) == UNCERTAIN
    assert "renamed or removed" in outcomes(job)[-1][1]
    assert effects(ledger) == SENT


@pytest.mark.parametrize("done", ["late", "not_done"])
def test_what_has_an_outcome_may_be_gone(acme: Workspace, ledger: str, done: str) -> None:
    """*Hole:* the same thing under another name is a new step, and is done."""
    job = begun(ONCE, acme, ledger)
    if done == "late":
        late(job)
    else:
        Step.objects.filter(job=job, name="post").update(state="not_done")
    release(RENAMED["once"])
    ended(job)
    assert (job.state, effects(ledger)) == ("succeeded", {"prepare": 1, "post": 2})
