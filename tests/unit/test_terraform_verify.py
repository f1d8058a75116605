"""An empty plan verifies; failed checks do not, although the tool only warns."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.terraform.verify import judge

CHANGE = {"address": "a", "change": {"actions": ["delete", "create"]}}
NO_CHANGE = {"address": "b", "change": {"actions": ["no-op"]}}


def check(status: str) -> dict[str, Any]:
    return {"address": {"to_display": "check.health"}, "status": status}


@pytest.mark.parametrize(
    ("shown", "applyable", "code"),
    [
        ({"resource_changes": [NO_CHANGE], "checks": [check("pass")]}, False, "verified"),
        ({"resource_changes": [CHANGE]}, True, "not_converged"),
        ({}, True, "not_converged"),
        ({"checks": [check("fail")]}, False, "checks_failed"),
        ({"checks": [check("error")]}, False, "checks_failed"),
        ({"checks": [check("unknown")]}, False, "verified"),
        ({"complete": False}, False, "not_complete"),
    ],
)
def test_what_a_plan_shows_decides(shown: dict[str, Any], applyable: bool, code: str) -> None:
    seen = judge(shown, applyable=applyable)

    assert seen.code == code
    assert seen.converged == (code == "verified")


def test_the_changes_and_checks_are_named() -> None:
    seen = judge(
        {"resource_changes": [CHANGE, NO_CHANGE], "checks": [check("fail")]}, applyable=True
    )

    assert [(one.address, one.action) for one in seen.changes] == [("a", "delete, create")]
    assert seen.failed_checks == ("check.health",)


def test_the_outputs_are_those_that_are_known_and_not_sensitive() -> None:
    outputs = {
        "plain": {"sensitive": False, "value": {"a": [1]}},
        "hidden": {"sensitive": True, "value": "s3cret"},
        "unknown": {"sensitive": False},
    }

    seen = judge({"planned_values": {"outputs": outputs}}, applyable=False)

    assert seen.outputs == {"plain": {"a": [1]}}
