"""The word for every step of a preflight, and what the digest of a plan depends on. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from jobs.kinds import DidNotHappen, Run, step
from jobs.models import Job
from jobs.models import Step as StepRow
from jobs.params import model_of
from jobs.recovery.plan import Carry, PlannedStep, digest_of, planned_steps
from jobs.registry import KindSpec
from jobs.states import Verb

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@step("repeat")
def repeat() -> None: ...


@step("login", carry=False)
def login() -> None: ...


@step.local("book")
def book() -> None: ...


@step.keyed("reserve", remembers=timedelta(hours=24))
def reserve(key: str) -> None: ...


@step.once("charge")
def charge() -> None: ...


@step.once("refund", reconcile=lambda intent: DidNotHappen())
def refund() -> None: ...


@step("page", many=True)
def page() -> None: ...


STEPS: tuple[Any, ...] = (login, repeat, book, reserve, charge, refund, page)


def handler(run: Run) -> None: ...


SPEC = KindSpec(
    name="scene.plan", handler=handler, steps=STEPS, params=model_of("scene.plan", handler)
)


def row(name: str, state: str, **more: Any) -> StepRow:
    declared = next((s for s in STEPS if s.name == name.split(":")[0]), repeat)
    return StepRow(name=name, effect=declared.effect.value, state=state, attempt=1, **more)


def word(verb: Verb, stored: StepRow, *, is_open: bool = False) -> tuple[str, str]:
    names = frozenset({stored.name}) if is_open else frozenset[str]()
    planned = planned_steps(verb, SPEC, [stored], names)
    (found,) = [each for each in planned if each.name == stored.name]
    return found.word.value, found.carry.value


SEEN = {"observed_by": "user:1", "observed_at": NOW}
RESUMED: list[tuple[str, StepRow, bool, str, str]] = [
    ("done", row("repeat", "done"), False, "kept", "output"),
    ("done local", row("book", "done"), False, "kept", "output"),
    ("done turn", row("page:3", "done"), False, "kept", "output"),
    ("not carried", row("login", "done"), False, "runs again", ""),
    ("a definite no", row("charge", "not_done"), False, "runs", ""),
    ("in doubt", row("charge", "started"), True, "blocked until reconciled", "intent"),
    ("to be asked", row("refund", "started"), True, "asks first", "intent"),
    ("key remembered", row("reserve", "started"), False, "runs", "intent"),
    ("key forgotten", row("reserve", "started"), True, "blocked until reconciled", "intent"),
    (
        "seen",
        row("charge", "started", observed="happened", **SEEN),
        False,
        "kept",
        "observed_output",
    ),
    ("seen not", row("charge", "started", observed="did_not_happen", **SEEN), False, "runs", ""),
    ("late", row("charge", "started", late_at=NOW), False, "kept", "late_output"),
    (
        "late after it was denied",
        row("charge", "started", late_at=NOW, observed="did_not_happen", **SEEN),
        False,
        "kept",
        "late_output",
    ),
    (
        "late after it was seen",
        row("charge", "started", late_at=NOW, observed="happened", **SEEN),
        False,
        "kept",
        "observed_output",
    ),
    ("unusable", row("charge", "done", output_error="too long"), False, "kept", "output"),
    (
        "unusable, by hand",
        row("charge", "done", output_error="too long", observed="happened", **SEEN),
        False,
        "kept",
        "observed_output",
    ),
    ("of no declared step", row("removed", "done"), False, "kept", "output"),
    (
        "open, of no declared step",
        row("removed", "started"),
        True,
        "blocked until reconciled",
        "intent",
    ),
]


@pytest.mark.parametrize(
    ("stored", "is_open", "said", "carry"),
    [case[1:] for case in RESUMED],
    ids=[case[0] for case in RESUMED],
)
def test_a_resume_says_what_becomes_of_a_step(
    stored: StepRow, is_open: bool, said: str, carry: str
) -> None:
    assert word(Verb.RESUME, stored, is_open=is_open) == (said, carry)


@pytest.mark.parametrize(
    ("stored", "is_open", "said"),
    [
        (row("repeat", "done"), False, "runs again"),
        (row("charge", "done"), False, "runs again"),
        (row("charge", "not_done"), False, "runs"),
        (row("charge", "started"), True, "blocked until reconciled"),
        (row("refund", "started"), True, "blocked until reconciled"),
        (row("reserve", "started"), False, "runs again"),
        (row("charge", "started", observed="happened", **SEEN), False, "runs again"),
    ],
)
def test_a_restart_carries_nothing_and_waits_for_what_is_open(
    stored: StepRow, is_open: bool, said: str
) -> None:
    assert word(Verb.RESTART, stored, is_open=is_open) == (said, "")


def test_every_declared_step_has_a_word_in_the_order_of_the_kind() -> None:
    rows = [
        row("page:1", "done"),
        row("charge", "started"),
        row("page:0", "done"),
        row("x", "done"),
    ]
    planned = planned_steps(Verb.RESUME, SPEC, rows, frozenset({"charge"}))
    assert [each.name for each in planned] == [
        *("login", "repeat", "book", "reserve", "charge", "refund"),
        *("page:1", "page:0", "x"),
    ]
    assert {each.name: each.why for each in planned}["login"] == "no result of it is stored"


def test_a_plan_shows_what_is_recorded() -> None:
    stored = row("charge", "started")
    stored.boundary = "provider"
    planned = planned_steps(Verb.RESUME, SPEC, [stored], frozenset({"charge"}))
    (found,) = [each for each in planned if each.name == "charge"]
    assert (found.effect, found.boundary, found.recorded) == ("once", "provider", "started")
    assert "look there, then reconcile" in found.why
    (unmet,) = [each for each in planned if each.name == "refund"]
    assert (unmet.effect, unmet.boundary, unmet.recorded) == ("once", "provider", "")


# --- the digest ----------------------------------------------------------------------------------


def job(**values: Any) -> Job:
    told = {"id": UUID(int=1), "epoch": 0, "state": "dead"}
    return Job(**{**told, **values})


def spec(**values: Any) -> KindSpec:
    return KindSpec(**{**SPEC.__dict__, **values})


def planned(name: str = "charge", said: str = "kept") -> PlannedStep:
    from jobs.states import Word

    return PlannedStep(name, "once", "provider", "done", Word(said), "why", Carry.OUTPUT)


BASE = (job(), Verb.RESUME, SPEC, [planned()])


@pytest.mark.parametrize(
    "changed",
    [
        (job(id=UUID(int=2)), Verb.RESUME, SPEC, [planned()]),
        (job(epoch=1), Verb.RESUME, SPEC, [planned()]),
        (job(state="cancelled"), Verb.RESUME, SPEC, [planned()]),
        (job(), Verb.RESTART, SPEC, [planned()]),
        (job(), Verb.RESUME, spec(version=2), [planned()]),
        (job(), Verb.RESUME, None, [planned()]),
        (job(), Verb.RESUME, SPEC, [planned(said="runs")]),
        (job(), Verb.RESUME, SPEC, [planned(name="refund")]),
        (job(), Verb.RESUME, SPEC, []),
    ],
    ids=["job", "epoch", "state", "verb", "version", "kind gone", "word", "step", "no steps"],
)
def test_the_digest_changes_with_everything_that_a_person_agreed_to(changed: Any) -> None:
    assert digest_of(*changed) != digest_of(*BASE)


def test_the_digest_does_not_age() -> None:
    later = job(finished_at=NOW, run_at=NOW, actor="user:2", resolution="said")
    assert digest_of(later, Verb.RESUME, SPEC, [planned()]) == digest_of(*BASE)
