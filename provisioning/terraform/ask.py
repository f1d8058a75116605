"""How is the tool asked something that changes nothing? init, plan, show, state pull.

Each question is a supervised run with a directory of its own under `runs/`; its output is read
once. What a run of `show` printed holds secrets in clear and is removed at once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from provisioning.terraform import process, records, stream
from provisioning.terraform.classify import Class, Facts, Outcome, Phase, classify, outcome
from provisioning.terraform.errors import TerraformError
from provisioning.terraform.fate import Life
from provisioning.terraform.redact import Secrets
from provisioning.terraform.stack import Stack
from provisioning.terraform.state import StateMark, mark_of, read_file

MODULE = "module"  # the copy in the folder, which is the tool's working directory
_QUICK = 120  # seconds for what only reads local files, or one state
_LONGEST_MESSAGE = 1000


class ToolFailed(TerraformError):
    """The tool was asked and did not give what was asked for. Nothing was applied by it.

    `outcome` says whether the same may succeed later; `message` is the tool's own, scrubbed.
    """

    def __init__(self, outcome: Outcome, message: str = "") -> None:
        self.outcome = outcome
        self.message = message
        self.code = outcome.code
        self.transient = outcome.kind is Class.TRANSIENT
        super().__init__(outcome.sentence + (f" The tool said: {message}" if message else ""))


@dataclass(frozen=True, slots=True)
class Answer:
    """How one question ended; `rc` is None when no exit code is on record."""

    run: Path
    rc: int | None
    stream: stream.Stream
    stderr: str

    def judged(self, phase: Phase, facts: Facts | None = None) -> Outcome:
        """Classify it."""
        return classify(phase, self.rc, self.stream, self.stderr, facts)


def ask(stack: Stack, folder: Path, *arguments: str, seconds: float = _QUICK) -> Answer:
    """Run the tool in the folder's module and wait for its end, at most about that long."""
    run = folder / "runs" / f"{arguments[0]}-{uuid4().hex[:8]}"
    argv = (str(stack.tool.path), *arguments)
    command = process.Command(argv, folder / MODULE, stack.environment())
    fate = process.finish(run, command, seconds=seconds)
    if fate.life is Life.NEVER:
        raise ToolFailed(outcome(Class.TERMINAL, "binary_missing"), fate.reason)
    return Answer(run, fate.rc, stream.read(run / records.STDOUT), stderr_of(run))


def show(stack: Stack, folder: Path, file: Path) -> dict[str, Any]:
    """Return `show -json` of a plan file: with all secrets in clear. Raises ToolFailed."""
    shown = _json(stack, folder, "show", "-json", str(file))
    if not isinstance(shown, dict) or "format_version" not in shown:
        raise ToolFailed(outcome(Class.TERMINAL, "plan_unreadable"))
    return shown


def state_now(stack: Stack, folder: Path) -> StateMark:
    """Return where the stack's state stands. Raises ToolFailed or StateUnreadable."""
    if stack.backend.file is not None:
        return read_file(stack.backend.file)
    return mark_of(_printed(stack, folder, "state", "pull"))


def explain(said: stream.Stream, stderr: str, secrets: Secrets) -> str:
    """Return the tool's own words about its errors, scrubbed and cut."""
    words = [one.text for one in said.errors] or [" ".join(stderr.split())]
    return secrets.scrub(" | ".join(words))[:_LONGEST_MESSAGE]


def stderr_of(run: Path) -> str:
    """Return what the tool printed there, as text."""
    try:
        return (run / records.STDERR).read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return ""


def _json(stack: Stack, folder: Path, *arguments: str) -> Any:
    try:
        return json.loads(_printed(stack, folder, *arguments))
    except ValueError:
        return None


def _printed(stack: Stack, folder: Path, *arguments: str) -> bytes:
    answer = ask(stack, folder, *arguments)
    printed = answer.run / records.STDOUT
    try:
        if answer.rc != 0:
            judged = answer.judged(Phase.PLAN)
            raise ToolFailed(judged, explain(answer.stream, answer.stderr, stack.hidden()))
        return printed.read_bytes()
    finally:
        printed.unlink(missing_ok=True)
