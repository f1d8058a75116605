"""Bodies of requests: JSON with one meaning, and when two requests are the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspaces.http.errors import Malformed
from workspaces.http.parsing import DEEPEST, Sent, parsed

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
)
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner), max_leaves=20
)


def digest(body: bytes, **other: Any) -> str:
    parts = {"method": "POST", "path": "/x/", "query": "", "media_type": "application/json"}
    return Sent(**{**parts, **other}, body=body).fingerprint()


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


@given(TREES)
def test_json_comes_out_as_it_went_in(tree: Any) -> None:
    assert parsed(json.dumps(tree).encode()) == tree


def test_an_empty_body_is_an_empty_object() -> None:
    assert parsed(b" \n") == {}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"nonsense",
        b"\xff\xfe",
        b'\xef\xbb\xbf{"a": 1}',
        b'{"a": 1, "a": 2}',
        b'{"x": [{"a": 1, "\\u0061": 2}]}',
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": "\\ud800"}',
        b'{"\\uDFFF": 1}',
        b'{"a": "x\\u0000"}',
        b'{"\\u0000": 1}',
        b'{"a": "\x00"}',
        nested(DEEPEST + 2),
        nested(100_000),
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    ],
    ids=lambda body: repr(body[:24]),
)
def test_what_has_no_meaning_or_two_is_refused(body: bytes) -> None:
    with pytest.raises(Malformed, match="Nothing was done"):
        parsed(body)
    with pytest.raises(Malformed):
        digest(body)


def test_as_deep_as_is_said_is_accepted_with_a_key_and_without() -> None:
    body = nested(DEEPEST)[:DEEPEST] + b"1.5" + nested(DEEPEST)[DEEPEST:]
    assert json.dumps(parsed(body)).encode() == body
    assert digest(body) != digest(body.replace(b"1.5", b"1.50"))


def test_a_backslash_before_u0000_is_just_text() -> None:
    body = b'{"a": "\\\\u0000", "b": 1.0}'
    assert parsed(body) == {"a": "\\u0000", "b": 1.0}
    assert digest(body) == digest(b'{"b": 1.0, "a": "\\\\u0000"}')


def test_pairs_of_surrogates_are_text() -> None:
    assert parsed(b'"\\ud83d\\ude80"') == "\N{ROCKET}"


def test_a_name_that_comes_twice_among_very_many_is_found_in_linear_time() -> None:
    """Quadratic, this would take minutes: the run's own timeout ends it."""
    names = ",".join(f'"{n}":0' for n in range(200_000))
    with pytest.raises(Malformed, match="'199999' comes twice"):
        parsed(f'{{{names},"199999":1}}'.encode())


@given(TREES)
def test_neither_space_nor_order_makes_another_request(tree: Any) -> None:
    spread = json.dumps({"a": tree, "b": 1}, indent=2).encode()
    dense = json.dumps({"b": 1, "a": tree}, separators=(",", ":")).encode()
    assert digest(spread) == digest(dense)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a": 1}', b'{"a": 1.0}'),
        (b'{"a": 1.0}', b'{"a": 1.00}'),
        (b'{"a": 1.0}', b'{"a": "1.0"}'),
        (b'{"a": 100000000000000000000}', b'{"a": 100000000000000000001}'),
        (b'{"a": 9007199254740993}', b'{"a": 9007199254740992}'),
        (b'{"a": null}', b"{}"),
        (b'{"a": [1, 2]}', b'{"a": [2, 1]}'),
        (b'{"a": true}', b'{"a": 1}'),
        (b'{"a": "\xc3\xa9"}', b'{"a": "e\xcc\x81"}'),
    ],
)
def test_another_value_is_another_request(one: bytes, other: bytes) -> None:
    assert digest(one) != digest(other)


def test_every_part_counts_and_none_runs_into_the_next() -> None:
    seen = {
        digest(b"{}"),
        digest(b"{}", method="PATCH"),
        digest(b"{}", path="/x/y"),
        digest(b"{}", path="/x", query="/"),
        digest(b"{}", query="a=1"),
        digest(b"{}", query="a=2"),
        digest(b"{}", media_type="text/plain"),
        digest(b""),
    }
    assert len(seen) == 8


def test_the_order_of_the_query_does_not_count() -> None:
    assert digest(b"{}", query="a=1&b=2") == digest(b"{}", query="b=2&a=1")


def test_other_media_are_compared_byte_by_byte() -> None:
    assert digest(b'{"a":1}', media_type="text/plain") != digest(
        b'{"a": 1}', media_type="text/plain"
    )
