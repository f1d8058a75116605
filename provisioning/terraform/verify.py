"""Is everything as the module says? A fresh plan must be empty, and no check may have failed.

Read-only, and never a reason to apply again: a module with `timestamp()` differs for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provisioning.terraform.plan import changes_of, is_applyable, make
from provisioning.terraform.prepare import prepare
from provisioning.terraform.stack import Stack
from provisioning.terraform.stream import Change

_FILE = "verify.bin"


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found. `code`: verified, not_converged, checks_failed or not_complete.

    `outputs` are the module's, without the sensitive ones; only of what is verified.
    """

    code: str
    sentence: str
    changes: tuple[Change, ...] = ()
    failed_checks: tuple[str, ...] = ()
    outputs: dict[str, Any] = field(default_factory=dict)

    @property
    def converged(self) -> bool:
        """Whether the real thing is what the module says."""
        return self.code == "verified"


def verify(stack: Stack, folder: Path, *, seconds: float, lock_wait: int = 30) -> Verification:
    """Compare the real thing with the module. The folder may be the apply's or a fresh one.

    Raises ToolFailed when it could not be looked at: that is neither a yes nor a no.
    """
    prepare(stack, folder)
    made = make(stack, folder, _FILE, seconds=seconds, lock_wait=lock_wait)
    made.file.unlink(missing_ok=True)
    return judge(made.shown, applyable=is_applyable(made))


def judge(shown: dict[str, Any], *, applyable: bool) -> Verification:
    """Decide from what a plan shows."""
    changes, failed = changes_of(shown), failed_checks(shown)
    if failed:
        return Verification(
            "checks_failed",
            "It was applied, but checks of the module fail. Look at the real thing.",
            changes,
            failed,
        )
    if applyable:
        return Verification(
            "not_converged",
            "It was applied, but a fresh plan still wants changes. Do not apply in a loop: read "
            "the changes, correct the module or the real thing, and make a new plan.",
            changes,
        )
    if not shown.get("complete", True):
        return Verification(
            "not_complete", "The plan looked at some targets only; nothing is proven by it."
        )
    return Verification(
        "verified", "A fresh plan is empty and no check fails.", outputs=outputs_of(shown)
    )


def failed_checks(shown: dict[str, Any]) -> tuple[str, ...]:
    """Return the checks that failed. The tool itself only warns about `check` blocks."""
    return tuple(
        str(check.get("address", {}).get("to_display", "?"))
        for check in shown.get("checks", ())
        if check.get("status") in ("fail", "error")
    )


def outputs_of(shown: dict[str, Any]) -> dict[str, Any]:
    """Return the module's outputs that are known and not sensitive."""
    outputs = shown.get("planned_values", {}).get("outputs", {})
    return {
        name: output["value"]
        for name, output in outputs.items()
        if "value" in output and not output.get("sensitive", False)
    }
