"""What is provisioned? A module, its variables, where its state lives, and the tool that runs."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provisioning.terraform.binary import Binary
from provisioning.terraform.environment import BASE, as_environment, environment
from provisioning.terraform.redact import Secrets

OVERRIDE = "firedoor_override.tf.json"  # the backend; "_override" files win in the tool
LOCK = ".terraform.lock.hcl"
# What a run leaves behind is no part of a module.
_LEFTOVERS = (".terraform", "*.tfstate", "*.tfstate.*", "crash.*.log", OVERRIDE)


@dataclass(frozen=True, slots=True)
class Backend:
    """Where the state lives: a backend's name and settings, written over the module's own.

    Settings end up in the plan file in clear: pass credentials as the backend's environment
    variables (`Stack.environ`) instead.
    """

    name: str
    settings: Mapping[str, Any]

    @classmethod
    def local(cls, path: Path) -> Backend:
        """A file, at the same absolute path on every machine that shall apply."""
        return cls("local", {"path": str(path.absolute())})

    @property
    def file(self) -> Path | None:
        """The state's file, when it lives in one."""
        return Path(self.settings["path"]) if self.name == "local" else None


@dataclass(frozen=True, slots=True)
class Stack:
    """All that a plan depends on.

    `module` must hold everything that it refers to: it is copied, and its digest is approved.
    `secrets` are variables like the others whose values no text of ours ever shows; `environ`
    is what providers need besides (credentials), and is hidden likewise.
    """

    tool: Binary
    module: Path
    backend: Backend
    variables: Mapping[str, Any] = field(default_factory=dict)
    secrets: Mapping[str, Any] = field(default_factory=dict, repr=False)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)

    def environment(self) -> dict[str, str]:
        """Return the whole environment that the tool gets. Raises VariableRefused."""
        given = as_environment({**self.variables, **self.secrets})
        return environment(self.environ, BASE, given)

    def hidden(self) -> Secrets:
        """Return what must never be shown, as far as it is known without a plan."""
        return Secrets.of([*self.secrets.values(), *self.environ.values()])


def digest(module: Path) -> str:
    """Return the sha256 of a module's files: their paths, contents and executable bits.

    The lock file is left out: init may write it, and the plan file holds and binds it.
    """
    total = hashlib.sha256()
    for path in sorted(_files(module)):
        name = path.relative_to(module).as_posix()
        executable = os.access(path, os.X_OK)
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{name}\0{int(executable)}\0{content}\n".encode())
    return total.hexdigest()


def copy(module: Path, into: Path) -> None:
    """Copy a module without what earlier runs left in it."""
    shutil.copytree(module, into, ignore=shutil.ignore_patterns(*_LEFTOVERS))


def _files(module: Path) -> Iterator[Path]:
    ignore = shutil.ignore_patterns(*_LEFTOVERS, LOCK)
    for folder, folders, files in os.walk(module):
        left_out = ignore(folder, [*folders, *files])
        folders[:] = [name for name in folders if name not in left_out]
        yield from (Path(folder, name) for name in files if name not in left_out)
