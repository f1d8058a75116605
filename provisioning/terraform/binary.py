"""Which tool runs? OpenTofu where there is one, else Terraform, unless a path is given."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from provisioning.terraform.environment import BASE, environment
from provisioning.terraform.errors import BinaryMissing

_CANDIDATES = ("tofu", "terraform")
_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Binary:
    """An executable that said what it is; `version` is like "1.11.4"."""

    path: Path
    version: str

    def __str__(self) -> str:
        """Return what a plan is bound to: its name and version."""
        return f"{self.path.name} {self.version}"


def find(given: str | None = None) -> Binary:
    """Return the tool at the given path or name, else `tofu`, else `terraform` on PATH.

    Raises BinaryMissing: also when what is there cannot be executed or does not say a version.
    """
    for name in (given,) if given else _CANDIDATES:
        found = shutil.which(name)
        if found is not None:
            path = Path(found).absolute()
            return Binary(path, _version(path))
    looked = f"{given!r} (from TOFU_BIN)" if given else "neither `tofu` nor `terraform` on PATH"
    raise BinaryMissing(
        f"Nothing was started: {looked} can be executed. Install OpenTofu or Terraform on this "
        "worker, or set TOFU_BIN to its path."
    )


def _version(path: Path) -> str:
    try:
        said = subprocess.run(
            [path, "version", "-json"],
            env=environment(BASE),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
        return str(json.loads(said.stdout)["terraform_version"])
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
        raise BinaryMissing(
            f"Nothing was started: {path} does not say its version. "
            "Check that it is OpenTofu or Terraform and runs for this user."
        ) from error
