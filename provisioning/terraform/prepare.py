"""How is a folder made ready, on whatever machine the work goes on?

Plain preparation, never a step: the module is copied, the backend written over the module's own,
and the tool initialised, without asking anybody anything. A folder serves one attempt.

With a lock file (the module's, or the one inside an approved plan) init may not change it: the
providers are those of the lock, or it fails. Without one, init chooses and the plan carries it.
"""

from __future__ import annotations

import json
from pathlib import Path

from provisioning.terraform import records
from provisioning.terraform.ask import MODULE, ToolFailed, ask, explain
from provisioning.terraform.classify import Class, Phase
from provisioning.terraform.errors import FolderUsed
from provisioning.terraform.stack import LOCK, OVERRIDE, Stack, copy

_READY = "ready.json"
_SECONDS = 300


def prepare(stack: Stack, folder: Path, *, lock: bytes | None = None) -> None:
    """Make the folder ready for the stack; one that is ready for it stays as it is.

    Raises FolderUsed for a folder that holds anything else, and ToolFailed when init fails:
    give a fresh folder then. Calls the network only for providers and remote backends.
    """
    backend = {stack.backend.name: dict(stack.backend.settings)}
    if records.read(folder / _READY) == {"backend": backend}:
        return
    module = folder / MODULE
    if module.exists():
        raise FolderUsed(
            f"Nothing was started: the folder {folder.name} was used for something else, or its "
            "preparation was cut short. Give a fresh folder to every attempt."
        )
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    copy(stack.module, module)
    override = {"terraform": {"backend": backend}}
    (module / OVERRIDE).write_text(json.dumps(override, indent=2))
    if lock is not None:
        (module / LOCK).write_bytes(lock)
    _initialise(stack, folder)
    records.write_whole(folder / _READY, {"backend": backend})


def _initialise(stack: Stack, folder: Path) -> None:
    fixed = ("-lockfile=readonly",) if (folder / MODULE / LOCK).exists() else ()
    answer = ask(stack, folder, "init", "-input=false", "-no-color", *fixed, seconds=_SECONDS)
    judged = answer.judged(Phase.INIT)
    if judged.kind is not Class.OK:
        raise ToolFailed(judged, explain(answer.stream, answer.stderr, stack.hidden()))
