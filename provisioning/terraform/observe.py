"""What may be believed about an apply whose worker is gone?

Only what is proven, because "nothing happened" lets somebody apply again:

* applied: the tool recorded its success in its exit code and its log, or it printed its final
  summary before its supervisor was lost; and the state does not contradict it.
* nothing happened: it never started and, from this call on, never will; or it ended by itself
  with a refusal, before the first resource, nothing of it lives on, and the state is where the
  plan left it.
* cannot tell: all else. Running; killed, even before the first event, since a killed tool's log
  may be cut; partial; gone from a host that is not this one; state moved by nobody knows whom.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from provisioning.terraform import process, records, stream
from provisioning.terraform.apply import RUN, judge
from provisioning.terraform.ask import state_now
from provisioning.terraform.classify import Class, Facts, Outcome
from provisioning.terraform.errors import TerraformError
from provisioning.terraform.fate import Fate, Life, group_is_empty, look, seal
from provisioning.terraform.stack import Stack
from provisioning.terraform.state import Movement, StateMark, movement


class Verdict(StrEnum):
    """The three answers that a reconcile may give."""

    APPLIED = "applied"
    NOTHING_HAPPENED = "nothing_happened"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was looked at. `moved` and `group_empty` are None when it could not be seen."""

    fate: Fate
    said: stream.Stream
    outcome: Outcome
    group_empty: bool | None
    moved: Movement | None


@dataclass(frozen=True, slots=True)
class Observation:
    """A verdict, why, and what to decide on. Of the tool's words only addresses and ids."""

    verdict: Verdict
    code: str
    reason: str
    ledger: tuple[stream.Entry, ...] = ()
    outcome: Outcome | None = None
    state: StateMark | None = None


def observe(stack: Stack, folder: Path, *, prior: StateMark, wait: float = 0) -> Observation:
    """Look at the folder of an apply attempt; `prior` is the applied Plan's.

    An apply that still runs under its supervisor is adopted: up to `wait` seconds are spent on
    its end, since how it ends is worth more than that it runs. Changes nothing but one thing: an
    apply that has not started yet is forbidden to. Never create the folder for this call: on a
    host that has none nothing can be told.
    """
    if not folder.is_dir():
        return Observation(
            Verdict.CANNOT_TELL,
            "no_record",
            "This host has no record of the apply. Look on the host that ran it.",
        )
    run = folder / RUN
    if look(run).life is Life.ABSENT:
        seal(run)
    process.wait(run, wait)
    empty = group_is_empty(run)  # before all else: what is gone cannot change the rest later
    fate = look(run)
    said = stream.read(run / records.STDOUT)
    state = _state(stack, folder)
    moved = None if state is None else movement(prior, state)
    outcome = judge(run, fate, said, Facts())
    verdict, code, reason = decide(Evidence(fate, said, outcome, empty, moved))
    return Observation(verdict, code, reason, said.ledger, outcome, state)


def decide(seen: Evidence) -> tuple[Verdict, str, str]:
    """Weigh the evidence. Pure."""
    match seen.fate.life:
        case Life.NEVER:
            return Verdict.NOTHING_HAPPENED, "never_started", f"{_capital(seen.fate.reason)}."
        case Life.ENDED:
            return _ended(seen)
        case Life.LOST if seen.said.finished("apply") and seen.group_empty:
            return _succeeded(seen)
        case Life.RUNNING | Life.ORPHANED:
            return _unknown("still_running", f"{_capital(seen.fate.reason)}; look again later.")
        case _:
            reason = f"{_capital(seen.fate.reason)}. {seen.outcome.sentence}"
            return _unknown(seen.fate.life.value, reason)


def _ended(seen: Evidence) -> tuple[Verdict, str, str]:
    if seen.outcome.kind is Class.OK:
        return _succeeded(seen)
    if not seen.outcome.nothing_happened:
        return _unknown(seen.outcome.code, seen.outcome.sentence)
    if not seen.group_empty:
        return _unknown("not_alone", "The tool refused, but something it started may be alive.")
    if seen.moved is not Movement.SAME:
        return _unknown(
            "state_moved",
            "The tool refused, but the state is not where the plan left it, or cannot be read; "
            f"nobody can say here by whom. The tool's refusal: {seen.outcome.code}.",
        )
    return Verdict.NOTHING_HAPPENED, seen.outcome.code, seen.outcome.sentence


def _succeeded(seen: Evidence) -> tuple[Verdict, str, str]:
    if seen.moved in (Movement.BEHIND, Movement.OTHER):
        return _unknown(
            "state_contradicts",
            "The apply succeeded, but the state is older than it or another one. Find out who "
            "restored or replaced it before anything is applied.",
        )
    if seen.moved is Movement.SAME and seen.said.ledger:
        return _unknown(
            "state_contradicts",
            "The apply says that it changed resources, but the state did not move.",
        )
    return (
        Verdict.APPLIED,
        "applied",
        "The tool recorded its success; the state does not contradict it.",
    )


def _unknown(code: str, reason: str) -> tuple[Verdict, str, str]:
    return Verdict.CANNOT_TELL, code, reason


def _state(stack: Stack, folder: Path) -> StateMark | None:
    """Read the state last of all: only then does "unmoved" speak about the end of the run."""
    try:
        return state_now(stack, folder)
    except TerraformError:
        return None


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
