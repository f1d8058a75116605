"""What would be done? Makes a plan that can be stored, approved, and applied elsewhere.

Evidence, all of it: exit code 0 or 2, a change summary, and a plan file that `show -json` can
read and that was made without an error. The digest of the file's bytes is what is approved.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from provisioning.terraform import planfile
from provisioning.terraform.ask import MODULE, Answer, ToolFailed, ask, explain, show
from provisioning.terraform.classify import Class, Facts, Phase, outcome
from provisioning.terraform.prepare import prepare
from provisioning.terraform.redact import Secrets, secrets_of
from provisioning.terraform.stack import Stack, digest
from provisioning.terraform.state import Movement, StateMark, movement
from provisioning.terraform.stream import Change, Summary

FILE = "plan.bin"


@dataclass(frozen=True, slots=True)
class Plan:
    """A usable plan. `file` holds secrets in clear: store it privately."""

    file: Path
    sha256: str
    module_sha256: str
    tool: str
    prior: StateMark
    summary: Summary
    applyable: bool  # False: nothing is to be done
    complete: bool  # False: it was restricted to some targets
    changes: tuple[Change, ...]

    @property
    def destroys(self) -> bool:
        """Whether something is deleted or replaced."""
        return any("delete" in change.action for change in self.changes)

    def record(self) -> dict[str, Any]:
        """Return what must be kept to apply it later, as JSON; `changes` is not in it."""
        kept = asdict(self)
        del kept["file"], kept["changes"]
        return kept | {"destroys": self.destroys}


@dataclass(frozen=True, slots=True)
class Made:
    """A plan file as the tool made it: what it shows, in clear, and what must not be shown."""

    file: Path
    answer: Answer
    shown: dict[str, Any] = field(repr=False)
    secrets: Secrets


def plan(
    stack: Stack,
    folder: Path,
    *,
    seconds: float,
    known: StateMark | None = None,
    lock_wait: int = 30,
) -> Plan:
    """Make a plan in a fresh folder; changes nothing outside it.

    `known` is where this stack's state stood when we last saw it: a state of another lineage or
    behind it is refused (`lineage_regression`), because a backend that answers 404 looks like a
    new stack and would be created again from the start. After `seconds` the tool is interrupted.
    Raises ToolFailed, whose outcome is transient or terminal, and TerraformError.
    """
    prepare(stack, folder)
    made = make(stack, folder, FILE, seconds=seconds, lock_wait=lock_wait)
    prior = planfile.prior_state(made.file)
    _refuse_undeclared(stack, made.shown)
    _refuse_regression(known, prior)
    return _as_plan(stack, folder, made, prior)


def make(stack: Stack, folder: Path, name: str, *, seconds: float, lock_wait: int = 30) -> Made:
    """Run the plan in a prepared folder and insist on the evidence. Raises ToolFailed."""
    file = folder / name
    answer = ask(
        stack,
        folder,
        *("plan", "-input=false", "-json", "-detailed-exitcode"),
        *(f"-lock-timeout={lock_wait}s", f"-out={file}"),
        seconds=seconds + lock_wait,
    )
    shown = _shown(stack, folder, file)
    secrets = stack.hidden() | secrets_of(shown or {})
    facts = Facts(plan_ok=False)
    if shown is not None and not shown.get("errored", False):
        facts = Facts(plan_ok=True, applyable=shown.get("applyable"))
    judged = answer.judged(Phase.PLAN, facts)
    if judged.kind is not Class.OK or shown is None:
        raise ToolFailed(judged, explain(answer.stream, answer.stderr, secrets))
    return Made(file, answer, shown, secrets)


def is_applyable(made: Made) -> bool:
    """Whether there is anything to apply. OpenTofu does not say, its exit code does."""
    return bool(made.shown.get("applyable", made.answer.rc == 2))


def changes_of(shown: dict[str, Any]) -> tuple[Change, ...]:
    """Return what a plan does to which address; a replacement is one change "delete, create"."""
    return tuple(
        Change(one["address"], ", ".join(one["change"]["actions"]))
        for one in shown.get("resource_changes", ())
        if one["change"]["actions"] not in (["no-op"], ["read"])
    )


def _as_plan(stack: Stack, folder: Path, made: Made, prior: StateMark) -> Plan:
    return Plan(
        file=made.file,
        sha256=planfile.sha256(made.file),
        module_sha256=digest(folder / MODULE),
        tool=str(stack.tool),
        prior=prior,
        summary=made.answer.stream.summary or Summary("plan", 0, 0, 0),
        applyable=is_applyable(made),
        complete=bool(made.shown.get("complete", True)),
        changes=changes_of(made.shown),
    )


def _shown(stack: Stack, folder: Path, file: Path) -> dict[str, Any] | None:
    if not file.exists() or file.stat().st_size == 0:
        return None
    try:
        return show(stack, folder, file)
    except ToolFailed:
        return None


def _refuse_undeclared(stack: Stack, shown: dict[str, Any]) -> None:
    # From the environment the tool ignores a name that it does not know, without a word.
    root = shown.get("configuration", {}).get("root_module", {})
    unknown = {*stack.variables, *stack.secrets} - {*root.get("variables", {})}
    if unknown:
        raise ToolFailed(outcome(Class.TERMINAL, "variable_undeclared"), ", ".join(sorted(unknown)))


def _refuse_regression(known: StateMark | None, prior: StateMark) -> None:
    if known is not None and movement(known, prior) in (Movement.BEHIND, Movement.OTHER):
        raise ToolFailed(
            outcome(Class.TERMINAL, "lineage_regression"),
            f"serial {known.serial} was recorded, serial {prior.serial} was found",
        )
