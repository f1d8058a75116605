"""The kinds that the machine runs: which steps, in which order, is in their params."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

from jobs import registry
from jobs.events import emit
from jobs.kinds import (
    CannotTell,
    Defer,
    DidNotHappen,
    Happened,
    RateLimited,
    Run,
    Step,
    Terminal,
    Transient,
    job_kind,
    step,
)
from jobs.kinds import Intent as Asked
from jobs.recovery.job_verbs import ENGINE
from tests.integration.kernel.interleavings.outside import REMEMBERS, Intent, Provider
from tests.integration.kernel.interleavings.process import Place, here

LEASE, LIMIT, DEADLINE = 600.0, 900.0, 24 * 3600.0
BACKOFF, LONGEST = 60.0, 240.0
OWN_DELAY, RETRY_AFTER, DEFERRAL = 600.0, 300.0, 180.0
BOOKED = "weave.booked"


class Budget(NamedTuple):
    max_retries: int
    max_losses: int
    loss_is_failure: bool = False


BUDGETS = {
    "weave.job": Budget(2, 1),
    "weave.frail": Budget(1, 0),
    "weave.strict": Budget(1, 3, loss_is_failure=True),
}
EFFECTS = {
    "plan": "repeatable",
    "note": "repeatable",
    "book": "local",
    "hold": "keyed",
    "hold_asked": "keyed",
    "pay": "once",
    "pay_asked": "once",
}
CAN_ASK = frozenset({"hold_asked", "pay_asked"})
NOT_CARRIED = frozenset({"plan"})
ERRORS: dict[str, Callable[[], Exception]] = {
    "transient": lambda: Transient("no answer"),
    "slow": lambda: Transient("no answer", delay=OWN_DELAY),
    "refused": lambda: ConnectionRefusedError("refused"),
    "limited": lambda: RateLimited("later", retry_after=RETRY_AFTER),
    "terminal": lambda: Terminal("never"),
    "denied": lambda: Terminal("invalid", happened=False),
    "bug": lambda: ValueError("a bug"),
}


def intent_of(run: Run, name: str) -> Intent:
    """Which intent a step of this run is."""
    return Intent(run.root_id, run.claim.epoch, name)


def obeyed() -> object:
    """What the order says comes back from the outside."""
    order = here().order
    if order.do == "fail":
        raise ERRORS[order.error]()
    if order.do == "defer":
        raise Defer(DEFERRAL, "told to")
    if order.do == "exit":
        raise SystemExit
    return object() if order.do == "unstorable" else order.output


def _outward(name: str) -> Callable[..., Any]:
    def function(*sent: str) -> object:
        process = here()
        process.key = sent[0] if sent else ""
        process.waits(Place("inside", name))
        return obeyed()

    return function


def _asked(name: str, provider: Callable[[], Provider]) -> Callable[..., Any]:
    def reconcile(asked: Asked) -> Happened | DidNotHappen | CannotTell:
        process, world = here(), provider()
        assert process.run is not None
        intent = intent_of(process.run, name)
        if EFFECTS[name] == "keyed":
            world.receives(intent, asked.key)
        if process.order.answer == "broken":
            raise Transient("the provider is down")
        if process.order.answer == "unsure":
            return CannotTell("its records are gone")
        return Happened(world.output(intent)) if world.effects[intent] else DidNotHappen()

    return reconcile


def _booked() -> object:
    """Changes our own database, and may then fail."""
    run = here().run
    assert run is not None
    emit(BOOKED, run.claim.workspace_id, f"{run.root_id}:{run.claim.epoch}", {})
    return obeyed()


def steps_of(provider: Callable[[], Provider]) -> dict[str, Step[..., Any]]:
    """The seven steps: every effect, with and without somebody to ask."""
    remembers = timedelta(seconds=REMEMBERS)
    asks = {name: _asked(name, provider) for name in CAN_ASK}
    made: tuple[Step[..., Any], ...] = (
        step("plan", carry=False)(_outward("plan")),
        step("note")(_outward("note")),
        step.local("book")(_booked),
        step.keyed("hold", remembers=remembers)(_outward("hold")),
        step.keyed("hold_asked", remembers=remembers, reconcile=asks["hold_asked"])(
            _outward("hold_asked")
        ),
        step.once("pay")(_outward("pay")),
        step.once("pay_asked", reconcile=asks["pay_asked"])(_outward("pay_asked")),
    )
    return {each.name: each for each in made}


def register(provider: Callable[[], Provider]) -> None:
    """Make these kinds known, and only the engine of operations beside them.

    Upkeep looks at each kind there is, and there is no time for all of them.
    """
    for name in set(registry.KINDS) - {ENGINE}:
        del registry.KINDS[name]
    steps = steps_of(provider)

    def played(run: Run, *, steps: list[str], account: str) -> int:
        process = here()
        process.run = run
        for name in steps:
            try:
                run(declared[name])
            except Exception:
                if not process.order.swallow:
                    raise
        return len(steps)

    declared = steps
    policy: dict[str, Any] = {
        "steps": tuple(steps.values()),
        "retry_backoff": BACKOFF,
        "retry_backoff_max": LONGEST,
        "retry_jitter": False,
        "deadline": timedelta(seconds=DEADLINE),
        "lease": timedelta(seconds=LEASE),
        "soft_time_limit": LIMIT - 60,
        "time_limit": LIMIT,
        "throttle": lambda steps, account: account,
    }
    for name, budget in BUDGETS.items():
        job_kind(name, **budget._asdict(), **policy)(played)
