"""The closed sets of the kernel, and the one table of moves between job states.

``jobs.moves`` is the only package that moves a job, and only along ``MOVES``;
``docs/state-machine.md`` is generated from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"


class Cause(StrEnum):
    """Why a job is dead. ``uncertain`` wins over every other cause."""

    UNCERTAIN = "uncertain"
    TERMINAL = "terminal"
    EXHAUSTED = "exhausted"
    DEADLINE = "deadline"
    LOST = "lost"
    UNSTARTABLE = "unstartable"


class AttemptOutcome(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    CANCELLED = "cancelled"
    UNCERTAIN = "uncertain"


class StepState(StrEnum):
    STARTED = "started"
    DONE = "done"
    NOT_DONE = "not_done"


class Effect(StrEnum):
    REPEATABLE = "repeatable"
    LOCAL = "local"
    KEYED = "keyed"
    ONCE = "once"


class WaitReason(StrEnum):
    """Why a queued job does not run yet."""

    SCHEDULED = "scheduled"
    RETRY = "retry"
    THROTTLED = "throttled"
    LOCK = "lock"
    SHARE = "share"
    INTERRUPTED = "interrupted"
    DEFERRED = "deferred"
    UNSTARTABLE = "unstartable"


class Observation(StrEnum):
    HAPPENED = "happened"
    DID_NOT_HAPPEN = "did_not_happen"


class Verb(StrEnum):
    RESUME = "resume"
    RESTART = "restart"
    CANCEL = "cancel"
    RESOLVE = "resolve"
    RECONCILE = "reconcile"


class Word(StrEnum):
    """What a preflight says will become of one step."""

    KEPT = "kept"
    ASKS_FIRST = "asks first"
    RUNS = "runs"
    RUNS_AGAIN = "runs again"
    BLOCKED = "blocked until reconciled"


class OperationState(StrEnum):
    """How a bulk deed stands. A paused one goes on when somebody says so."""

    DRAFT = "draft"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    FINISHED = "finished"


class ItemOutcome(StrEnum):
    """What became of one item of an operation."""

    PENDING = "pending"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


FINAL = frozenset({State.SUCCEEDED, State.DEAD, State.CANCELLED})
RETRYABLE = frozenset({State.DEAD, State.CANCELLED})


@dataclass(frozen=True)
class Move:
    """One way a job changes state: who decides it, and when."""

    name: str
    source: State
    target: State
    when: str


MOVES: tuple[Move, ...] = (
    Move("claim", State.QUEUED, State.RUNNING, "a worker takes it: due, before its deadline"),
    Move("succeed", State.RUNNING, State.SUCCEEDED, "the handler returned under its fence"),
    Move("requeue", State.RUNNING, State.QUEUED, "a retry with budget left, or a deferral"),
    Move("die", State.RUNNING, State.DEAD, "terminal, exhausted, past its deadline, or uncertain"),
    Move("stop", State.RUNNING, State.CANCELLED, "cancel was asked and a boundary was reached"),
    Move("reap", State.RUNNING, State.QUEUED, "its lease ran out and budget is left"),
    Move("reap", State.RUNNING, State.DEAD, "its lease ran out: lost, exhausted, or uncertain"),
    Move("reap", State.RUNNING, State.CANCELLED, "its lease ran out after a cancel was asked"),
    Move("bury", State.QUEUED, State.DEAD, "its deadline passed, or it cannot start, or uncertain"),
    Move("cancel", State.QUEUED, State.CANCELLED, "an operator cancelled it before it ran"),
)

TRANSITIONS: dict[State, frozenset[State]] = {
    state: frozenset(move.target for move in MOVES if move.source is state) for state in State
}


def allows(source: str, target: str) -> bool:
    """Whether the table has a move from ``source`` to ``target``."""
    return State(target) in TRANSITIONS[State(source)]


def page() -> str:
    """``docs/state-machine.md``: the diagram, the moves, and the closed sets."""
    lines = [
        "# The states of a job",
        "",
        "Written by `python -m jobs.states > docs/state-machine.md` from `jobs/states.py`; a test",
        "refuses a difference. Only `jobs/moves/` moves a job, by compare-and-swap in SQL.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        "    [*] --> queued: enqueue, retry",
    ]
    lines += [f"    {move.source} --> {move.target}: {move.name}" for move in MOVES]
    lines += [f"    {state} --> [*]" for state in State if state in FINAL]
    lines += ["```", "", "| move | from | to | when |", "|---|---|---|---|"]
    lines += [f"| {move.name} | {move.source} | {move.target} | {move.when} |" for move in MOVES]
    lines += [
        "",
        "No job becomes final with an open intent except as `dead(uncertain)`: that wins over",
        "every other cause, over `cancelled` and over `succeeded`. A final state is never left;",
        "an operator's retry is a new job, linked to this one.",
        "",
        "| set | members |",
        "|---|---|",
    ]
    lines += [f"| {about} | {', '.join(f'`{word}`' for word in words)} |" for about, words in _SETS]
    return "\n".join(lines)


_SETS: tuple[tuple[str, type[StrEnum]], ...] = (
    ("cause of a dead job", Cause),
    ("outcome of an attempt", AttemptOutcome),
    ("state of a step", StepState),
    ("effect of a step", Effect),
    ("why a queued job waits", WaitReason),
    ("observation of an open step", Observation),
    ("verbs", Verb),
    ("what a preflight says of a step", Word),
    ("state of an operation", OperationState),
    ("outcome of an operation's item", ItemOutcome),
)

if __name__ == "__main__":
    print(page())  # noqa: T201  a page for the docs
