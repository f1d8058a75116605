"""Why was nothing done? The errors raised before, or instead of, applying.

Each of them proves that this call applied nothing. What a started apply did is never raised:
it is an `Outcome` of an `Applied`. Two attributes are all that a step has to look at.
"""

from __future__ import annotations

from pathlib import Path

from workspaces.errors import FiredoorError


class TerraformError(FiredoorError):
    """Base of this package's errors. `sentence` is free of the stack's secrets.

    `transient`: the same may succeed later. `nothing_happened`: no apply was begun in the
    folder, by this call or another.
    """

    code = "terraform_error"
    status = 409
    transient: bool = False
    nothing_happened: bool = True


class BinaryMissing(TerraformError):
    """No OpenTofu or Terraform that can be executed."""

    code = "binary_missing"


class UnsupportedHost(TerraformError):
    """Runs are supervised through Linux' /proc and pidfd; this host has neither."""

    code = "unsupported_host"


class AlreadyStarted(TerraformError):
    """The run was started, or forbidden to start, by somebody before. It is never started twice."""

    code = "already_started"
    nothing_happened = False

    def __init__(self, run: Path) -> None:
        super().__init__(
            f"Nothing was started: {run.parent.name}/{run.name} was used before, or an observer "
            "has ruled that it must not start. Look at what became of it with observe(), and "
            "use a fresh folder for a new attempt."
        )


class FolderUsed(TerraformError):
    """The folder holds something that this package did not finish preparing."""

    code = "folder_used"


class VariableRefused(TerraformError):
    """A variable cannot be handed to the tool as it is."""

    code = "variable_refused"


class PlanTampered(TerraformError):
    """The plan file is not the one whose digest was approved."""

    code = "plan_tampered"


class ModuleChanged(TerraformError):
    """The module's files are not those the plan was made from."""

    code = "module_changed"


class StateUnreadable(TerraformError):
    """The state has no serial and lineage that could be read."""

    code = "state_unreadable"
