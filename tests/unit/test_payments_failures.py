"""What httpx2's exceptions mean to the kernel, where it matters most: in a ``once`` step."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx2
import pytest

from jobs import failures
from jobs.outcomes import Again, EffectSeen, classify

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
REQUEST = httpx2.Request("POST", "http://127.0.0.1/charges")

failures.register()


@pytest.mark.parametrize(
    ("error", "again", "effect"),
    [
        (httpx2.ConnectError("refused"), Again.RETRY, EffectSeen.NO),
        (httpx2.ConnectTimeout("slow"), Again.RETRY, EffectSeen.NO),
        (httpx2.PoolTimeout("slow"), Again.RETRY, EffectSeen.NO),
        (httpx2.ReadTimeout("slow"), Again.RETRY, EffectSeen.MAYBE),
        (httpx2.WriteTimeout("slow"), Again.RETRY, EffectSeen.MAYBE),
        (httpx2.ReadError("reset"), Again.RETRY, EffectSeen.MAYBE),
        (httpx2.WriteError("reset"), Again.RETRY, EffectSeen.MAYBE),
        (httpx2.RemoteProtocolError("cut off"), Again.RETRY, EffectSeen.MAYBE),
        (httpx2.UnsupportedProtocol("htp://"), Again.DEAD, EffectSeen.NO),
        (httpx2.InvalidURL("no host"), Again.DEAD, EffectSeen.NO),
        (httpx2.TooManyRedirects("loop"), Again.DEAD, EffectSeen.MAYBE),
        (httpx2.DecodingError("not gzip"), Again.DEAD, EffectSeen.MAYBE),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_what_failed_before_the_request_left_proves_that_nothing_happened(
    error: Exception, again: Again, effect: EffectSeen
) -> None:
    meaning = classify(error, now=NOON)

    assert (meaning.again, meaning.effect) == (again, effect)


@pytest.mark.parametrize(
    ("status", "again", "effect"),
    [
        (307, Again.DEAD, EffectSeen.MAYBE),
        (402, Again.DEAD, EffectSeen.NO),
        (422, Again.DEAD, EffectSeen.NO),
        (429, Again.RETRY, EffectSeen.NO),
        (502, Again.RETRY, EffectSeen.MAYBE),
    ],
)
def test_the_kernel_reads_the_status_of_an_answer_by_itself(
    status: int, again: Again, effect: EffectSeen
) -> None:
    answer = httpx2.Response(status, request=REQUEST, headers={"Retry-After": "7"})
    with pytest.raises(httpx2.HTTPStatusError) as caught:
        answer.raise_for_status()

    meaning = classify(caught.value, now=NOON)

    assert (meaning.again, meaning.effect, meaning.retry_after) == (again, effect, 7.0)
