"""What a module puts out is kept as far as it can be stored, and never fails the job."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.params import encode_output
from provisioning.lifecycle.outputs import storable


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    ["a\x00b", "\ud800", float("inf"), nested(70), "x" * 40_000],
    ids=["nul", "surrogate", "infinity", "deep", "large"],
)
def test_what_cannot_be_stored_is_left_out_by_name(value: Any) -> None:
    kept, left_out = storable({"bad": value, "good": {"a": [1, None, True, "ä"]}})

    assert kept == {"good": {"a": [1, None, True, "ä"]}}
    assert left_out == ["bad"]


def test_all_that_is_kept_fits_into_a_step() -> None:
    kept, left_out = storable({f"output_{n}": "x" * 1000 for n in range(1000)})

    encode_output({"outputs": kept, "left_out": left_out})
    assert kept
    assert len(left_out) == 100
