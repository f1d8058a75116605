"""What does it mean, how the tool ended? Pure; one table, read from top to bottom.

The exit code alone is no evidence. A crashed Go program exits with 2, which a plan also uses
for "there are changes"; a plan to a full device exits with 0; a summary is printed before some
errors. And one summary, "Error acquiring the state lock", stands for six causes, so the detail
is matched too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from provisioning.terraform.sentences import SENTENCES
from provisioning.terraform.stream import Progress, Stream


class Phase(StrEnum):
    """What was asked of the tool. Reading (show, state pull) counts as plan: no effects."""

    INIT = "init"
    PLAN = "plan"
    APPLY = "apply"


class Class(StrEnum):
    """What may be done next."""

    OK = "ok"  # done, and the evidence is complete
    TRANSIENT = "transient"  # nothing happened; the same may succeed later
    TERMINAL = "terminal"  # nothing happened; a person has to change something first
    PARTIAL = "partial"  # effects happened, are known and recorded in the state
    UNCERTAIN = "uncertain"  # effects are possible, and the record cannot be trusted


_UNCHANGED = frozenset((Class.TRANSIENT, Class.TERMINAL))


@dataclass(frozen=True, slots=True)
class Facts:
    """What the caller knows and the tool did not say. None means "was not looked at"."""

    plan_ok: bool | None = None  # the plan file can be read and was made without an error
    applyable: bool | None = None
    cancel_requested: bool = False  # somebody wanted it stopped; a time limit is no such wish
    prior_attempt_started: bool = False  # an earlier apply of ours may have moved the state


@dataclass(frozen=True, slots=True)
class Outcome:
    """A class, a stable code, and a sentence that names no secret."""

    kind: Class
    code: str
    sentence: str

    @property
    def nothing_happened(self) -> bool:
        """Whether it is certain that this run of the tool changed nothing."""
        return self.kind in _UNCHANGED


@dataclass(frozen=True, slots=True)
class _Case:
    phase: Phase
    rc: int | None
    stream: Stream
    stderr: str
    facts: Facts

    @property
    def began(self) -> bool:
        return bool(self.stream.ledger)

    @property
    def only_kept_its_lock(self) -> bool:
        """Whether all that was begun was completed and saved, and then the lock stayed held."""
        completed = all(one.progress is Progress.COMPLETED for one in self.stream.ledger)
        released = "Error releasing the state lock"
        return (
            self.began
            and completed
            and bool(self.stream.errors)
            and all(one.summary == released for one in self.stream.errors)
        )

    @property
    def is_silent(self) -> bool:
        """Whether the tool said nothing at all, not even its version."""
        return not self.stream.tool and not self.began

    @property
    def complaints(self) -> str:
        return "\n".join([one.text for one in self.stream.errors] + [" ".join(self.stderr.split())])


def classify(
    phase: Phase, rc: int | None, stream: Stream, stderr: str = "", facts: Facts | None = None
) -> Outcome:
    """Say what a run of the tool means. `rc` None: no exit code was recorded."""
    case = _Case(phase, rc, stream, stderr, facts or Facts())
    kind, code = _apply(case) if phase is Phase.APPLY else _read_only(case)
    return outcome(kind, code)


def outcome(kind: Class, code: str) -> Outcome:
    """Return the outcome with the sentence that belongs to the code."""
    what, then = SENTENCES[code]
    unchanged = "Nothing was changed." if kind in _UNCHANGED else ""
    return Outcome(kind, code, " ".join(filter(None, (what, unchanged, then))))


# --- init and plan: no effects, so never partial and never uncertain ---------------------------


def _read_only(case: _Case) -> tuple[Class, str]:
    if case.rc == _NOT_FOUND and case.is_silent:
        return Class.TERMINAL, "binary_missing"
    if case.stream.is_foreign:
        return Class.TERMINAL, "stream_unsupported"
    if case.rc == 1:
        return _stopped_early(case) or _refused(case)
    if case.facts.cancel_requested and case.rc in (-_SIGINT, -_SIGTERM):
        return Class.TERMINAL, "canceled"
    if case.phase is Phase.INIT:
        return (Class.OK, "initialised") if case.rc == 0 else (Class.TRANSIENT, "init_crashed")
    return _planned(case)


def _planned(case: _Case) -> tuple[Class, str]:
    facts, summary = case.facts, case.stream.summary
    if case.rc not in (0, 2) or not case.stream.finished("plan") or facts.plan_ok is False:
        return Class.TRANSIENT, "plan_crashed_or_artifact_missing"
    if facts.plan_ok is None:
        counts = summary is not None and summary.add + summary.change + summary.remove
        return Class.OK, "changes_present" if counts or case.rc == 2 else "no_changes"
    applyable = case.rc == 2 if facts.applyable is None else facts.applyable
    return Class.OK, "planned" if applyable else "no_changes"


def _stopped_early(case: _Case) -> tuple[Class, str] | None:
    """Tell a stop from the error that it looks like, such as a lock that could not be had."""
    asked = case.facts.cancel_requested
    if not case.stream.interrupts and not (asked and case.phase is Phase.INIT):
        return None
    return (Class.TERMINAL, "canceled") if asked else (Class.TRANSIENT, "interrupted")


def _refused(case: _Case) -> tuple[Class, str]:
    for row in _REFUSALS:
        if row.pattern.search(case.complaints):
            return row.kind, row.code
    return Class.TERMINAL, "unclassified"


# --- apply of a saved plan ---------------------------------------------------------------------


def _apply(case: _Case) -> tuple[Class, str]:
    for holds, kind, code in _APPLY:
        if holds(case):
            return kind, code
    kind, code = _stopped_early(case) or _refused(case)
    if case.facts.prior_attempt_started:
        return Class.UNCERTAIN, _AFTER_OWN_ATTEMPT.get(code, "failed_after_own_attempt")
    return kind, code


def _says(pattern: str) -> Callable[[_Case], bool]:
    compiled = re.compile(pattern)
    return lambda case: compiled.search(case.complaints) is not None


_NOT_FOUND = 127
_SIGINT, _SIGTERM = 2, 15
_AFTER_OWN_ATTEMPT = {
    "plan_stale": "stale_after_own_attempt",
    "plan_lineage_mismatch": "stale_after_own_attempt",
    "state_locked": "locked_after_own_attempt",
}
_Test = Callable[[_Case], bool]
# The first row that holds decides; after the last one the tool refused before it began.
_APPLY: tuple[tuple[_Test, Class, str], ...] = (
    (lambda c: c.rc is None, Class.UNCERTAIN, "lost"),
    (lambda c: c.rc == 0 and c.stream.finished("apply"), Class.OK, "applied"),
    (lambda c: c.rc == 0, Class.UNCERTAIN, "applied_without_log"),
    (lambda c: c.rc == _NOT_FOUND and c.is_silent, Class.TERMINAL, "binary_missing"),
    (lambda c: c.rc != 1, Class.UNCERTAIN, "crashed"),
    (lambda c: c.stream.interrupts > 1, Class.UNCERTAIN, "hard_interrupted"),
    (_says(r"Failed to (save|persist) state"), Class.UNCERTAIN, "state_not_persisted"),
    (lambda c: c.began and c.stream.interrupts > 0, Class.PARTIAL, "canceled_partial"),
    (lambda c: c.only_kept_its_lock, Class.PARTIAL, "lock_not_released"),
    (lambda c: c.began, Class.PARTIAL, "apply_partial"),
    (lambda c: not c.stream.errors, Class.UNCERTAIN, "log_incomplete"),
)


# --- why the tool refused, by its own words ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Refusal:
    kind: Class
    code: str
    pattern: re.Pattern[str]


def _row(kind: Class, code: str, *patterns: str) -> _Refusal:
    return _Refusal(kind, code, re.compile("|".join(patterns)))


_T, _X = Class.TRANSIENT, Class.TERMINAL
_REFUSALS: tuple[_Refusal, ...] = (
    _row(
        _X,
        "plan_tool_version_mismatch",
        "plan files cannot be transferred between different",
        r"plan file was created by (Terraform|OpenTofu)",
    ),
    _row(_X, "plan_unreadable", r"Failed to load \".*?\" as a plan file", "not a valid zip file"),
    _row(_X, "plan_errored", "Cannot apply incomplete plan"),
    _row(_X, "plan_stale", "Saved plan is stale"),
    _row(_X, "plan_lineage_mismatch", "Saved plan does not match the given state"),
    _row(
        _X,
        "plan_inconsistent",
        "Provider produced inconsistent final plan",
        r"ChangesSrc\.Decode",
        "Failed to read plan from plan file",
    ),
    _row(_X, "variable_changed", "Can't change variable when applying a saved plan"),
    _row(
        _X,
        "variable_missing",
        "No value for required variable",
        "must also be set during the apply phase",
        "No value for ephemeral",
    ),
    _row(_X, "variable_invalid", "Invalid value for (input )?variable"),
    _row(_X, "tool_version", r"Unsupported (Terraform|OpenTofu) Core version"),
    _row(
        _X,
        "condition_failed",
        "(Resource|Module output value) (pre|post)condition failed",
        "Instance cannot be destroyed",
    ),
    _row(
        _X,
        "not_initialised",
        "Inconsistent dependency lock file",
        "Backend initialization required",
        "Module not installed",
        "Required plugins are not installed",
        "Provider dependency changes detected",
    ),
    # The lock's one summary, and the backend: the detail decides.
    _row(_T, "state_locked", "state already locked", "resource temporarily unavailable"),
    _row(_X, "state_corrupt", "Unsupported state file format", "state snapshot was created by"),
    _row(
        _X,
        "backend_auth",
        "requires auth",
        "invalid auth",
        "AccessDenied",
        "ExpiredToken",
        "no valid credential",
    ),
    _row(_X, "plan_write_failed", "Failed to write plan file"),
    _row(_X, "runner_disk", "no space left on device", "disk quota exceeded"),
    _row(
        _T,
        "registry_unavailable",
        "Failed to query available provider packages.*("
        "no such host|could not connect|connection refused|timeout|giving up)",
        "Failed to install provider.*(connection|timeout|giving up)",
    ),
    _row(
        _T,
        "backend_unavailable",
        r"giving up after \d+ attempt",
        "internal server error",
        "connection refused",
        "connection reset",
        "i/o timeout",
        "TLS handshake timeout",
        "no such host",
    ),
    _row(_X, "state_lock_failed", "Error acquiring the state lock"),
    _row(
        _X,
        "config_invalid",
        "Invalid expression",
        "Reference to undeclared",
        "Value for undeclared variable",
        "configuration must be valid",
        "Unsupported (argument|block type|attribute)",
        "Missing required argument",
        "Argument or block definition required",
        "Invalid reference",
        "Duplicate ",
        "Unclosed configuration block",
        "Invalid (character|block definition|argument name|function argument)",
        "Incorrect attribute value type",
        "Call to unknown function",
        "Unreadable module directory",
    ),
)
