"""The tool gets a short environment, and values arrive as they are."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.terraform.environment import BASE, as_environment, environment
from provisioning.terraform.errors import VariableRefused


def test_only_what_is_on_the_list_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://secret")
    monkeypatch.setenv("TF_VAR_stray", "1")
    monkeypatch.setenv("TF_CLI_ARGS", "-auto-approve")
    monkeypatch.setenv("HOME", "/home/firedoor")
    monkeypatch.delenv("TMPDIR", raising=False)

    passed = environment({"AWS_REGION": "x"}, BASE)

    assert set(passed) == {"PATH", "HOME", "AWS_REGION", *BASE}
    assert (passed["HOME"], passed["TF_IN_AUTOMATION"]) == ("/home/firedoor", "1")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("text stays ${as} it is", "text stays ${as} it is"),
        (3, "3"),
        (1.5, "1.5"),
        (True, "true"),
        (["a", 1, False, None], '["a", 1, false, null]'),
        ({"k": 'q"\n'}, '{"k" = "q\\"\\n"}'),
        (["${var.x} %{if}"], '["$${var.x} %%{if}"]'),
    ],
)
def test_a_value_is_written_so_that_the_tool_reads_it_back(value: Any, written: str) -> None:
    assert as_environment({"v": value}) == {"TF_VAR_v": written}


def test_none_is_not_given_at_all() -> None:
    assert as_environment({"v": None}) == {}


@pytest.mark.parametrize("name", ["", "1st", "a b", "a=b", "a\0"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(VariableRefused) as refused:
        as_environment({name: "x"})
    assert refused.value.code == "variable_refused"


@pytest.mark.parametrize("value", ["a\0b", ["a\0b"], object(), [object()]])
def test_a_value_that_cannot_be_carried_is_refused_without_being_shown(value: object) -> None:
    with pytest.raises(VariableRefused) as refused:
        as_environment({"v": value})
    assert "a\0b" not in str(refused.value)
