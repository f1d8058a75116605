"""What is kept of an exception: scrubbed, bounded in bytes, grouped with others of its cause."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.failure import (
    MESSAGE_LIMIT,
    TRACEBACK_LIMIT,
    Evidence,
    class_name,
    cut,
    evidence_of,
    fingerprint,
)
from workspaces.redaction import knowing


def kept(error: BaseException, *, step: str = "charge") -> Evidence:
    try:
        raise error
    except BaseException as raised:  # noqa: BLE001  a traceback is wanted
        return evidence_of(raised, kind="a.b", step=step)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"job {uuid.UUID(int=7)} refused", f"job {uuid.UUID(int=8**40)} refused"),
        ("order 42 of 43", "order 7 of 9"),
        ("no field 'a b'", "no field 'c'"),
        ('no field "a"', 'no field "d e"'),
        ("object at 0x7f0a1b2c3d4e", "object at 0x7f0affffffff"),
        ("digest deadbeef0123", "digest 0123deadbeef"),
        ("took 1.5 s", "took 22.75 s"),
        ("at 10.0.0.1:5432", "at 10.0.0.2:6432"),
    ],
)
def test_failures_of_one_cause_share_a_fingerprint_whatever_ids_they_name(
    one: str, other: str
) -> None:
    assert fingerprint("a.b", "s", "E", one) == fingerprint("a.b", "s", "E", other)


def test_kind_step_class_and_words_tell_causes_apart() -> None:
    prints = {
        fingerprint("a.b", "s", "E", "refused"),
        fingerprint("a.c", "s", "E", "refused"),
        fingerprint("a.b", "t", "E", "refused"),
        fingerprint("a.b", "s", "F", "refused"),
        fingerprint("a.b", "s", "E", "reset"),
    }
    assert len(prints) == 5


def test_the_same_failure_of_two_jobs_is_grouped() -> None:
    one, other = kept(ValueError("order 42")), kept(ValueError("order 43"))
    assert one.fingerprint == other.fingerprint
    assert one.message != other.message


@given(st.text(max_size=300), st.integers(64, 400))
def test_a_cut_text_fits_its_bytes_whatever_its_characters(text: str, limit: int) -> None:
    assert len(cut(text, limit).encode()) <= limit
    assert len(cut(text, limit, keep_end=True).encode()) <= limit


def test_a_text_within_its_limit_is_left_whole() -> None:
    assert cut("é" * 50, 100) == "é" * 50


def test_a_cut_says_that_something_was_left_out() -> None:
    assert cut("a" * 101, 100).endswith("\n[… cut]")
    assert cut("a" * 100 + "end", 100, keep_end=True).startswith("[… cut]\n")
    assert cut("a" * 100 + "end", 100, keep_end=True).endswith("end")


def test_message_and_traceback_have_their_limits_in_bytes() -> None:
    evidence = kept(ValueError("é" * 100_000))
    assert len(evidence.message.encode()) <= MESSAGE_LIMIT == 2048
    assert len(evidence.traceback.encode()) <= TRACEBACK_LIMIT == 16384


def deep(levels: int) -> None:
    if levels == 0:
        raise ValueError("at the bottom")
    deep(levels - 1)


def test_of_a_deep_traceback_the_end_is_kept() -> None:
    with pytest.raises(ValueError, match="bottom") as raised:
        deep(200)
    evidence = evidence_of(raised.value, kind="a.b", step="")
    assert "ValueError: at the bottom" in evidence.traceback
    assert evidence.traceback.count("deep(levels - 1)") < 45


def test_the_causes_of_an_exception_are_in_its_traceback() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise RuntimeError("outer") from error
    except RuntimeError as error:
        trace = evidence_of(error, kind="a.b", step="").traceback
    assert "KeyError" in trace
    assert "direct cause" in trace
    assert "RuntimeError: outer" in trace


def test_secrets_and_nuls_are_in_neither_text() -> None:
    with knowing(frozenset({"4111-canary"})):
        evidence = kept(ValueError("card 4111-canary\x00 password=canary-too"))
    for text in (evidence.message, evidence.traceback):
        assert "canary" not in text
        assert "\x00" not in text


def test_surrogates_cannot_break_the_database() -> None:
    evidence = kept(ValueError("half \ud800 a letter"))
    assert (evidence.message + evidence.traceback).encode()


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_an_exception_that_cannot_even_be_printed_is_still_kept() -> None:
    evidence = kept(Unspeakable())
    assert evidence.error_class.endswith("Unspeakable")
    assert evidence.message == "(its message could not be made)"
    assert evidence.traceback


def test_a_class_is_named_with_its_module_unless_it_is_built_in() -> None:
    assert class_name(ValueError()) == "ValueError"
    assert class_name(Unspeakable()) == f"{__name__}.Unspeakable"
    long = type("E" * 500, (Exception,), {})
    assert len(class_name(long())) == 200


def test_an_exception_that_cannot_be_printed_is_kept_by_its_class() -> None:
    """Its ``__str__``, and its cause's that the traceback prints, are the author's code."""

    class Unprintable(Exception):
        __notes__ = property(lambda _self: 1 / 0)

        def __str__(self) -> str:
            raise ValueError("not even this")

    evidence = kept(Unprintable())
    assert evidence.error_class.endswith("Unprintable")
    assert evidence.message == "(its message could not be made)"
    assert evidence.traceback
