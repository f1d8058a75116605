"""Bulk deeds from a shell."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from jobs.drain import drain
from jobs.models import Job, Operation
from tests.integration.bulk_scene import KIND, WHY, rows, successors, turns
from workspaces.models import AuditEvent, Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

FILTER = f"state=dead,workspace=acme,kind={KIND}"


def said(*words: str) -> str:
    out = StringIO()
    call_command("job", *words, stdout=out)
    return out.getvalue()


def told(*words: str) -> dict[str, Any]:
    answer = json.loads(said(*words, "--json"))
    assert isinstance(answer, dict)
    return answer


def drafted(*more: str) -> dict[str, Any]:
    return told("retry", "--filter", FILTER, "--preview", *more)


def test_a_filter_retries_what_it_matches_and_nothing_elsewhere(acme: Workspace) -> None:
    globex = Workspace.objects.create(slug="globex", name="Globex")
    rows(globex, 2)
    rows(acme, 3)
    answer = told("retry", "--filter", FILTER, "--reason", WHY, "--rate", "6000")
    turns(Operation.objects.get())
    drain()
    shown = told("operation", "show", answer["id"], "--items")
    assert (shown["state"], shown["verb"]) == ("finished", "resume")
    assert shown["counts"] == {"pending": 0, "done": 3, "skipped": 0, "failed": 0}
    assert [(item["position"], item["outcome"]) for item in shown["items"]] == [
        (1, "done"),
        (2, "done"),
        (3, "done"),
    ]
    assert (successors(acme), successors(globex)) == (3, 0)
    assert set(AuditEvent.objects.values_list("actor", "reason")) == {("system", WHY)}


def test_a_preview_starts_nothing_and_says_who_is_left_out_and_why(acme: Workspace) -> None:
    rows(acme, 2)
    rows(acme, 1, "doubt", cause="uncertain")
    answer = drafted("--canary", "1", "--rate", "30")
    assert answer["state"] == "draft"
    assert answer["not_done"] == {"skipped": {"uncertain": 1}}
    assert (answer["canary"], answer["rate_per_minute"], answer["eligible"]) == (1, 30, 2)
    text = said("operation", "show", answer["id"], "--items")
    assert "skipped: 1 uncertain" in text
    assert f"start it: manage.py job operation start {answer['id']}" in text
    assert "3. " in text
    assert not Job.objects.filter(kind="jobs.operation").exists()


@pytest.mark.parametrize(
    ("words", "verb"),
    [
        (("retry",), "resume"),
        (("retry", "--restart"), "restart"),
        (("resolve",), "resolve"),
        (("cancel",), "cancel"),
    ],
)
def test_each_verb_that_can_be_done_in_bulk_takes_a_filter(
    acme: Workspace, words: tuple[str, ...], verb: str
) -> None:
    rows(acme, 1)
    assert told(*words, "--filter", FILTER, "--preview")["verb"] == verb


def test_an_operation_is_held_let_go_on_and_stopped(acme: Workspace) -> None:
    rows(acme, 3)
    pk = drafted("--rate", "1")["id"]
    assert told("operation", "start", pk, "--reason", WHY)["state"] == "running"
    paused = told("operation", "pause", pk, "--reason", "lunch")
    assert (paused["state"], paused["note"]) == ("paused", "the system: lunch")
    assert "the system: lunch" in said("operation", "show", pk)
    assert told("operation", "go", pk, "--reason", "back")["state"] == "running"
    assert told("operation", "stop", pk, "--reason", "enough")["state"] == "stopped"
    assert told("operation", "resolve", pk, "--reason", "fine")["resolution"] == "fine"
    assert f"{pk}  resume  stopped  acme" in said("operation", "list")


def test_one_job_is_still_retried_by_its_id(acme: Workspace) -> None:
    (job,) = rows(acme, 1)
    assert told("retry", str(job.pk), "--reason", WHY)["retry_of"] == str(job.pk)


@pytest.mark.parametrize("words", [("retry",), ("retry", "x", "--filter", FILTER)])
def test_neither_and_both_of_id_and_filter_are_wrong_usage(words: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match="either the id of one job or --filter") as error:
        said(*words, "--reason", WHY)
    assert error.value.returncode == 2


def test_a_filter_names_its_workspace() -> None:
    with pytest.raises(CommandError, match="workspace=SLUG") as error:
        said("retry", "--filter", "state=dead", "--reason", WHY)
    assert error.value.returncode == 2


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("retry", "--filter", "state=odd,workspace=acme"), "operation_invalid"),
        (("retry", "--filter", "state=dead,workspace=nowhere"), "no_such_workspace"),
        (("retry", "--filter", FILTER, "--rate", "0"), "operation_invalid"),
        (("retry", "--filter", FILTER), "nothing_eligible"),
        (("operation", "show", "nonsense"), "operation_not_found"),
        (("operation", "pause"), "operation_not_found"),
    ],
)
def test_a_refusal_has_its_code_and_exit_status(
    acme: Workspace, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: str
) -> None:
    reason = () if words[1] == "show" else ("--reason", WHY)
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("job", *words, *reason, "--json", stdout=out)
    assert (ended.value.code, json.loads(out.getvalue())["code"]) == (1, code)


def test_without_a_reason_nothing_is_started(acme: Workspace) -> None:
    (job,) = rows(acme, 1)
    for words in ((str(job.pk),), ("--filter", FILTER)):
        with pytest.raises(CommandError, match="say why"):
            said("retry", *words)
    assert successors(acme) == 0
    assert not Operation.objects.exists()
