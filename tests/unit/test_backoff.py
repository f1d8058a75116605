"""How long to wait: never at once, never less than the provider said, never past the cap."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.backoff import FLOOR, LONGEST, SPREAD, delay_after, parse_retry_after

NOW = datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC)
COUNTS = st.integers(1, 10_000)
SECONDS = st.floats(0.001, 1e6)
SPREADS = st.floats(0, SPREAD)
SAID = st.none() | st.floats(0, 1e9)


@given(COUNTS, SECONDS, SECONDS, SPREADS, SAID, SAID)
def test_a_wait_is_never_under_the_floor_nor_under_what_the_provider_said(
    count: int, base: float, cap: float, spread: float, own: float | None, said: float | None
) -> None:
    delay = delay_after(count, base=base, cap=cap, spread=spread, own=own, retry_after=said)
    assert delay >= FLOOR
    assert delay >= (said or 0)
    assert math.isfinite(delay)


@given(COUNTS, SECONDS, SECONDS, SPREADS)
def test_jitter_only_lengthens_and_the_cap_holds_before_it(
    count: int, base: float, cap: float, spread: float
) -> None:
    plain = delay_after(count, base=base, cap=cap, spread=0)
    spread_out = delay_after(count, base=base, cap=cap, spread=spread)
    assert plain <= spread_out <= max(FLOOR, cap * (1 + SPREAD))


@given(COUNTS, SECONDS, SECONDS)
def test_waits_do_not_get_shorter_from_one_failure_to_the_next(
    count: int, base: float, cap: float
) -> None:
    one = delay_after(count, base=base, cap=cap, spread=0)
    assert one <= delay_after(count + 1, base=base, cap=cap, spread=0)


def test_waits_double() -> None:
    waits = [delay_after(n, base=1, cap=600, spread=0) for n in range(1, 12)]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600]


def test_an_own_delay_replaces_the_backoff_but_not_the_floor_nor_the_providers_word() -> None:
    assert delay_after(9, base=1, cap=600, spread=0.5, own=7) == 7
    assert delay_after(9, base=1, cap=600, spread=0.5, own=0) == FLOOR
    assert delay_after(9, base=1, cap=600, spread=0.5, own=-5) == FLOOR
    assert delay_after(9, base=1, cap=600, spread=0.5, own=7, retry_after=30) == 30


@pytest.mark.parametrize("odd", [math.inf, 1e300])
def test_no_wait_is_too_long_to_be_written_down(odd: float) -> None:
    assert delay_after(1, base=1, cap=600, spread=0, own=odd) == LONGEST
    assert delay_after(1, base=1, cap=600, spread=0, retry_after=odd) == LONGEST


def test_a_delay_that_is_no_number_is_the_floor() -> None:
    assert delay_after(1, base=1, cap=600, spread=0, own=math.nan) == FLOOR
    assert delay_after(1, base=1, cap=600, spread=0, own=3, retry_after=math.nan) == 3


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        (" 120 ", 120.0),
        ("Sun, 06 Nov 1994 08:51:37 GMT", 120.0),
        ("Sunday, 06-Nov-94 08:51:37 GMT", 120.0),
        ("Sun Nov  6 08:51:37 1994", 120.0),
        ("Sun, 06 Nov 1994 09:51:37 +0100", 120.0),
        ("Sun, 06 Nov 1994 08:51:37 -0000", 120.0),
        ("Sun, 06 Nov 1994 08:00:00 GMT", 0.0),
        ("99999999999999999999", 1e9),
    ],
)
def test_a_retry_after_header_is_seconds_or_any_of_the_http_dates(
    header: str, seconds: float
) -> None:
    assert parse_retry_after(header, NOW) == seconds


@pytest.mark.parametrize("header", [None, "", " ", "-5", "soon", "1.5", "१२", "Sun, 99 Nov 1994"])
def test_a_retry_after_that_says_nothing_is_none(header: str | None) -> None:
    assert parse_retry_after(header, NOW) is None


@given(st.text() | st.from_regex(r"[A-Z][a-z]{2}, \d+ [A-Z][a-z]{2} \d+ [\d:]+ [+\-\w]+"))
def test_whatever_the_header_says_it_is_a_wait_or_nothing(header: str) -> None:
    wait = parse_retry_after(header, NOW)
    assert wait is None or (0 <= wait and math.isfinite(wait))


@given(st.timedeltas(timedelta(0), timedelta(days=3000)))
def test_an_http_date_ahead_is_waited_for_to_the_second(ahead: timedelta) -> None:
    moment = NOW + timedelta(seconds=int(ahead.total_seconds()))
    header = moment.strftime("%a, %d %b %Y %H:%M:%S GMT")
    assert parse_retry_after(header, NOW) == (moment - NOW).total_seconds()
