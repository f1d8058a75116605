"""How does a plan travel to the machine that applies it? Through Django's default storage.

Under a name made of its digest: what was planned is what comes back, or nothing does. A plan
holds secrets in clear, so the storage must be private.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from django.core.files import File
from django.core.files.storage import default_storage

from provisioning.terraform import planfile
from provisioning.terraform.errors import PlanTampered, TerraformError

_FILE = "planned.bin"


class PlanMissing(TerraformError):
    """The storage does not have the plan any more."""

    code = "plan_missing"


def store(file: Path, sha256: str) -> str:
    """Keep a plan; returns its name. The same plan is kept once."""
    name = f"plans/{sha256}.tfplan"
    if default_storage.exists(name):
        return name
    with file.open("rb") as opened:
        return default_storage.save(name, File(opened))


def restore(name: str, sha256: str, folder: Path) -> Path:
    """Copy a plan into the folder. Raises PlanMissing, and PlanTampered for any other bytes."""
    copy = folder / _FILE
    try:
        with default_storage.open(name) as stored, copy.open("wb") as file:
            shutil.copyfileobj(stored, file)
    except FileNotFoundError as error:
        raise PlanMissing(
            "Nothing was applied: the plan is not in the storage any more. "
            "Retry from the failed step: that makes a new plan."
        ) from error
    if planfile.sha256(copy) != sha256:
        raise PlanTampered(
            "Nothing was applied: the stored plan is not the one that was made. Find out who can "
            "write to the storage, then retry from the failed step: that makes a new plan."
        )
    return copy
