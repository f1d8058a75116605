"""What did the tool say? Its JSON lines, read into a typed ledger of resource events.

After a crash this ledger is the only record of what exists: a remote state is written every 20
seconds at the earliest. Only the top-level `type` of a line is trusted, since a provisioner can
print anything, and that arrives inside `hook`. Everything that is not understood is counted and
ignored. Absence proves nothing: Terraform itself drops over-long lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

_UI_MAJOR = "1"
_LONGEST_LINE = 1 << 20  # bytes


class Progress(StrEnum):
    """How far the tool says it got with one action on one resource."""

    STARTED = "started"
    COMPLETED = "completed"
    ERRORED = "errored"


@dataclass(frozen=True, slots=True)
class Change:
    """One planned action."""

    address: str
    action: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One action that was begun; `id` as `key=value` when the tool told one. `at` in UTC."""

    address: str
    action: str
    progress: Progress
    id: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """The tool's own count. Counts alone mislead: a change of outputs counts nothing."""

    operation: str
    add: int
    change: int
    remove: int


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A complaint of the tool. May hold secrets: show it scrubbed."""

    is_error: bool
    summary: str
    detail: str
    address: str = ""

    @property
    def text(self) -> str:
        """Summary and detail as one line."""
        return " ".join(f"{self.summary}: {self.detail}".split()).rstrip(": ")


@dataclass(frozen=True, slots=True)
class Stream:
    """All that was understood. `ledger` is in the order in which actions began."""

    tool: str = ""
    is_foreign: bool = False  # of another major version: nothing of it was read
    planned: tuple[Change, ...] = ()
    ledger: tuple[Entry, ...] = ()
    summary: Summary | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    outputs: dict[str, Any] = field(default_factory=dict)
    interrupts: int = 0
    ignored: int = 0

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """Return the diagnostics that are errors."""
        return tuple(one for one in self.diagnostics if one.is_error)

    def finished(self, operation: str) -> bool:
        """Whether the tool printed the summary of this operation."""
        return self.summary is not None and self.summary.operation == operation


def parse(lines: Iterable[str | bytes]) -> Stream:
    """Read the lines of one command."""
    reading = _Reading()
    for line in lines:
        reading.take(line)
    return reading.result()


class Reader:
    """Reads a growing file, each line once."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet; the file may not exist yet either."""
        self._path = path
        self._offset = 0
        self._cut = b""
        self._reading = _Reading()

    def read(self, *, last: bool = False) -> Stream:
        """Return all that was said so far. `last` also reads a final line without its end."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                fresh = file.read()
        except FileNotFoundError:
            fresh = b""
        self._offset += len(fresh)
        *lines, self._cut = (self._cut + fresh).split(b"\n")
        if last:
            lines.append(self._cut)
            self._cut = b""
        for line in lines:
            self._reading.take(line)
        return self._reading.result()


def read(path: Path) -> Stream:
    """Read the whole file; one that does not exist says nothing."""
    return Reader(path).read(last=True)


class _Reading:
    def __init__(self) -> None:
        self._words: dict[str, Any] = {"tool": "", "summary": None, "outputs": {}}
        self._planned: list[Change] = []
        self._ledger: dict[tuple[str, str], Entry] = {}
        self._diagnostics: list[Diagnostic] = []
        self._interrupts = 0
        self._ignored = 0
        self._foreign = False

    def take(self, line: str | bytes) -> None:
        if not line.strip():
            return
        event = _event(line)
        kind = _text(event, "type")
        take = _TAKES.get(kind)
        if take is not None and not self._foreign:
            take(self, event)
        elif kind not in _EXPECTED:
            self._ignored += 1

    def result(self) -> Stream:
        return Stream(
            planned=tuple(self._planned),
            ledger=tuple(self._ledger.values()),
            diagnostics=tuple(self._diagnostics),
            interrupts=self._interrupts,
            is_foreign=self._foreign,
            ignored=self._ignored,
            **self._words,
        )

    def _version(self, event: dict[str, Any]) -> None:
        self._words["tool"] = _text(event, "terraform") or _text(event, "tofu")
        self._foreign = _text(event, "ui").partition(".")[0] != _UI_MAJOR

    def _plans(self, event: dict[str, Any]) -> None:
        change = _inner(event, "change")
        self._planned.append(Change(_address(change), _text(change, "action")))

    def _starts(self, event: dict[str, Any]) -> None:
        self._note(event, Progress.STARTED)

    def _completes(self, event: dict[str, Any]) -> None:
        self._note(event, Progress.COMPLETED)

    def _fails(self, event: dict[str, Any]) -> None:
        self._note(event, Progress.ERRORED)

    def _note(self, event: dict[str, Any], progress: Progress) -> None:
        hook = _inner(event, "hook")
        address, action = _address(hook), _text(hook, "action")
        before = self._ledger.get((address, action))
        identity = f"{_text(hook, 'id_key')}={_text(hook, 'id_value')}".strip("=")
        identity = identity or (before.id if before else "")
        at = _text(event, "@timestamp")
        self._ledger[address, action] = Entry(address, action, progress, identity, at)

    def _sums(self, event: dict[str, Any]) -> None:
        changes = _inner(event, "changes")
        counts = (_number(changes, name) for name in ("add", "change", "remove"))
        self._words["summary"] = Summary(_text(changes, "operation"), *counts)

    def _complains(self, event: dict[str, Any]) -> None:
        said = _inner(event, "diagnostic")
        summary, detail, address = (_text(said, key) for key in ("summary", "detail", "address"))
        is_error = _text(said, "severity") == "error"
        self._diagnostics.append(Diagnostic(is_error, summary, detail, address))

    def _outputs(self, event: dict[str, Any]) -> None:
        self._words["outputs"] = {
            name: output["value"]
            for name, output in _inner(event, "outputs").items()
            if isinstance(output, dict) and "value" in output and not output.get("sensitive")
        }

    def _logs(self, event: dict[str, Any]) -> None:
        said = _text(event, "@message")
        if "Two interrupts received" in said:
            self._interrupts = 2
        elif "Interrupt received" in said:
            self._interrupts = max(self._interrupts, 1)


_TAKES: dict[str, Callable[[_Reading, dict[str, Any]], None]] = {
    "version": _Reading._version,
    "planned_change": _Reading._plans,
    "apply_start": _Reading._starts,
    "apply_complete": _Reading._completes,
    "apply_errored": _Reading._fails,
    "change_summary": _Reading._sums,
    "diagnostic": _Reading._complains,
    "outputs": _Reading._outputs,
    "log": _Reading._logs,
}
# Understood, and of no consequence here.
_EXPECTED = frozenset(
    (
        "apply_progress", "provision_start", "provision_progress", "provision_complete",
        "provision_errored", "refresh_start", "refresh_complete", "resource_drift",
        "state_lock_acquire", "state_lock_release",
    )
)  # fmt: skip


def _event(line: str | bytes) -> dict[str, Any]:
    if len(line) > _LONGEST_LINE:
        return {}
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


def _inner(event: dict[str, Any], key: str) -> dict[str, Any]:
    inner = event.get(key)
    return inner if isinstance(inner, dict) else {}


def _address(hook: dict[str, Any]) -> str:
    return _text(_inner(hook, "resource"), "addr")


def _text(event: dict[str, Any], key: str) -> str:
    value = event.get(key)
    if not isinstance(value, str):
        return ""
    # Neither NUL nor half a surrogate pair can be stored by PostgreSQL.
    return value.replace("\0", "").encode(errors="replace").decode()


def _number(event: dict[str, Any], key: str) -> int:
    value = event.get(key)
    return value if isinstance(value, int) else 0
