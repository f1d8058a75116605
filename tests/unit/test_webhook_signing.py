"""Signatures: the published vectors, and what a receiver must refuse."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from webhooks.signing import SecretInvalid, SignatureInvalid, new_secret, sign, verify

FIRST = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SECOND = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
WHEN = 1614265330
BODY = b'{"test": 2432232314}'
RIGHT = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
OTHER = "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc="


def headers(**changed: str) -> dict[str, str]:
    names = {"id": ID, "timestamp": str(WHEN), "signature": RIGHT, **changed}
    return {f"webhook-{name}": value for name, value in names.items()}


@pytest.mark.parametrize(
    ("secrets", "message_id", "when", "body", "signature"),
    [
        ([FIRST], ID, WHEN, BODY, RIGHT),
        (
            [SECOND],
            "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
            1649367553,
            b'{"email":"test@example.com","username":"test_user"}',
            "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
        ),
        (
            [FIRST, SECOND],
            ID,
            WHEN,
            BODY,
            f"{RIGHT} v1,78nXHjpFP0tVJQW5D0SBwmVyyW87BV/rL6MgfM/Bw44=",
        ),
        (
            [FIRST],
            ID,
            WHEN,
            '{"type":"job.failed","name":"Zoë – ñ 🚀"}'.encode(),  # noqa: RUF001
            "v1,j/9OLE8jrwaHMKOKcPd/4C6THvbSU+gRFodkcomFaCA=",
        ),
        ([FIRST], ID, WHEN, b"", "v1,v48jdbgvh29KJz2Qc+ghw8G6vG3nAKnujWBg8oM/62A="),
    ],
    ids=["first", "second", "two secrets", "not ascii", "empty"],
)
def test_the_published_vectors(
    secrets: list[str], message_id: str, when: int, body: bytes, signature: str
) -> None:
    """W-01, W-02."""
    assert sign(secrets, message_id, when, body) == signature


def test_another_implementation_agrees() -> None:
    secret = new_secret()
    when = int(datetime.now(UTC).timestamp())
    sent = headers(timestamp=str(when), signature=sign([secret], ID, when, BODY))
    assert Webhook(secret).verify(BODY.decode(), sent) == {"test": 2432232314}


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"signature": f"{OTHER} v2,{RIGHT[3:]} {RIGHT} {OTHER}"},
    ],
    ids=["alone", "among others"],
)
def test_what_was_signed_is_accepted(changed: dict[str, str]) -> None:
    verify([SECOND, FIRST], headers(**changed), BODY, now=WHEN + 300)


def bare(secret: str) -> str:
    return secret.removeprefix("whsec_")


def unpadded(secret: str) -> str:
    return secret.rstrip("=")


@pytest.mark.parametrize("form", [bare, unpadded])
def test_a_secret_may_lack_its_prefix_and_its_padding(form: Callable[[str], str]) -> None:
    secret = new_secret()
    sent = headers(signature=sign([form(secret)], ID, WHEN, BODY))
    assert form(secret) != secret
    verify([secret], sent, BODY, now=WHEN)


@pytest.mark.parametrize(
    ("changed", "now"),
    [
        ({"id": ""}, WHEN),
        ({"id": "msg_another"}, WHEN),
        ({"timestamp": ""}, WHEN),
        ({"timestamp": "hello"}, WHEN),
        ({"timestamp": "-5"}, WHEN),
        ({"timestamp": str(WHEN + 1)}, WHEN),
        ({"signature": ""}, WHEN),
        ({"signature": "v1,"}, WHEN),
        ({"signature": RIGHT[:-2] + "A="}, WHEN),
        ({"signature": RIGHT[:11]}, WHEN),
        ({"signature": OTHER}, WHEN),
        ({"signature": "v1,ä"}, WHEN),
        ({}, WHEN + 301),
        ({}, WHEN - 301),
    ],
    ids=str,
)
def test_what_was_not_signed_so_is_refused(changed: dict[str, str], now: int) -> None:
    with pytest.raises(SignatureInvalid):
        verify([FIRST], headers(**changed), BODY, now=now)


def test_another_body_is_refused() -> None:
    with pytest.raises(SignatureInvalid):
        verify([FIRST], headers(), BODY + b" ", now=WHEN)


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "whsec_not base64!",
        base64.b64encode(b"x" * 23).decode(),
        base64.b64encode(b"x" * 65).decode(),
    ],
    ids=["nothing", "prefix alone", "no base64", "too short", "too long"],
)
def test_a_secret_that_is_none_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(SecretInvalid) as refused:
        sign([secret], ID, WHEN, BODY)
    assert (
        secret == ""
        or secret.removeprefix("whsec_") not in str(refused.value)
        or secret == "whsec_"
    )


@pytest.mark.parametrize("given", [{"secrets": []}, {"message_id": "msg_a.b"}, {"message_id": ""}])
def test_a_message_needs_a_secret_and_an_id_without_a_dot(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="secret"):
        sign(**{"secrets": [FIRST], "message_id": ID, "timestamp": WHEN, "body": BODY, **given})
