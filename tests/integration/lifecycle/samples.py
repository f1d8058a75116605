"""Fresh intents of provisioning.provision for the conformance suite, and what they really did.

Needs the fixtures `root` and `control` of this folder's conftest. The kind is enqueued by name
there, in a workspace without a lifecycle, so nothing refuses a retry and nothing is moved.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from examples.registry.control import RegistryControl
from tests.integration.lifecycle.looking import EACH_ONCE, created


def params() -> dict[str, Any]:
    """The params of an intent that shares nothing with any other."""
    return {"slug": f"sample-{uuid.uuid4().hex[:12]}", "variables": {}}


def effects(control: RegistryControl, params: Mapping[str, Any]) -> dict[str, int]:
    """How often the effect of each step happened, by step name; 1 for apply is all of it once."""
    counts = [created(params["slug"])[name] for name in EACH_ONCE]
    times = min(counts) if min(counts) == 0 else max(counts)
    return {"apply": times, "register": len(control.registrations(params["slug"]))}
