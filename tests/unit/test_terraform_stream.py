"""The reader takes what it understands and survives the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioning.terraform.stream import Change, Progress, Reader, Stream, parse, read


def line(kind: str, **more: Any) -> str:
    return json.dumps({"@timestamp": "2026-01-01T00:00:00Z", "type": kind, **more})


def hook(address: str = "terraform_data.a", action: str = "create", **more: Any) -> dict[str, Any]:
    return {"hook": {"resource": {"addr": address}, "action": action, **more}}


VERSION = line("version", terraform="1.11.4", ui="1.2")


def test_the_ledger_keeps_one_entry_per_action_in_the_order_they_began() -> None:
    seen = parse(
        [
            VERSION,
            line("apply_start", **hook("a", "delete", id_key="id", id_value="7")),
            line("apply_start", **hook("b")),
            line("apply_complete", **hook("a", "delete")),
            line("apply_start", **hook("a")),
            line("apply_errored", **hook("b")),
        ]
    )

    assert [(one.address, one.action, one.progress) for one in seen.ledger] == [
        ("a", "delete", Progress.COMPLETED),
        ("b", "create", Progress.ERRORED),
        ("a", "create", Progress.STARTED),
    ]
    assert seen.ledger[0].id == "id=7"


def test_only_the_top_level_type_is_trusted() -> None:
    spoof = line("change_summary", changes={"operation": "apply", "add": 1})

    seen = parse([VERSION, line("provision_progress", **hook(output=spoof)), f"  noise {spoof}"])

    assert seen.summary is None
    assert seen.ignored == 1


@pytest.mark.parametrize(
    "garbage",
    [
        "not json",
        '{"type": "apply_start", "hook"',
        "[1, 2]",
        "null",
        '"text"',
        '{"type": ["apply_start"]}',
        '{"type": "never seen"}',
        "[" * 100_000,
        "x" * (1 << 21),
        b"\xff\xfe\x00",
    ],
)
def test_garbage_is_counted_and_ignored(garbage: str | bytes) -> None:
    seen = parse([VERSION, garbage, line("apply_start", **hook())])

    assert seen.ignored == 1
    assert len(seen.ledger) == 1


@pytest.mark.parametrize(
    "odd",
    [
        line("apply_start", hook=None),
        line("apply_start", hook={"resource": [], "action": 3}),
        line("diagnostic", diagnostic="?"),
        line("change_summary", changes={"add": "many"}),
        line("outputs", outputs=[1]),
        line("planned_change"),
    ],
)
def test_a_known_type_of_an_unknown_shape_does_no_harm(odd: str) -> None:
    assert isinstance(parse([VERSION, odd]), Stream)


@given(st.lists(st.text() | st.binary()))
def test_nothing_that_is_printed_breaks_the_reader(lines: list[str | bytes]) -> None:
    assert not parse(lines).ledger


def test_nul_and_half_a_surrogate_do_not_reach_the_database() -> None:
    said = {"severity": "error", "summary": "a\0b", "detail": "\ud800c"}

    (one,) = parse([VERSION, line("diagnostic", diagnostic=said)]).errors

    assert one.text == "ab: ?c"


def test_another_major_version_of_the_format_is_not_read_at_all() -> None:
    seen = parse([line("version", terraform="9.0.0", ui="2.0"), line("apply_start", **hook())])

    assert seen.is_foreign
    assert not seen.ledger


def test_opentofu_names_itself_otherwise() -> None:
    assert parse([line("version", tofu="1.10.0", ui="1.2")]).tool == "1.10.0"


def test_planned_changes_summary_and_open_outputs_are_read() -> None:
    outputs = {"id": {"value": 3}, "key": {"sensitive": True, "value": "s"}, "new": {}}
    change = {"resource": {"addr": "a"}, "action": "replace"}

    seen = parse([VERSION, line("planned_change", change=change), line("outputs", outputs=outputs)])

    assert seen.planned == (Change("a", "replace"),)
    assert seen.outputs == {"id": 3}


def test_interrupts_are_counted_by_what_the_tool_says() -> None:
    once = json.dumps({"type": "log", "@message": "\nInterrupt received.\nPlease wait"})
    twice = json.dumps({"type": "log", "@message": "\nTwo interrupts received. Exiting"})

    assert parse([VERSION, once]).interrupts == 1
    assert parse([VERSION, once, twice]).interrupts == 2


def test_a_growing_file_is_read_line_by_line_each_once(tmp_path: Path) -> None:
    file = tmp_path / "stdout"
    reader = Reader(file)
    assert reader.read() == Stream()
    start, end = line("apply_start", **hook()), line("apply_complete", **hook())

    file.write_text(f"{VERSION}\n{start}\n{end[:20]}")
    assert [one.progress for one in reader.read().ledger] == [Progress.STARTED]
    with file.open("a") as more:
        more.write(f"{end[20:]}\n")
    seen = reader.read()

    assert [one.progress for one in seen.ledger] == [Progress.COMPLETED]
    assert seen.ignored == 0
    assert seen == read(file)


def test_a_last_line_without_its_end_counts_once_the_run_is_over(tmp_path: Path) -> None:
    file = tmp_path / "stdout"
    file.write_text(f"{VERSION}\n{line('apply_start', **hook())}")

    assert not Reader(file).read().ledger
    assert Reader(file).read(last=True).ledger
