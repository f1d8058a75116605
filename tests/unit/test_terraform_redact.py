"""What is marked as sensitive leaves no text of ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioning.terraform.redact import HIDDEN, Secrets, secrets_of

SECRET = 'pa$$w0rd-<&>-"quoted"'


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET)[1:-1]
        .replace("<", "\\u003c")
        .replace("&", "\\u0026")
        .replace(">", "\\u003e"),
    ],
    ids=["plain", "in JSON", "in Go's JSON"],
)
def test_a_secret_is_hidden_however_the_tool_writes_it(written: str) -> None:
    assert Secrets.of([SECRET]).scrub(f"before {written} after") == f"before {HIDDEN} after"


def test_a_secret_of_several_lines_is_hidden_line_by_line_and_as_one() -> None:
    secrets = Secrets.of(["first line\n  second line\n"])

    assert "line" not in secrets.scrub("| first line\n|   second line")
    assert secrets.scrub("first line second line") == HIDDEN


def test_a_longer_secret_is_hidden_before_its_part() -> None:
    assert Secrets.of(["token", "token-and-more"]).scrub("token-and-more") == HIDDEN


def test_a_short_secret_is_hidden_as_a_word_only() -> None:
    assert Secrets.of(["a1"]).scrub("a1 a12 xa1 (a1)") == f"{HIDDEN} a12 xa1 ({HIDDEN})"


def test_secrets_are_found_at_any_depth_and_never_shown_by_repr() -> None:
    secrets = Secrets.of([{"deep": ["inner-secret", 123456, True, None, ""]}])

    assert secrets.scrub("inner-secret 123456 True None") == f"{HIDDEN} {HIDDEN} True None"
    assert "inner-secret" not in repr(secrets)


def test_nul_is_taken_out_too() -> None:
    assert Secrets.of([]).scrub("a\0b") == "ab"


@given(secret=st.text(min_size=4), around=st.text())
def test_no_secret_survives_in_any_text(secret: str, around: str) -> None:
    bare = secret.replace("\0", "").strip()
    if bare and bare not in HIDDEN:
        scrubbed = Secrets.of([secret]).scrub(around + secret + around)
        assert bare not in scrubbed.replace(HIDDEN, "\n\x00\n") or len(bare) < 4


def shown() -> dict[str, Any]:
    """Return a plan's JSON with one secret in every place where the tool puts them."""
    return {
        "variables": {"key": {"value": "s-variable"}, "open": {"value": "plain-variable"}},
        "configuration": {
            "root_module": {
                "variables": {"key": {"sensitive": True, "default": "s-default"}, "open": {}},
                "module_calls": {
                    "child": {
                        "module": {"variables": {"k": {"sensitive": True, "default": "s-child"}}}
                    }
                },
            }
        },
        "resource_changes": [
            {
                "change": {
                    "before": {"password": "s-before", "name": "plain-before"},
                    "before_sensitive": {"password": True},
                    "after": {"list": ["plain-item", {"inner": "s-after"}]},
                    "after_sensitive": {"list": [False, {"inner": True}]},
                }
            }
        ],
        "resource_drift": [{"change": {"after": "s-drift", "after_sensitive": True}}],
        "output_changes": {
            "secret": {"before": None, "after": "s-output", "after_sensitive": True},
            "open": {"after": "plain-output", "after_sensitive": False},
        },
        "planned_values": {"outputs": {"secret": {"sensitive": True, "value": {"a": "s-planned"}}}},
        "prior_state": {
            "values": {
                "root_module": {
                    "resources": [
                        {"values": {"token": "s-prior"}, "sensitive_values": {"token": True}}
                    ],
                    "child_modules": [
                        {"resources": [{"values": ["s-nested"], "sensitive_values": [True]}]}
                    ],
                }
            }
        },
    }


def test_every_place_of_a_plan_is_searched() -> None:
    text = json.dumps(shown())

    scrubbed = secrets_of(shown()).scrub(text)

    assert "s-" not in scrubbed
    assert scrubbed.count(HIDDEN) == text.count('"s-')
    assert scrubbed.count("plain-") == text.count("plain-")


def test_a_plan_without_secrets_hides_nothing() -> None:
    assert secrets_of({}).scrub("all of it") == "all of it"
