"""The run as a handler holds it: what it answers, what it refuses, what it keeps."""

from __future__ import annotations

import math
import threading
from decimal import Decimal
from typing import Any

import pytest

from jobs import run as run_module
from jobs.kinds import Defer, Run, Terminal, Transient, job_kind, step
from jobs.models import Attempt, Job
from jobs.recovery.cancel import cancel
from jobs.testing import attempt
from tests.drills import kinds as drills
from tests.drills.ledger import effects, happened
from tests.integration.kernel.acting import ended, outcomes, states, tried, waiting
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


def failure(job: Job) -> Attempt:
    return job.attempts.get()


def test_a_run_knows_its_job(acme: Workspace) -> None:
    seen: dict[str, Any] = {}

    @job_kind("scene.looks")
    def looks(run: Run, *, n: int, more: str = "default") -> dict[str, int]:
        seen.update(run.__dict__, workspace=run.workspace, n=n, more=more)
        return {"n": n}

    job = ended(looks.s(n=3), acme)
    assert (seen["job_id"], seen["key"], seen["root_id"]) == (job.pk, "a", job.pk)
    assert (seen["attempt"], seen["workspace"], seen["n"], seen["more"]) == (1, acme, 3, "default")
    assert (job.state, job.result) == ("succeeded", {"n": 3})


def test_what_comes_back_from_a_step_is_what_any_later_attempt_would_get(
    acme: Workspace,
) -> None:
    got: list[object] = []

    @step("pair")
    def pair() -> Any:
        return {"pair": (1, 2), "big": 1e16}

    @job_kind("scene.pairs", steps=(pair,))
    def pairs(run: Run) -> None:
        got.append(run(pair))
        if run.attempt == 1:
            raise Transient("once")

    ended(pairs.s(), acme)
    assert got == [{"pair": [1, 2], "big": 1e16}] * 2


def test_a_finished_step_is_not_called_again_and_what_is_between_steps_is(
    acme: Workspace, ledger: str
) -> None:
    @job_kind("scene.between", steps=(drills.second,))
    def between(run: Run, *, ledger: str) -> None:
        happened(ledger, "between")
        run(drills.second, ledger)
        run(drills.second, ledger)
        if run.attempt == 1:
            raise Transient("once")

    assert ended(between.s(ledger=ledger), acme).state == "succeeded"
    assert effects(ledger) == {"between": 2, "second": 1}


def test_a_loop_goes_on_at_the_page_it_failed_at(acme: Workspace, ledger: str) -> None:
    intended = drills.pages.s(ledger=ledger, count=4, fail_at=2, once_file=f"{ledger}.once")
    job = ended(intended, acme)
    assert (job.state, job.attempt, job.result) == ("succeeded", 2, 4)
    assert effects(ledger) == {"page0": 1, "page1": 1, "page2": 1, "page3": 1}
    assert sorted(states(job)) == ["page:0", "page:1", "page:2", "page:3"]


# --- what is refused -----------------------------------------------------------------------------


@step("outer")
def outer(run: Run) -> None:
    run(inner)


@step("inner")
def inner() -> None: ...


@step("elsewhere")
def elsewhere() -> None: ...


@step("inner")
def namesake() -> None: ...


def test_steps_do_not_nest(acme: Workspace) -> None:
    @job_kind("scene.nests", steps=(outer, inner))
    def nests(run: Run) -> None:
        run(outer, run)

    job = ended(nests.s(), acme)
    assert (job.state, job.cause, job.attempt) == ("dead", "terminal", 1)
    assert "step 'inner' was called inside step 'outer'" in failure(job).message


def test_steps_do_not_cross_threads(acme: Workspace) -> None:
    faults: list[str] = []

    @job_kind("scene.threads", steps=(inner,))
    def threads(run: Run) -> None:
        def call() -> None:
            try:
                run(inner)
            except RuntimeError as error:
                faults.append(str(error))

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()

    job = ended(threads.s(), acme)
    assert faults == ["step 'inner' was called from another thread than its run's"]
    assert (job.state, states(job)) == ("succeeded", {})


@pytest.mark.parametrize("wrong", [elsewhere, namesake], ids=["undeclared", "namesake"])
def test_a_step_that_is_not_the_kinds_is_refused(acme: Workspace, wrong: Any) -> None:
    @job_kind("scene.stranger", steps=(inner,))
    def stranger(run: Run) -> None:
        run(wrong)

    job = ended(stranger.s(), acme)
    assert (job.state, failure(job).error_class) == ("dead", "LookupError")
    assert f"step {wrong.name!r} is not declared by kind scene.stranger" in failure(job).message
    assert states(job) == {}


def test_a_looping_step_needs_its_turn_and_no_other_has_one(acme: Workspace) -> None:
    @job_kind("scene.turns", steps=(drills.page,))
    def turns(run: Run) -> None:
        run(drills.page, "", 1)

    job = ended(turns.s(), acme)
    assert "step 'page' has many=True: call run(page.at(i), …)" in failure(job).message
    with pytest.raises(TypeError, match="step 'inner' is not declared with many=True"):
        inner.at(1)


@pytest.mark.parametrize("index", ["x" * 200, "a\x00b", "", "\n"])
def test_a_turn_that_could_not_be_stored_is_refused_before_its_effect(index: str) -> None:
    with pytest.raises(ValueError, match="step 'page'"):
        drills.page.at(index)


def test_a_turn_may_have_a_name(acme: Workspace) -> None:
    assert drills.page.at("eu-1:b").name == "page:eu-1:b"


def test_a_job_has_so_many_steps_and_no_more(
    acme: Workspace, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "STEPS_LIMIT", 3)
    job = ended(drills.pages.s(ledger=ledger, count=5), acme)
    assert (job.state, job.cause) == ("dead", "terminal")
    assert "a job may have 3 steps; split this one" in failure(job).message
    assert effects(ledger) == {"page0": 1, "page1": 1, "page2": 1}


@pytest.mark.parametrize("result", [object(), {"n": math.nan}, "a\x00b", "x" * 70_000])
def test_a_result_that_cannot_be_stored_is_terminal_and_the_steps_stay_done(
    acme: Workspace, ledger: str, result: object
) -> None:
    @job_kind("scene.odd_result", steps=(drills.second,))
    def odd_result(run: Run, *, ledger: str) -> object:
        run(drills.second, ledger)
        return result

    job = ended(odd_result.s(ledger=ledger), acme)
    assert (job.state, job.cause, job.attempt) == ("dead", "terminal", 1)
    assert (failure(job).step, failure(job).error_class) == ("", "jobs.params.OutputRejected")
    assert states(job) == {"second": "done"}


# --- where it failed -----------------------------------------------------------------------------


@step("stumbles")
def stumbles() -> None:
    raise Terminal("inside")


def test_a_failure_inside_a_step_is_put_down_to_it_however_it_was_wrapped(
    acme: Workspace,
) -> None:
    @job_kind("scene.wraps", steps=(stumbles,))
    def wraps(run: Run) -> None:
        try:
            run(stumbles)
        except Terminal as error:
            raise ValueError("wrapped") from error

    last = failure(ended(wraps.s(), acme))
    assert (last.step, last.error_class) == ("stumbles", "ValueError")


def test_a_failure_after_a_step_whose_own_was_handled_is_not_put_down_to_it(
    acme: Workspace,
) -> None:
    @job_kind("scene.recovers", steps=(stumbles,))
    def recovers(run: Run) -> None:
        try:
            run(stumbles)
        except Terminal:
            pass
        raise ValueError("of its own")

    last = failure(ended(recovers.s(), acme))
    assert (last.step, last.message) == ("", "of its own")


# --- what is kept besides ------------------------------------------------------------------------


def kept(acme: Workspace, act: Any) -> Job:
    @job_kind("scene.keeps", redact=("secret",))
    def keeps(run: Run, *, secret: str) -> None:
        act(run)

    return ended(keeps.s(secret="canary-4711"), acme)


@pytest.mark.parametrize(
    ("fraction", "shown"),
    [(0.5, 0.5), (7, 1.0), (-1, 0.0), (math.nan, 0.0), (math.inf, 1.0)],
)
def test_progress_is_a_fraction(acme: Workspace, fraction: float, shown: float) -> None:
    job = kept(acme, lambda run: run.progress(fraction, "half-way"))
    assert job.progress == {"fraction": shown, "text": "half-way"}


def test_progress_is_scrubbed_and_short(acme: Workspace) -> None:
    job = kept(acme, lambda run: run.progress(0.5, "canary-4711\x00" + "x" * 1000))
    assert job.progress is not None
    assert "canary" not in job.progress["text"]
    assert len(job.progress["text"]) == 500


def test_costs_in_one_currency_add_up(acme: Workspace) -> None:
    def spend(run: Run) -> None:
        run.record_cost(1.5, "EUR", "req-1")
        run.record_cost(2, "EUR")

    last = kept(acme, spend).attempts.get()
    assert last.cost == {"amount": 3.5, "currency": "EUR"}
    assert last.provider_request_id == "req-1"


def test_costs_of_a_failed_attempt_are_kept_too(acme: Workspace) -> None:
    def spend(run: Run) -> None:
        run.record_cost(1.5, "EUR")
        raise Terminal("and then")

    last = kept(acme, spend).attempts.get()
    assert (last.outcome, last.cost) == ("failed", {"amount": 1.5, "currency": "EUR"})


@pytest.mark.parametrize(
    ("amount", "currency", "cost"),
    [
        (Decimal("1.5"), "EUR", {"amount": 1.5, "currency": "EUR"}),
        (math.nan, "EUR", None),
        (math.inf, "EUR", None),
        ("free", "EUR", None),
        (1, "E\x00R", {"amount": 1.0, "currency": "E\N{REPLACEMENT CHARACTER}R"}),
    ],
)
def test_a_cost_that_is_no_number_never_stands_in_the_way_of_the_job(
    acme: Workspace, amount: Any, currency: str, cost: object
) -> None:
    job = kept(acme, lambda run: run.record_cost(amount, currency, "req\x00canary-4711"))
    assert job.state == "succeeded"
    assert job.attempts.get().cost == cost
    assert "canary" not in job.attempts.get().provider_request_id


def test_a_check_between_steps_stops_a_cancelled_run(acme: Workspace, ledger: str) -> None:
    @job_kind("scene.checks", steps=(drills.second,))
    def checks(run: Run, *, ledger: str) -> None:
        cancel(run.job_id, actor=SYSTEM, reason="no longer wanted")
        run(drills.second, ledger)
        happened(ledger, "before the check")
        run.check()
        happened(ledger, "after the check")

    job = tried(checks.s(ledger=ledger), acme)
    assert (job.state, outcomes(job)) == (
        "cancelled",
        [("cancelled", "cancelled at a step boundary")],
    )
    assert effects(ledger) == {"second": 1, "before": 1}


def test_stops_pass_through_a_handler_that_swallows_every_exception(
    acme: Workspace, ledger: str
) -> None:
    @job_kind("scene.careless", steps=(drills.second,))
    def careless(run: Run, *, ledger: str) -> str:
        try:
            raise Defer(60, "not yet")
        except Exception:  # noqa: BLE001  careless on purpose
            return "swallowed"

    job = tried(careless.s(ledger=ledger), acme)
    assert (job.state, job.wait_reason, job.result) == ("queued", "deferred", None)


# --- deferring -----------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [30.0, math.inf, -5.0, math.nan, 1e300])
def test_a_deferral_uses_no_budget_and_leaves_no_attempt(acme: Workspace, delay: float) -> None:
    @job_kind("scene.defers", deadline=None)
    def defers(run: Run) -> None:
        if run.attempt == 1:
            raise Defer(delay, "not yet")

    job = tried(defers.s(), acme)
    assert (job.state, job.wait_reason) == ("queued", "deferred")
    assert (job.attempt, job.failures, job.losses, job.deferrals) == (1, 0, 0, 1)
    assert job.wait_since is not None
    assert not job.attempts.exists()
    attempt(job)
    assert (job.state, list(job.attempts.values_list("number", flat=True))) == ("succeeded", [2])


@pytest.mark.parametrize("delay", [math.inf, 1e300])
def test_a_retry_in_an_endless_while_is_still_a_retry(acme: Workspace, delay: float) -> None:
    @job_kind("scene.endless", deadline=None)
    def endless(run: Run) -> None:
        raise Transient("later", delay=delay)

    job = waiting(endless.s(), acme)
    attempt(job)
    assert (job.state, job.wait_reason, job.attempts.get().delay) == ("queued", "retry", 1e9)
