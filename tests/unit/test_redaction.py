"""What is hidden before anything is shown: by name, by path, by shape and by value."""

from __future__ import annotations

import json
import re
import threading
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspaces.redaction import (
    _HINT,
    _SHAPES,
    HIDDEN,
    is_harmless,
    knowing,
    learn,
    redact,
    scrub,
    secrets_in,
)

CANARY = "canary-4711"


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "passwd",
        "db_password",
        "passphrase",
        "secret",
        "client_secret",
        "token",
        "access-token",
        "api_key",
        "apikey",
        "access_key",
        "private.key",
        "Authorization",
        "cookie",
        "credentials",
        "session_id",
    ],
)
def test_a_field_whose_name_means_a_secret_is_hidden(name: str) -> None:
    if name == "private.key":
        name = "private_key"
    assert redact({name: CANARY, "kept": "yes"}) == {name: HIDDEN, "kept": "yes"}


@pytest.mark.parametrize("name", ["tokens_used", "keyboard", "compass", "secretary", "monkey"])
def test_a_name_that_only_sounds_like_a_secret_is_shown(name: str) -> None:
    assert redact({name: "plain"}) == {name: "plain"}


def test_empty_and_boolean_values_say_that_there_is_no_secret() -> None:
    assert redact({"password": None, "token": False}) == {"password": None, "token": False}


@pytest.mark.parametrize(
    ("paths", "value", "shown"),
    [
        (["pan"], {"pan": CANARY}, {"pan": HIDDEN}),
        (
            ["card.number"],
            {"card": {"number": CANARY, "cents": 1}},
            {"card": {"number": HIDDEN, "cents": 1}},
        ),
        (["cards.*.number"], {"cards": [{"number": CANARY}]}, {"cards": [{"number": HIDDEN}]}),
        (["cards.1"], {"cards": ["a", CANARY]}, {"cards": ["a", HIDDEN]}),
        (["card"], {"card": {"number": CANARY}}, {"card": HIDDEN}),
        (["*"], {"a": 1, "b": [CANARY]}, {"a": HIDDEN, "b": HIDDEN}),
        (["card.number"], {"card": None}, {"card": None}),
        (["card.number"], {"other": {"number": 1}}, {"other": {"number": 1}}),
        (["card.number"], [CANARY], [CANARY]),
    ],
)
def test_a_path_hides_what_it_names(paths: list[str], value: object, shown: object) -> None:
    assert redact(value, paths) == shown


def test_redacting_changes_nothing_in_place() -> None:
    value = {"password": CANARY, "list": [{"token": CANARY}]}
    redact(value)
    assert value == {"password": CANARY, "list": [{"token": CANARY}]}


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {CANARY}xyz",
        f"sent Basic {CANARY}xyz==",
        f"postgresql://app:{CANARY}@db/firedoor",
        f"redis://:{CANARY}@broker:6379/0",
        f'{{"password": "{CANARY}"}}',
        f"password={CANARY}&user=ana",
        f"api_key: '{CANARY} with spaces'",
        f"AWS_SECRET_ACCESS_KEY={CANARY}",
        f"Cookie: {CANARY}",
        f"eyJhbGciOi.eyJzdWIi.{CANARY}",
        f"ghp_{CANARY}abcdef",
        f"fdr_{CANARY}abcdef",
        f"sk_live_{CANARY}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{CANARY} and cut here",
    ],
)
def test_a_secret_of_a_known_shape_is_hidden_in_free_text(text: str) -> None:
    assert CANARY not in scrub(text)


def test_an_aws_key_id_is_hidden() -> None:
    assert scrub("key AKIAABCDEFGHIJKLMNOP used") == f"key {HIDDEN} used"


def test_plain_text_stays_as_it_is() -> None:
    text = (
        "order o-42 of https://shop.example.com/orders?page=2 failed: 503 (3 of 4 tries), at 12:30"
    )
    assert scrub(text) == text


LONG = [
    "é" * 200_000,
    "a.b-" * 50_000,
    "secret" * 30_000,
    "token " + " " * 200_000,
    "eyJ-" * 50_000,
    "password=\"'" * 20_000,
    "-----BEGIN " * 20_000,
    "a=1&" * 50_000,
    "sk-ghp_" * 30_000,
    "http://" * 30_000,
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", LONG, ids=lambda text: text[:11].strip())
def test_a_long_text_is_scrubbed_in_time_linear_in_its_length(text: str) -> None:
    """Quadratic would be minutes: one long message must not hold its worker up."""
    scrub(text)


SENTENCES = st.lists(
    st.sampled_from(
        [
            *("password", "token", "Authorization:", "Bearer", "=", ": ", '"', "'", "[", "]", " "),
            *("[hidden]", "abcdefghijkl", "https://", "user:pass@", "eyJab.cd.ef", "sk-", "&", ","),
        ]
    )
).map("".join)


@given(SENTENCES)
def test_scrubbing_what_was_scrubbed_changes_nothing(text: str) -> None:
    assert scrub(scrub(text)) == scrub(text)


@given(st.text())
def test_scrubbed_text_holds_no_nul_and_scrubbing_again_changes_nothing(text: str) -> None:
    clean = scrub(text)
    assert "\x00" not in clean
    assert scrub(clean) == clean


SECRETS = st.text(min_size=8).filter(lambda text: text not in HIDDEN and HIDDEN not in text)


@given(SECRETS, st.sampled_from([str, repr, json.dumps, quote]))
def test_a_known_secret_is_hidden_however_it_is_written(secret: str, written: object) -> None:
    if written is quote:
        secret = secret.encode(errors="ignore").decode()
    secret = secret.replace("\x00", "")
    form = written(secret)  # type: ignore[operator]
    assert form not in scrub(f"<<{form}>>", [secret]) or len(secret) < 4


def test_the_longer_of_two_secrets_is_hidden_first() -> None:
    assert scrub("abcdef", ["abcd", "abcdef"]) == HIDDEN


def test_secrets_are_known_only_inside_their_block_and_their_thread() -> None:
    elsewhere: list[str] = []
    with knowing(frozenset({CANARY})):
        learn(frozenset({"learnt-later"}))
        inside = scrub(f"{CANARY} learnt-later")
        thread = threading.Thread(target=lambda: elsewhere.append(scrub(CANARY)))
        thread.start()
        thread.join()
    assert inside == f"{HIDDEN} {HIDDEN}"
    assert elsewhere == [CANARY]
    assert scrub(f"{CANARY} learnt-later") == f"{CANARY} learnt-later"


def test_the_secrets_of_a_value_are_every_text_and_number_that_would_be_hidden() -> None:
    value = {
        "card": {"number": 4111_1111, "holder": ["Ana Example"]},
        "password": "hunter2!",
        "ok": 1,
    }
    assert secrets_in(value, ["card"]) == {"41111111", "Ana Example", "hunter2!"}


def test_what_is_too_short_to_be_recognised_is_not_searched_for() -> None:
    assert secrets_in({"password": "abc", "token": True}) == frozenset()


@pytest.mark.parametrize(
    "shape", [shape for shape, _shown in _SHAPES], ids=lambda s: s.pattern[:30]
)
def test_whatever_has_the_shape_of_a_secret_is_looked_at(shape: re.Pattern[str]) -> None:
    @given(st.from_regex(shape))
    def is_looked_at(text: str) -> None:
        assert _HINT.search(text.casefold())

    is_looked_at()


_PIECES = st.sampled_from(
    [
        "",
        "plain",
        "a\nb",
        "token=abcd",
        "\x00",
        "Bearer abcdefgh",
        "https://u:p@h",
        CANARY,
        "bas",
        "ic ",
    ]
)
_VALUES = st.none() | st.booleans() | st.integers() | st.lists(_PIECES).map("".join) | st.text()
_NAMES = st.sampled_from(["event", "state", "password", "api_key", "kind", "said"])


@given(st.dictionaries(_NAMES, _VALUES))
def test_what_is_called_harmless_is_what_nothing_would_be_hidden_of(
    fields: dict[str, object],
) -> None:
    shown = {
        name: scrub(value) if isinstance(value, str) else value
        for name, value in dict(redact(fields)).items()  # type: ignore[call-overload]
    }
    assert not is_harmless(fields) or shown == fields


def test_the_line_that_every_job_logs_is_seen_to_be_harmless_at_one_look() -> None:
    line = {"event": "job.attempt_closed", "state": "succeeded", "attempt": 1, "trace_id": ""}
    assert is_harmless(line)
    assert not is_harmless({**line, "token": 4711})
    assert not is_harmless({**line, "inner": {"token": CANARY}})


def test_nothing_is_harmless_where_a_secret_is_known() -> None:
    with knowing(frozenset({CANARY})):
        assert not is_harmless({"event": CANARY})
