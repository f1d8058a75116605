"""The real tool, the example module and folders for tests of provisioning."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from provisioning.terraform import binary, records
from provisioning.terraform.apply import Applied, apply
from provisioning.terraform.errors import BinaryMissing
from provisioning.terraform.plan import Plan, plan
from provisioning.terraform.stack import Backend, Stack
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "provisioning/stacks/modules/workspace"
SECONDS = 60


def real_tool() -> binary.Binary:
    """Return the tool on PATH; skips the test, saying so, where there is none."""
    try:
        return binary.find()
    except BinaryMissing as error:
        pytest.skip(f"needs a real OpenTofu or Terraform: {error}")


def in_flight(run: Path, name: str) -> None:
    """Wait until the tool says that this resource has begun; those before it are in the state."""
    said = run / records.STDOUT
    marker = f"terraform_data.{name}: (local-exec)"
    wait_until(lambda: said.exists() and marker in said.read_text(), 60, f"{name} in flight")


@dataclass
class Site:
    """One stack of the example module, its effects ledger and its attempts' folders."""

    path: Path
    tool: binary.Binary
    hold: Path
    folders: int = 0

    @property
    def effects(self) -> list[str]:
        """Return the effects that really happened."""
        ledger = self.path / "effects"
        return ledger.read_text().split("\n")[:-1] if ledger.exists() else []

    @property
    def state(self) -> Path:
        return self.path / "state/terraform.tfstate"

    def stack(self, module: Path = EXAMPLE, backend: Backend | None = None, **more: Any) -> Stack:
        """Return the stack; `more` are variables of the example module."""
        variables: dict[str, Any] = {}
        if module is EXAMPLE:
            effects = str(self.path / "effects")
            variables = {"workspace": "acme", "effects": effects, "pause_while": str(self.hold)}
        return Stack(self.tool, module, backend or Backend.local(self.state), {**variables, **more})

    def folder(self) -> Path:
        """Return the folder of a fresh attempt; it does not exist yet."""
        self.folders += 1
        return self.path / f"attempt-{self.folders}"

    def plan(self, stack: Stack) -> Plan:
        """Plan in a fresh folder."""
        return plan(stack, self.folder(), seconds=SECONDS)

    def apply(self, stack: Stack, planned: Plan, folder: Path, **more: Any) -> Applied:
        """Apply what was planned."""
        return apply(
            stack,
            folder,
            planned.file,
            sha256=planned.sha256,
            module_sha256=planned.module_sha256,
            **{"seconds": SECONDS, "lock_wait": 0, **more},
        )

    def module(self, text: str) -> Path:
        """Write a module of one file."""
        folder = self.path / "module"
        folder.mkdir(exist_ok=True)
        (folder / "main.tf").write_text(text)
        return folder
