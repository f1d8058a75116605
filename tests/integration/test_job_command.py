"""``manage.py job`` and ``manage.py sweep``: the words and exit codes that scripts rely on."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now

from jobs import registry
from jobs.enqueue import enqueue
from jobs.models import Job, Step
from jobs.testing import drain
from tests.drills.kinds import once, repeatable
from workspaces.models import AuditEvent, Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

# What a script may read of a job, as the design promises it.
OF_A_JOB = """id kind workspace key state cause wait_reason run_at attempt attempts steps retry_of
    successor root_id epoch result request_id created_at finished_at resolved_at""".split()
OF_AN_ATTEMPT = (
    "number outcome classification error_class message started_at ended_at worker".split()
)
OF_A_STEP = "name effect state attempt carried_from output".split()


@pytest.fixture
def ledger(tmp_path: Any) -> str:
    return str(tmp_path / "ledger")


def said(*words: str) -> str:
    out = StringIO()
    call_command("job", *words, stdout=out)
    return out.getvalue()


def told(*words: str) -> dict[str, Any]:
    answer = json.loads(said(*words, "--json"))
    assert isinstance(answer, dict)
    return answer


def refused(*words: str) -> tuple[int, str]:
    """Exit code and sentence of a command that refuses."""
    with pytest.raises(CommandError) as raised:
        said(*words)
    return raised.value.returncode, str(raised.value)


def waited(job: Job, timeout: str = "0") -> int:
    with pytest.raises(SystemExit) as left:
        said("wait", str(job.pk), "--timeout", timeout)
    code = left.value.code
    assert isinstance(code, int)
    return code


def later(ledger: str, workspace: Workspace, key: str = "a", fault: str = "none") -> Job:
    """A job that nothing runs before the test drains it."""
    intended = repeatable.s(ledger=ledger, fault=fault)
    return intended.enqueue(workspace=workspace, key=key, countdown=3600)


def dead(ledger: str, workspace: Workspace, key: str = "a") -> Job:
    job = later(ledger, workspace, key, "terminal")
    drain()
    job.refresh_from_db()
    return job


def test_an_intent_given_twice_is_one_job(acme: Workspace, ledger: str) -> None:
    words = ("enqueue", "drills.repeatable", "--workspace", "acme", "--key", "a")
    params = json.dumps({"ledger": ledger})
    first = told(*words, "--params", params)
    again = told(*words, "--params", params)
    assert (first["created"], again["created"]) == (True, False)
    assert first["id"] == again["id"] == str(Job.objects.get().pk)
    assert Job.objects.get().actor == "system"


@pytest.mark.parametrize(("params", "why"), [("{", "is not JSON"), ("[1]", "not a JSON object")])
def test_params_that_are_no_object_are_refused(acme: Workspace, params: str, why: str) -> None:
    words = ("enqueue", "drills.noop", "--workspace", "acme", "--key", "a", "--params", params)
    code, sentence = refused(*words)
    assert (code, Job.objects.count()) == (1, 0)
    assert why in sentence
    assert sentence.endswith("[params_invalid]")


def test_a_refusal_is_json_where_json_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        call_command("job", "show", "nonsense", "--json")
    told = json.loads(capsys.readouterr().out)
    assert (left.value.code, set(told)) == (1, {"code", "sentence"})


def test_a_job_is_shown_with_what_the_design_promises(acme: Workspace, ledger: str) -> None:
    job = dead(ledger, acme)
    shown = told("show", str(job.pk))
    assert set(OF_A_JOB) <= set(shown)
    assert set(OF_AN_ATTEMPT) <= set(shown["attempts"][0])
    assert (shown["state"], shown["cause"], shown["workspace"]) == ("dead", "terminal", "acme")
    retried = told("retry", str(job.pk), "--reason", "mended")
    drain()
    assert told("show", str(job.pk))["successor"] == retried["id"]
    assert told("show", retried["id"])["retry_of"] == str(job.pk)


def test_people_see_state_attempts_and_steps(acme: Workspace, ledger: str) -> None:
    job = later(ledger, acme)
    drain()
    assert set(OF_A_STEP) <= set(told("show", str(job.pk))["steps"][0])
    first, *rest = said("show", str(job.pk)).splitlines()
    assert first.split() == [
        str(job.pk), "succeeded", "drills.repeatable", "acme", "a", "1",
    ]  # fmt: skip
    assert rest == [
        "  attempt 1: succeeded",
        "  step first (repeatable): done",
        "  step second (repeatable): done",
    ]


def test_a_retry_names_the_job_whose_steps_it_kept(acme: Workspace, ledger: str) -> None:
    job = later(ledger, acme)
    Step.objects.create(
        job=job, name="first", effect="repeatable", state="done", attempt=1, output={"ok": True}
    )
    said("cancel", str(job.pk), "--reason", "not wanted")
    retried = told("retry", str(job.pk), "--reason", "wanted after all")
    assert f"done, kept from job {job.pk}" in said("show", retried["id"])


def test_every_state_has_its_exit_code(acme: Workspace, ledger: str) -> None:
    succeeded, died = later(ledger, acme, "a"), later(ledger, acme, "b", "terminal")
    drain()
    cancelled, waiting = later(ledger, acme, "c"), later(ledger, acme, "d")
    said("cancel", str(cancelled.pk), "--reason", "not wanted")
    assert [waited(job) for job in (succeeded, died, cancelled, waiting)] == [0, 3, 4, 5]


def test_waiting_ends_when_the_job_does(
    acme: Workspace, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end comes while the command waits: here, in the first pause between two looks."""
    job = later(ledger, acme)
    monkeypatch.setattr("jobs.management.commands.job.time.sleep", lambda _: drain() and None)
    assert waited(job, "60") == 0


def test_jobs_are_listed_newest_first_and_by_what_is_asked(acme: Workspace, ledger: str) -> None:
    globex = Workspace.objects.create(slug="globex", name="Globex")
    dead(ledger, acme, "old")
    later(ledger, acme, "new")
    later(ledger, globex, "other")
    enqueue("drills.noop", workspace=acme, key="n", params={}, countdown=3600)

    def keys(*words: str) -> list[str]:
        return [json.loads(line)["key"] for line in said("list", "--json", *words).splitlines()]

    assert keys() == ["n", "other", "new", "old"]
    assert keys("--workspace", "acme") == ["n", "new", "old"]
    assert keys("--state", "dead") == ["old"]
    assert keys("--kind", "drills.noop") == ["n"]
    assert keys("--limit", "1") == ["n"]
    assert said("list", "--state", "dead").split()[1] == "dead(terminal)"


def test_kinds_are_listed() -> None:
    assert said("kinds").split() == sorted(registry.KINDS)
    assert json.loads(said("kinds", "--json")) == sorted(registry.KINDS)


def test_a_rerun_from_the_start_is_a_new_intent(acme: Workspace, ledger: str) -> None:
    job = dead(ledger, acme)
    restarted = told("retry", str(job.pk), "--restart", "--reason", "from the start")
    assert (restarted["created"], restarted["mode"], restarted["epoch"]) == (True, "restart", 1)
    again = told("retry", str(job.pk), "--restart", "--reason", "twice")
    assert (again["created"], again["id"]) == (False, restarted["id"])


def test_a_dead_letter_is_resolved_by_the_system_with_a_reason(
    acme: Workspace, ledger: str
) -> None:
    job = dead(ledger, acme)
    assert told("resolve", str(job.pk), "--reason", "done by hand")["resolution"] == "done by hand"
    assert AuditEvent.objects.filter(actor="system", reason="done by hand").count() == 1


def test_what_was_observed_is_recorded_with_its_output(acme: Workspace, ledger: str) -> None:
    intended = once.s(ledger=ledger, fault="reset")
    job = intended.enqueue(workspace=acme, key="a", countdown=3600)
    drain()
    words = ("reconcile", str(job.pk), "--step", "charge", "--reason", "asked the bank")
    told(*words, "--outcome", "happened", "--output", '{"id": 7}')
    step = Step.objects.get(job=job, name="charge")
    assert (step.observed, step.observed_output) == ("happened", {"id": 7})
    assert "step charge (once): started, observed: it happened\n" in said("show", str(job.pk))
    assert refused(*words, "--outcome", "happened", "--output", "{")[0] == 1


# --- manage.py sweep -----------------------------------------------------------------------------


def swept(*words: str) -> dict[str, Any]:
    out = StringIO()
    call_command("sweep", "--json", *words, stdout=out)
    answer = json.loads(out.getvalue())
    assert isinstance(answer, dict)
    return answer


def held_past_its_lease(job: Job) -> None:
    ago = Now() - timedelta(minutes=5)
    Job.objects.filter(pk=job.pk).update(
        state="running",
        attempt=1,
        worker="elsewhere/boot/1/1/1",
        started_at=ago,
        lease_until=ago + timedelta(minutes=1),
        kill_at=ago + timedelta(minutes=15),
    )


def test_one_pass_says_what_it_did(acme: Workspace, ledger: str) -> None:
    held_past_its_lease(later(ledger, acme))
    graced, second = swept(), swept()
    assert (graced["graced"], graced["reaped"]) == (True, 0)
    assert (second["graced"], second["reaped"], second["faults"]) == (False, 0, 0)


def test_a_pass_that_is_told_to_reap_gives_no_grace(acme: Workspace, ledger: str) -> None:
    job = later(ledger, acme)
    held_past_its_lease(job)
    out = StringIO()
    call_command("sweep", "--reap", stdout=out)
    job.refresh_from_db()
    assert (job.state, job.losses) == ("queued", 1)
    assert "reaped 1" in out.getvalue()


BAD_JSON = ["[" * 50_000 + "]" * 50_000, '{"a": ' + "9" * 5_000 + "}", '{"a": "\\ud800"}', "{no"]


@pytest.mark.parametrize("text", BAD_JSON, ids=["deep", "endless", "half", "none"])
def test_json_that_cannot_be_kept_is_refused_with_a_sentence(
    acme: Workspace, ledger: str, text: str
) -> None:
    new = ("enqueue", "drills.noop", "--workspace", "acme", "--key", "a", "--params", text)
    assert refused(*new)[0] == 1
    assert not Job.objects.exists()
    job = dead(ledger, acme)
    seen = ("--step", "first", "--outcome", "happened", "--reason", "seen", "--output", text)
    assert "params_invalid" in refused("reconcile", str(job.pk), *seen)[1]


@pytest.mark.parametrize("limit", ["-1", "0", "1.5", "10001", "9" * 30, "x", ""])
def test_a_list_has_a_length(acme: Workspace, limit: str) -> None:
    assert "no whole number from 1 to 10000" in refused("list", f"--limit={limit}")[1]


@pytest.mark.parametrize("odd", ["\udcff", "a\0b"], ids=ascii)
def test_bytes_that_are_no_text_are_refused_with_a_sentence(
    acme: Workspace, ledger: str, odd: str
) -> None:
    job = dead(ledger, acme)
    for words in (
        ("enqueue", "drills.noop", "--workspace", odd, "--key", "a"),
        ("enqueue", odd, "--workspace", "acme", "--key", "a"),
        ("list", "--kind", odd),
        ("show", odd),
        ("resolve", str(job.pk), "--reason", odd),
        ("resolve", "--filter", f"state=dead,workspace=acme,kind={odd}", "--reason", "x"),
    ):
        code, sentence = refused(*words)
        assert (code, "is not text in UTF-8" in sentence) == (2, True), words
