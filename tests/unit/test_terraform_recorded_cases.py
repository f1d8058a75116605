"""Every recorded run of the real tool is read as what it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provisioning.terraform.classify import Facts, Phase, classify
from provisioning.terraform.stream import parse

RECORDED = sorted(Path(__file__).parents[1].glob("fixtures/terraform/*.json"))
# The recordings have a class of their own for a stop on request; here it is what it leaves.
CLASS = {"canceled": "partial"}


def recorded(path: Path) -> dict[str, Any]:
    case: dict[str, Any] = json.loads(path.read_text())
    return case


def test_the_recordings_are_there() -> None:
    assert len(RECORDED) == 50


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_case_is_classified_as_expected(path: Path) -> None:
    case = recorded(path)

    seen = classify(
        Phase(case["phase"]),
        case["rc"],
        parse(case["stdout"]),
        case["stderr"],
        Facts(**case["facts"]),
    )

    kind, code = case["expect"].split("/")
    assert (seen.kind.value, seen.code) == (CLASS.get(kind, kind), code)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_no_recorded_apply_that_began_is_said_to_have_changed_nothing(path: Path) -> None:
    case = recorded(path)
    stream = parse(case["stdout"])

    seen = classify(Phase(case["phase"]), case["rc"], stream, case["stderr"])

    assert not (stream.ledger and seen.nothing_happened)


def test_the_ledger_of_a_killed_apply_names_what_exists_and_what_was_in_flight() -> None:
    case = recorded(RECORDED[0].with_name("apply_sigkill.json"))

    ledger = parse(case["stdout"]).ledger

    assert [(one.address, one.progress.value) for one in ledger] == [
        ("terraform_data.a", "completed"),
        ("terraform_data.b", "started"),
    ]
    assert ledger[0].id == "id=1b6801cc-68c2-3492-ae32-0bfeec348b1c"
