"""What of a job's values may be seen on a page."""

from __future__ import annotations

import json

from jobs.curtain import TEXT_SHOWN, VALUE_SHOWN, Curtain

CARD = {"card": {"number": 'sec"ret\\4111', "holder": "Ana"}}


def test_what_the_kind_hides_is_hidden_and_the_rest_is_shown() -> None:
    shown = Curtain("drills.secretive", [CARD]).json(CARD)
    assert json.loads(shown) == {"card": {"number": "[hidden]", "holder": "Ana"}}


def test_what_is_hidden_in_one_value_is_hidden_in_all() -> None:
    curtain = Curtain("drills.secretive", [CARD])
    echoed = curtain.json({"echo": f"took {CARD['card']['number']}"})
    assert "4111" not in echoed
    assert "4111" not in curtain.text(f"refused: {json.dumps(CARD)}")


def test_telling_names_and_known_shapes_are_hidden_without_any_rule() -> None:
    shown = Curtain("drills.noop").json({"api_key": "abcd-1234", "note": "password=hunter2"})
    assert "abcd" not in shown
    assert "hunter2" not in shown


def test_a_kind_without_known_rules_hides_everything() -> None:
    shown = Curtain("gone.away").json({"harmless": "text"})
    assert "text" not in shown
    assert "no code here knows" in shown


def test_nothing_is_shown_as_nothing() -> None:
    assert Curtain("drills.noop").json(None) == ""


def test_long_values_are_cut_after_they_are_scrubbed() -> None:
    curtain = Curtain("drills.secretive", [CARD])
    secret = str(CARD["card"]["number"])
    across = "x" * (TEXT_SHOWN - 3) + secret
    shown = curtain.text(across)
    assert secret[:3] not in shown
    assert shown.endswith("[… cut]")
    assert len(curtain.json(["y" * 10_000])) < VALUE_SHOWN + 20
