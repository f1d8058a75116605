"""What is a workspace made of, and where does its state live?

The seam for what comes later: bundles and connections will choose the module, its variables and
secrets, and a remote backend (give `Backend("s3", …)` here; its lock then guards more than one
host). Until then every workspace is the configured module, with its state in a file of its own.
*Hole:* a state in a file serves one host, or hosts that share FIREDOOR_VAR.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings

from provisioning.terraform import binary
from provisioning.terraform.stack import Backend, Stack


def stack_of(slug: str, variables: Mapping[str, Any]) -> Stack:
    """Return the stack of a workspace. Raises BinaryMissing.

    `effects` is the example module's ledger of what it really did: one for the whole machine.
    """
    root = Path(settings.FIREDOOR_PROVISIONING)
    states = root / "states"
    states.mkdir(parents=True, exist_ok=True, mode=0o700)
    return Stack(
        tool=binary.find(settings.FIREDOOR_TOFU_BIN),
        module=Path(settings.FIREDOOR_MODULE),
        backend=Backend.local(states / f"{slug}.tfstate"),
        variables={**variables, "workspace": slug, "effects": str(effects_ledger())},
    )


def effects_ledger() -> Path:
    """Return where the example module appends a line for each resource that it creates."""
    return Path(settings.FIREDOOR_PROVISIONING) / "effects"
