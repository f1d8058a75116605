"""The catalogue is true: what the code emits is told or kept inside, and the rest is reserved."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs import ending
from jobs.testing import drain
from tests.integration.webhooks.scene import deliveries, endpoint, tell
from tests.support.receiver import Receiver
from webhooks.catalogue import CATALOGUE, KEPT_INSIDE
from workspaces.models import Workspace

ROOT = Path(__file__).parents[3]
PARTS = ("workspaces", "jobs", "provisioning", "alerts", "webhooks", "examples", "config")
VARIES = {
    ("jobs/ending.py", "_event_type(job)"): {*ending._EVENTS.values(), "job.uncertain"},
    ("jobs/recovery/course.py", "event_type"): set(),  # what its callers give to `tell`
}
RESERVED = {name for name, one in CATALOGUE.items() if one.reserved}


def calls() -> Iterator[tuple[str, ast.expr]]:
    """The first argument of every call that emits, with its file."""
    for part in PARTS:
        for file in sorted((ROOT / part).rglob("*.py")):
            path = file.relative_to(ROOT).as_posix()
            names = {"emit", "tell"} if path.startswith("jobs/recovery/") else {"emit"}
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call) and node.args and _name(node.func) in names:
                    yield path, node.args[0]


def _name(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def emitted() -> set[str]:
    """Every type that the code emits."""
    found: set[str] = set()
    for path, said in calls():
        if isinstance(said, ast.Constant):
            found.add(str(said.value))
        elif (place := (path, ast.unparse(said))) in VARIES:
            found |= VARIES[place]
        else:
            module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
            found.add(getattr(module, ast.unparse(said)))
    return found


def test_what_is_emitted_is_told_or_kept_inside_for_a_reason() -> None:
    assert emitted() == (set(CATALOGUE) - RESERVED) | set(KEPT_INSIDE)
    assert not set(CATALOGUE) & set(KEPT_INSIDE)


def test_what_is_reserved_says_so() -> None:
    assert {
        "run.needs_approval",
        "run.applied",
        "run.failed",
        "pipeline.finished",
        "command.finished",
        "schedule.missed",
    } == RESERVED
    for name in CATALOGUE:
        assert (name in RESERVED) == CATALOGUE[name].meaning.endswith("*Reserved:* not told yet.")


@pytest.mark.sqlite
@pytest.mark.django_db(transaction=True)
def test_one_may_subscribe_to_what_is_reserved(acme: Workspace, hook: Receiver) -> None:
    endpoint(acme, hook, events=sorted(RESERVED))
    tell(acme)
    assert deliveries() == []
    tell(acme, "run.applied")
    drain()
    assert [each.status for each in deliveries()] == ["succeeded"]
