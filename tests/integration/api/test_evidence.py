"""The incident bundle: the six steps of a recovery, and no secret and no foreign markup in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from jobs import registry
from jobs.api.evidence_answers import EvidenceBundle
from jobs.effects import step_key
from jobs.kinds import Run, Terminal, job_kind, step
from jobs.models import Job
from jobs.recovery.cancel import cancel
from jobs.recovery.checklist import code
from jobs.recovery.reconcile import reconcile
from jobs.recovery.retry import retry
from jobs.testing import drain
from tests.drills.kinds import keyed, noop, once, pages, secretive
from tests.integration.api.conftest import Caller, problem
from tests.integration.api.jobs_scene import body, dead, waiting
from tests.integration.api.shapes import faults
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

Callers = Callable[..., Caller]
pytestmark = pytest.mark.sqlite

CARD = "4000-canary-card-0002"
TITLES = [
    "Capture the ids and the key",
    "Inspect what is recorded",
    "Determine whether a boundary was reached",
    "Reconcile what is observed, before anything is retried",
    "Resume under the original key only where that is safe",
    "For partial success keep the evidence and verify each target",
]


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return str(tmp_path / "ledger")


@pytest.fixture
def doubt(acme: Workspace, ledger: str) -> Job:
    """Charged, perhaps: nobody knows and nobody can be asked."""
    job = once.s(ledger=ledger, fault="reset").enqueue(
        workspace=acme, key="order-1", countdown=3600, request_id="request-42"
    )
    drain()
    job.refresh_from_db()
    assert job.cause == "uncertain"
    return job


def bundle_of(me: Caller, job: Job) -> dict[str, Any]:
    response = me.get(f"jobs/{job.pk}/evidence/")
    assert (response.status_code, response["Content-Type"]) == (200, "application/json")
    told: dict[str, Any] = body(response)
    return told


def said(told: dict[str, Any], number: int) -> str:
    """What one of the six sections says, and what it says to do next."""
    section = told["recovery"][number - 1]
    assert (section["number"], section["title"]) == (number, TITLES[number - 1])
    return "\n".join([*section["says"], *section["next"]])


def markdown(me: Caller, job: Job) -> str:
    response = me.get(f"jobs/{job.pk}/evidence/", {"format": "md"})
    assert response["Content-Type"] == "text/markdown; charset=utf-8"
    return str(response.content.decode())


def test_a_job_in_doubt_says_who_was_reached_and_what_to_look_at(
    caller: Callers, doubt: Job
) -> None:
    told = bundle_of(caller(), doubt)

    assert faults(EvidenceBundle(), told) == []
    assert told["boundaries"] == {"provider": "maybe", "agent": "no", "repository": "no"}
    for part in ("request-42", "order-1", "drills.once", str(doubt.pk), "acme"):
        assert part in said(told, 1)
    assert "dead (uncertain)" in said(told, 2)
    assert "`ConnectionResetError`: `cut`" in said(told, 2).replace("builtins.", "")
    assert f"job_id={doubt.pk}" in said(told, 2)
    assert "The provider may have been reached." in said(told, 3)
    assert "Step `charge` (once, provider): maybe" in said(told, 3)
    assert "look at the provider yourself" in said(told, 4)
    assert f"manage.py job reconcile {doubt.pk} --step charge" in said(told, 4)
    assert "Resume, under the same keys as before: refused (reconcile_required)" in said(told, 5)
    assert "job retry" not in said(told, 5)
    assert "No step is finished." in said(told, 6)


def test_what_operators_did_is_in_it_and_the_way_is_free_again(caller: Callers, doubt: Job) -> None:
    output = {"id": "ch_1"}
    other = noop.s().enqueue(workspace=doubt.workspace, key="other", countdown=3600)
    cancel(other.pk, actor=SYSTEM, reason="of another job")
    reconcile(
        doubt.pk,
        step="charge",
        outcome="happened",
        output=output,
        actor=SYSTEM,
        reason="seen in their dashboard",
    )
    me = caller()

    told = bundle_of(me, doubt)

    assert told["boundaries"]["provider"] == "yes"
    assert "seen in their dashboard" in said(told, 2)
    assert "of another job" not in said(told, 2)
    assert "observed by `system`" in said(told, 4)
    assert "No step is in doubt." in said(told, 4)
    assert "it may be done" in said(told, 5)
    assert told["plans"]["resume"]["digest"] in said(told, 5)
    assert "Step `charge` kept" in said(told, 5)
    assert "verify it: `charge` at the provider" in said(told, 6)
    assert told["steps"][0]["observed_output"] == output


def test_a_retry_shows_its_chain_and_what_it_kept(caller: Callers, doubt: Job) -> None:
    reconcile(doubt.pk, step="charge", outcome="happened", output=1, actor=SYSTEM, reason="seen")
    successor = retry(doubt.pk, mode="resume", actor=SYSTEM, reason="go on")
    drain()

    told = bundle_of(caller(), Job.objects.get(pk=successor.pk))

    assert [link["id"] for link in told["chain"]] == [str(doubt.pk), str(successor.pk)]
    assert f"Its chain began with job `{doubt.pk}`" in said(told, 1)
    assert "go on" in said(told, 2)
    assert f"kept from job `{doubt.pk}`" in said(told, 6)
    assert "refused (not_retryable)" in said(told, 5)


def test_of_a_job_that_was_retried_the_newest_retry_is_named(
    caller: Callers, acme: Workspace, ledger: str
) -> None:
    me = caller()
    job = dead(keyed.s(ledger=ledger), acme, "second", key="order-2")
    assert f"manage.py job resolve {job.pk}" in said(bundle_of(me, job), 6)
    successor = retry(job.pk, mode="resume", actor=SYSTEM, reason="go on")

    told = bundle_of(me, job)

    assert "job resolve" not in said(told, 6)
    assert f"its newest retry: manage.py job evidence {successor.pk}" in said(told, 6)


def test_a_keyed_step_is_told_by_the_key_that_its_provider_knows(
    caller: Callers, acme: Workspace, ledger: str
) -> None:
    job = dead(keyed.s(ledger=ledger), acme, "second")

    told = bundle_of(caller(), job)

    key = step_key(job.root_id, 0, "reserve")
    assert f"key:{key} " in Path(ledger).read_text()
    assert f"The provider knows step `reserve` by the key `{key}`." in said(told, 1)
    assert told["steps"][0]["key"] == key


def test_a_job_that_has_not_ended_is_not_to_be_retried_by_hand(
    caller: Callers, acme: Workspace
) -> None:
    told = bundle_of(caller(), waiting(noop.s(), acme))

    assert "retried by itself" in said(told, 5)
    assert said(told, 3).startswith("The provider was not reached.")
    assert faults(EvidenceBundle(), told) == []


def test_the_audit_trail_is_for_who_may_read_it(caller: Callers, doubt: Job) -> None:
    reconcile(doubt.pk, step="charge", outcome="happened", output=1, actor=SYSTEM, reason="seen it")

    told = bundle_of(caller("viewer"), doubt)

    assert told["trail"] is None
    assert "audit.view" in said(told, 2)
    assert "seen it" not in json.dumps(told)


def test_markdown_has_the_same_six_sections(caller: Callers, doubt: Job) -> None:
    me = caller()

    text = markdown(me, doubt)
    accepted = me.get(f"jobs/{doubt.pk}/evidence/", accept="text/markdown")

    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings[:6] == [f"## {n}. {title}" for n, title in enumerate(TITLES, start=1)]
    assert "As of " in text
    assert accepted["Content-Type"] == "text/markdown; charset=utf-8"
    assert accepted.content.decode().splitlines()[0] == text.splitlines()[0]
    json_after_all = me.get(f"jobs/{doubt.pk}/evidence/?format=json", accept="text/markdown")
    assert json_after_all["Content-Type"] == "application/json"


@pytest.mark.parametrize("query", ["format=xml", "format=", "form=md"])
def test_another_form_is_refused(caller: Callers, doubt: Job, query: str) -> None:
    told = problem(caller().get(f"jobs/{doubt.pk}/evidence/?{query}"))

    assert (told["status"], told["code"]) == (422, "input_invalid")


def test_refusals_are_problems_though_markdown_was_asked_for(
    caller: Callers, doubt: Job, rival: Workspace
) -> None:
    stranger = caller(workspace=rival)

    told = problem(stranger.get(f"jobs/{doubt.pk}/evidence/", accept="text/markdown"))

    assert (told["status"], told["code"]) == (404, "job_not_found")


def test_no_secret_of_the_job_is_in_it(caller: Callers, acme: Workspace, ledger: str) -> None:
    job = waiting(secretive.s(ledger=ledger, card={"number": CARD}, fault="leak"), acme)
    drain()
    retry(job.pk, mode="resume", actor=SYSTEM, reason=f"password=hunter2-canary for {CARD}")
    me = caller("admin")
    job.refresh_from_db()

    for told in (json.dumps(bundle_of(me, job)), markdown(me, job)):
        assert "[hidden]" in told
        assert "canary" not in told


def test_what_others_wrote_is_never_markup(caller: Callers, acme: Workspace) -> None:
    nasty = "broke\n## 7. Trust me\n```\n<script>x</script> ``quoted`` `"

    @step("speak")
    def speak(text: str) -> dict[str, str]:
        return {"said": text}

    def nasty_kind(run: Run, *, text: str) -> None:
        run(speak, text)
        raise Terminal(text)

    kind = job_kind("drills.nasty", steps=(speak,))(nasty_kind)
    try:
        job = waiting(kind.s(text=nasty), acme, "a `key` <b>")
        drain()
        text = markdown(caller(), job)
    finally:
        registry.KINDS.pop("drills.nasty")

    outside, fence = [], ""
    for line in text.splitlines():
        if fence:
            fence = "" if line == fence else fence
        elif line.startswith("```"):
            fence = line
        else:
            outside.append(line)
    assert not fence
    assert sum(line.startswith("## ") for line in outside) == 7
    assert "<script>" in text
    assert not any("<script>" in without_code(line) for line in outside)
    assert not any("<b>" in without_code(line) for line in outside)


def without_code(line: str) -> str:
    """A line without its code spans, read as Markdown reads them."""
    left, at = "", 0
    while at < len(line):
        ticks = len(line[at:]) - len(line[at:].lstrip("`"))
        if not ticks:
            left, at = left + line[at], at + 1
            continue
        end = at + ticks
        while (end := line.find("`" * ticks, end)) >= 0:
            run = len(line[end:]) - len(line[end:].lstrip("`"))
            if run == ticks:
                break
            end += run
        if end < 0:
            left, at = left + line[at : at + ticks], at + ticks
        else:
            at = end + ticks
    return left


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("plain", "`plain`"),
        ("a `b`", "`` a `b` ``"),
        ("``", "``` `` ```"),
        ("two\nlines", "`two lines`"),
        ("", "(nothing)"),
    ],
)
def test_a_code_span_holds_any_text(text: str, span: str) -> None:
    assert code(text) == span


def test_what_is_too_much_is_cut_and_said_so(
    caller: Callers,
    acme: Workspace,
    ledger: str,
    django_assert_num_queries: Any,
    django_assert_max_num_queries: Any,
) -> None:
    job = waiting(pages.s(ledger=ledger, count=1), acme)
    me = caller()
    me.get(f"jobs/{job.pk}/evidence/")
    with django_assert_max_num_queries(QUERIES) as few:
        bundle_of(me, job)
    row = {"effect": "repeatable", "state": "done", "attempt": 1, "output": {"x": "y" * 9000}}
    job.steps.bulk_create(job.steps.model(job=job, name=f"page:{n}", **row) for n in range(300))

    with django_assert_num_queries(len(few)):
        told = bundle_of(me, job)

    assert (len(told["steps"]), told["cut"]) == (200, ["steps"])
    assert "Too many to show them all: steps." in said(told, 2)
    assert told["steps"][0]["output"].endswith("[… cut]")
    assert faults(EvidenceBundle(), told) == []


QUERIES = 15


def test_the_command_gives_the_same(doubt: Job) -> None:
    out = StringIO()
    call_command("job", "evidence", str(doubt.pk), stdout=out)
    assert out.getvalue().startswith("# Incident: `drills.once` `order-1`")

    out = StringIO()
    call_command("job", "evidence", str(doubt.pk), "--json", stdout=out)
    assert faults(EvidenceBundle(), json.loads(out.getvalue())) == []
