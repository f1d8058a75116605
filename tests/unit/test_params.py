"""Which params and outputs are taken, and that one text stands for equal values."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import ParamsInvalid, ParamsTooLarge
from jobs.params import (
    OUTPUT_LIMIT,
    PARAMS_LIMIT,
    OutputRejected,
    canonical,
    decode,
    encode_output,
    encode_params,
    model_of,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
JSON = st.recursive(
    SCALARS | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=6
)


@given(JSON)
def test_what_is_plain_json_comes_back_equal(value: object) -> None:
    assert json.loads(canonical(value)) == value


@given(st.dictionaries(TEXT, JSON))
def test_the_order_of_fields_does_not_matter(value: dict[str, object]) -> None:
    turned = dict(reversed(value.items()))
    assert canonical(turned) == canonical(value)
    assert encode_params("a.b", turned) == encode_params("a.b", value)


def test_other_values_have_another_digest() -> None:
    digests = {encode_params("a.b", {"n": n})[1] for n in (1, 1.5, "1", True, None, [1])}
    assert len(digests) == 6


class Odd:
    pass


def looped() -> list[object]:
    loop: list[object] = []
    loop.append(loop)
    return loop


NO_JSON = [
    Odd(),
    object,
    {1: "a"},
    {None: "a"},
    {"when": datetime.now(UTC)},
    Decimal("1.5"),
    b"bytes",
    {1, 2},
    range(3),
    math.nan,
    math.inf,
    -math.inf,
    "a\x00b",
    {"a\x00b": 1},
    ["deep", {"er": "\x00"}],
    "\ud800",
    {"\udfff": 1},
    10**5000,
    looped(),
]


@pytest.mark.parametrize("value", NO_JSON, ids=lambda value: type(value).__name__)
def test_what_json_or_the_database_would_bend_is_refused(value: object) -> None:
    with pytest.raises(OutputRejected, match="not plain JSON"):
        encode_output(value)
    with pytest.raises(ParamsInvalid, match="Nothing was enqueued"):
        encode_params("a.b", {"value": value})


def test_a_tuple_is_a_list() -> None:
    assert canonical({"pair": (1, 2)}) == '{"pair":[1,2]}'


def test_an_output_may_take_its_limit_in_bytes_and_not_one_more() -> None:
    just = "é" * ((OUTPUT_LIMIT - 2) // 2)
    assert len(encode_output(just).encode()) == OUTPUT_LIMIT
    with pytest.raises(OutputRejected, match=f"takes {OUTPUT_LIMIT + 1} bytes"):
        encode_output(just + "x")


def test_params_may_take_their_limit_in_bytes_and_not_one_more() -> None:
    around = len('{"a":""}')
    just = "x" * (PARAMS_LIMIT - around)
    assert len(encode_params("a.b", {"a": just})[0]) == PARAMS_LIMIT
    with pytest.raises(ParamsTooLarge, match=f"take {PARAMS_LIMIT + 1} bytes") as raised:
        encode_params("a.b", {"a": just + "x"})
    assert raised.value.code == "params_too_large"


# --- against the handler's annotations -----------------------------------------------------------


def handler(
    run: object,
    *,
    count: int,
    share: float = 0.5,
    mode: Literal["fast", "safe"] = "safe",
    tags: list[str] | None = None,
    more: dict[str, Any] | None = None,
    sure: bool = False,
) -> None: ...


MODEL = model_of("a.b", handler)


def decoded(text: str) -> dict[str, Any]:
    return decode("a.b", MODEL, text)


def test_given_params_reach_the_handler_and_the_rest_are_its_defaults() -> None:
    assert decoded('{"count": 3, "tags": ["a"], "mode": "fast"}') == {
        "count": 3,
        "share": 0.5,
        "mode": "fast",
        "tags": ["a"],
        "more": None,
        "sure": False,
    }


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{}", "count"),
        ('{"count": "3"}', "count"),
        ('{"count": 3.5}', "count"),
        ('{"count": true}', "count"),
        ('{"count": null}', "count"),
        ('{"count": 3, "share": "0.5"}', "share"),
        ('{"count": 3, "mode": "wild"}', "mode"),
        ('{"count": 3, "tags": "a"}', "tags"),
        ('{"count": 3, "tags": [1]}', "tags.0"),
        ('{"count": 3, "sure": 1}', "sure"),
        ('{"count": 3, "unknown": 1}', "unknown"),
        ("[]", "params"),
        ("3", "params"),
    ],
)
def test_params_that_do_not_fit_are_refused_by_name(text: str, field: str) -> None:
    with pytest.raises(ParamsInvalid) as raised:
        decoded(text)
    assert f"{field}: " in str(raised.value)
    assert raised.value.code == "params_invalid"


def test_a_refusal_does_not_repeat_the_values() -> None:
    with pytest.raises(ParamsInvalid) as raised:
        decoded('{"count": "canary-4711", "canary": "canary-4712"}')
    assert "4711" not in str(raised.value)
    assert "4712" not in str(raised.value)


def test_an_integer_will_do_for_a_float() -> None:
    assert decoded('{"count": 3, "share": 1}')["share"] == 1.0


def test_names_that_a_model_has_itself_can_be_params() -> None:
    def odd(run: object, *, json: str, copy: int, schema: str, model_id: int) -> None: ...

    text = '{"json": "a", "copy": 1, "schema": "b", "model_id": 2}'
    assert decode("a.b", model_of("a.b", odd), text) == json.loads(text)


def test_a_handler_with_params_that_nobody_could_check_is_no_kind() -> None:
    def open_ended(run: object, **more: int) -> None: ...

    def many(run: object, *values: int) -> None: ...

    def untyped(run, *, count) -> None: ...  # type: ignore[no-untyped-def]

    for wrong, what in ((open_ended, r"\*more"), (many, r"\*values"), (untyped, "'count'")):
        with pytest.raises(TypeError, match=what):
            model_of("a.b", wrong)
