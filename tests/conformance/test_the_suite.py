"""The suite itself: each of its scenarios fails for a kind that breaks the rule it is about."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jobs import registry
from jobs.kinds import (
    CannotTell,
    DidNotHappen,
    Happened,
    Intent,
    Job,
    Kind,
    Refused,
    Run,
    job_kind,
    step,
)
from jobs.testing import assert_conformant, at_step, crash_at, drain, scenarios
from tests.drills.kinds import not_happened, repeatable
from tests.drills.ledger import effects, happened
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


@pytest.fixture(autouse=True)
def _own_kinds() -> Iterator[None]:
    """Kinds that a test registers are gone after it."""
    before = dict(registry.KINDS)
    yield
    registry.KINDS.clear()
    registry.KINDS.update(before)


@pytest.fixture
def acme() -> Workspace:
    return Workspace.objects.create(slug="acme", name="Acme")


@pytest.fixture
def params(tmp_path: Path) -> Callable[[], Mapping[str, Any]]:
    numbers = itertools.count()
    return lambda: {"ledger": str(tmp_path / f"{next(numbers)}")}


def check(kind: Kind[..., Any], name: str, params: Any, acme: Workspace, **more: Any) -> None:
    found = {s.name: s for s in scenarios(kind, params, workspace=acme, **more)}
    found[name].check()


def test_a_good_kind_passes_every_scenario(acme: Workspace, params: Any) -> None:
    assert_conformant(repeatable, params, workspace=acme)


def test_a_reconcile_that_denies_what_happened_is_caught(acme: Workspace, params: Any) -> None:
    with pytest.raises(AssertionError, match="step charge_lost ran 2 times, not 1"):
        check(not_happened, "crash during charge_lost", params, acme)


def test_a_reconcile_that_makes_up_what_never_happened_is_caught(
    acme: Workspace, params: Any
) -> None:
    def dream(intent: Intent, ledger: str) -> Happened:
        return Happened({})

    @step.once("pay", reconcile=dream)
    def pay(ledger: str) -> dict[str, Any]:
        happened(ledger, "pay")
        return {}

    @job_kind("scene.dreams", steps=(pay,))
    def dreams(run: Run, *, ledger: str) -> None:
        run(pay, ledger)

    with pytest.raises(AssertionError, match="step pay never ran"):
        check(dreams, "crash started pay", params, acme)


def test_an_effect_outside_its_step_is_caught(acme: Workspace, params: Any) -> None:
    @step.keyed("pay", remembers=timedelta(hours=1))
    def pay(key: str, ledger: str) -> dict[str, Any]:
        return {}

    @job_kind("scene.leaky", steps=(pay,))
    def leaky(run: Run, *, ledger: str) -> None:
        happened(ledger, "pay")
        run(pay, ledger)

    def counted(given: Mapping[str, Any]) -> Mapping[str, int]:
        return {"pay": effects(given["ledger"])["pay"]}

    with pytest.raises(AssertionError, match="the effect of step pay happened 2 times"):
        check(leaky, "crash before pay", params, acme, effects=counted)


def test_a_key_made_of_chance_is_caught(acme: Workspace, params: Any) -> None:
    """The step ignores the kernel's key; what the provider saw gives it away."""
    numbers = itertools.count()

    @step.keyed("pay", remembers=timedelta(hours=1))
    def pay(key: str, ledger: str) -> dict[str, Any]:
        happened(ledger, f"pay-under-{next(numbers)}")
        return {}

    @job_kind("scene.by_chance", steps=(pay,))
    def by_chance(run: Run, *, ledger: str) -> None:
        run(pay, ledger)

    def counted(given: Mapping[str, Any]) -> Mapping[str, int]:
        return {"pay": len(effects(given["ledger"]))}

    with pytest.raises(AssertionError, match="the effect of step pay happened 2 times"):
        check(by_chance, "crash during pay", params, acme, effects=counted)


def test_a_declared_step_that_the_params_never_reach_is_caught(
    acme: Workspace, params: Any
) -> None:
    @step("unmet")
    def unmet() -> None: ...

    @job_kind("scene.unmet", steps=(unmet,))
    def skips(run: Run, *, ledger: str) -> None: ...

    with pytest.raises(AssertionError, match="the params never lead to step unmet"):
        check(skips, "runs every step once", params, acme)
    with pytest.raises(AssertionError, match="no run died during step 'unmet'"):
        check(skips, "crash during unmet", params, acme)


def test_a_secret_that_the_kinds_rule_forgets_is_caught(acme: Workspace, params: Any) -> None:
    @step("tell")
    def tell(ledger: str) -> dict[str, Any]:
        return {"number": "canary-4711"}

    @job_kind("scene.tells", steps=(tell,), max_retries=0)
    def tells(run: Run, *, ledger: str) -> None:
        run(tell, ledger)

    with pytest.raises(AssertionError, match=r"a secret of step tell shows in .*jobs.Attempt"):
        check(tells, "hides its secrets", params, acme, secrets=("canary-4711",))


def test_a_kind_whose_hook_refuses_a_retry_is_left_alone(acme: Workspace, params: Any) -> None:
    @step("one")
    def one(ledger: str) -> None: ...

    @job_kind("scene.refuses", steps=(one,))
    def refuses(run: Run, *, ledger: str) -> None:
        run(one, ledger)

    @refuses.before
    def never(job: Job, verb: str) -> None:
        raise Refused("never", "Nothing was done: never.")

    check(refuses, "resume at one", params, acme)
    check(refuses, "restart at one", params, acme)


def test_a_kind_that_cannot_tell_is_reconciled_by_what_really_happened(
    acme: Workspace, params: Any
) -> None:
    def shrug(intent: Intent, ledger: str) -> CannotTell | DidNotHappen:
        return CannotTell("no records are kept")

    @step.once("pay", reconcile=shrug)
    def pay(ledger: str) -> dict[str, Any]:
        happened(ledger, "pay")
        return {"paid": True}

    @job_kind("scene.shrugs", steps=(pay,), max_losses=0)
    def shrugs(run: Run, *, ledger: str) -> dict[str, Any]:
        return run(pay, ledger)

    def counted(given: Mapping[str, Any]) -> Mapping[str, int]:
        return {"pay": effects(given["ledger"])["pay"]}

    assert_conformant(shrugs, params, workspace=acme, effects=counted)


def test_the_first_scenario_that_fails_is_named(acme: Workspace, params: Any) -> None:
    with pytest.raises(AssertionError, match=r"crash during charge_lost: "):
        assert_conformant(not_happened, params, workspace=acme)


# --- the tools -----------------------------------------------------------------------------------


def test_a_point_that_no_run_comes_to_is_an_error(acme: Workspace) -> None:
    with (
        pytest.raises(AssertionError, match="no run died after step 'first'"),
        crash_at("first"[:5], "after"),
    ):
        drain()


def test_what_an_act_raises_the_run_meets_there(acme: Workspace, params: Any) -> None:
    def refuse(_: object) -> None:
        raise KeyError("here")

    job = repeatable.s(**params()).enqueue(workspace=acme, key="a", countdown=60)
    with at_step("second", "started", refuse) as seen:
        drain()
    job.refresh_from_db()
    failed = job.attempts.get()
    assert (job.state, failed.step, failed.error_class) == ("dead", "second", "KeyError")
    assert [moment.step.name for moment in seen] == ["second"]


def test_a_job_that_defers_for_ever_is_told_of(acme: Workspace) -> None:
    from jobs.kinds import Defer

    @job_kind("scene.defers")
    def defers(run: Run) -> None:
        raise Defer(60, "not yet")

    defers.s().enqueue(workspace=acme, key="a", countdown=60)
    with pytest.raises(AssertionError, match=r"after 7 attempts .*scene.defers"):
        drain(limit=7)
