"""Apply exactly this plan, and say what came of it.

One call starts the tool at most once, on the bytes whose digest was approved, and never
`-auto-approve`s anything else. That a plan is never applied *twice* is the caller's rule: commit
the intent before the call, and give every attempt a folder of its own. The tool does not help:
its stale check compares serials only, and a plan whose first apply was killed early, or whose
state was not saved or was restored, is accepted again with all its effects.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provisioning.terraform import planfile, process, records
from provisioning.terraform.ask import MODULE, ToolFailed, explain, show, state_now, stderr_of
from provisioning.terraform.classify import Class, Facts, Outcome, Phase, classify, outcome
from provisioning.terraform.errors import ModuleChanged, PlanTampered, TerraformError
from provisioning.terraform.fate import Fate, Life, group_is_empty
from provisioning.terraform.prepare import prepare
from provisioning.terraform.redact import Secrets, secrets_of
from provisioning.terraform.stack import Stack, digest
from provisioning.terraform.state import StateMark
from provisioning.terraform.stream import Entry, Reader, Stream, Summary

RUN = "apply"  # the run's directory in the folder; there is never a second one
_APPROVED = "approved.bin"
_ERRORED_STATE = "errored.tfstate"


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of an apply. No text in it holds a secret that the plan marks as one."""

    outcome: Outcome
    ledger: tuple[Entry, ...] = ()
    summary: Summary | None = None
    message: str = ""  # the tool's own words about its errors
    outputs: dict[str, Any] = field(default_factory=dict)  # those that are not sensitive
    state: StateMark | None = None  # where the state stands now; None: could not be read
    left_behind: bool = False  # something that the apply started is still alive
    errored_state: Path | None = None  # the state that could not be saved: push it, keep it


def apply(
    stack: Stack,
    folder: Path,
    plan_file: Path,
    *,
    sha256: str,
    module_sha256: str,
    seconds: float,
    grace: float = 60,
    stop: Callable[[], bool] = lambda: False,
    watch: Callable[[tuple[Entry, ...]], None] = lambda _: None,
    earlier_attempt: bool = False,
    lock_wait: int = 30,
) -> Applied:
    """Apply a saved plan in a folder that may be fresh and on another machine than the plan.

    Both digests are those of the approved Plan. When `stop()` says so, or when `seconds` plus
    `lock_wait` have passed, the tool gets its one interrupt, and `grace` seconds to end; after
    that the apply goes on, supervised, and the outcome is `still_running`: look later with
    observe(). A stop can lose the race: the outcome is what the tool says, not what was asked.

    `watch` gets the ledger when it has grown. What `stop` or `watch` raise passes through, and
    the apply goes on likewise. `earlier_attempt`: an apply of this stack's plan began before,
    so that "stale" cannot be blamed on somebody else.

    Raises TerraformError (PlanTampered, ModuleChanged, ToolFailed, …) when the tool was not
    started; AlreadyStarted alone leaves open what an earlier call in the folder did.
    """
    approved = _approved(folder, plan_file, sha256)
    prepare(stack, folder, lock=planfile.lock_file(approved))
    _refuse_changed_module(folder, module_sha256)
    secrets = _secrets_of(stack, folder, approved)
    run = folder / RUN
    process.start(run, _command(stack, folder, approved, lock_wait))
    fate, stopped = _see_through(run, seconds + lock_wait, grace, stop, watch)
    facts = Facts(cancel_requested=stopped, prior_attempt_started=earlier_attempt)
    return _applied(stack, folder, fate, facts, secrets)


def judge(run: Path, fate: Fate, said: Stream, facts: Facts) -> Outcome:
    """Say what the fate of an apply means. Pure but for the tool's stderr."""
    match fate.life:
        case Life.RUNNING:
            return outcome(Class.UNCERTAIN, "still_running")
        case Life.ORPHANED:
            return outcome(Class.UNCERTAIN, "orphaned")
        case Life.NEVER:
            return outcome(Class.TERMINAL, "never_started")
        case _:
            return classify(Phase.APPLY, fate.rc, said, stderr_of(run), facts)


def _approved(folder: Path, plan_file: Path, sha256: str) -> Path:
    """Take a private copy, and check the very bytes that will be applied."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    copy = folder / _APPROVED
    try:
        shutil.copyfile(plan_file, copy)
    except OSError as error:
        raise ToolFailed(outcome(Class.TERMINAL, "plan_unreadable"), str(error.strerror)) from error
    if planfile.sha256(copy) != sha256:
        raise PlanTampered(
            "Nothing was applied: the plan file is not the one that was approved. Find out who "
            "can write to the plan storage, then make a new plan and have it approved."
        )
    return copy


def _refuse_changed_module(folder: Path, module_sha256: str) -> None:
    # Scripts that the module refers to are not in the plan file: an edited one would just run.
    if digest(folder / MODULE) != module_sha256:
        raise ModuleChanged(
            "Nothing was applied: the module's files are not those that were planned. Deploy "
            "the same version to this worker, or make a new plan and have it approved."
        )


def _secrets_of(stack: Stack, folder: Path, approved: Path) -> Secrets:
    shown = show(stack, folder, approved)
    if shown.get("errored", False):
        raise ToolFailed(outcome(Class.TERMINAL, "plan_errored"))
    return stack.hidden() | secrets_of(shown)


def _command(stack: Stack, folder: Path, approved: Path, lock_wait: int) -> process.Command:
    argv = (
        *(str(stack.tool.path), "apply", "-input=false", "-json"),
        *(f"-lock-timeout={lock_wait}s", str(approved)),
    )
    return process.Command(argv, folder / MODULE, stack.environment())


def _see_through(
    run: Path,
    seconds: float,
    grace: float,
    stop: Callable[[], bool],
    watch: Callable[[tuple[Entry, ...]], None],
) -> tuple[Fate, bool]:
    reader, stopped = Reader(run / records.STDOUT), False
    seen: tuple[Entry, ...] = ()

    def report() -> None:
        nonlocal seen
        ledger = reader.read().ledger
        if ledger != seen:
            seen = ledger
            watch(ledger)

    def wanted() -> bool:
        nonlocal stopped
        report()
        stopped = stop()
        return stopped

    def insist() -> bool:
        report()
        process.interrupt(run)  # sends one in all, as soon as the tool can hear it
        return False

    fate = process.wait(run, seconds, until=wanted)
    if not fate.is_over:
        fate = process.wait(run, grace, until=insist)
    report()
    return fate, stopped


def _applied(stack: Stack, folder: Path, fate: Fate, facts: Facts, secrets: Secrets) -> Applied:
    run, errored = folder / RUN, folder / MODULE / _ERRORED_STATE
    said = Reader(run / records.STDOUT).read(last=fate.is_over)
    words = explain(said, stderr_of(run), secrets)
    return Applied(
        outcome=judge(run, fate, said, facts),
        ledger=said.ledger,
        summary=said.summary,
        message=words if fate.life is Life.ENDED else fate.reason,
        outputs=said.outputs,
        state=_state_after(stack, folder) if fate.life is Life.ENDED else None,
        left_behind=group_is_empty(run) is False,
        errored_state=errored if errored.exists() else None,
    )


def _state_after(stack: Stack, folder: Path) -> StateMark | None:
    try:
        return state_now(stack, folder)
    except TerraformError:
        return None
