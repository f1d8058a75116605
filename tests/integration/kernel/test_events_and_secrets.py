"""The bus delivers until it is heard, and no secret of a job is in what is told or logged."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta

import pytest
from django.db import transaction
from django.db.models.functions import Now

from jobs import events
from jobs.events import MAX_TRIES, emit, receives
from jobs.kinds import Job, Run, Terminal, Transient, job_kind, step
from jobs.models import Event
from jobs.recovery.retry import retry
from jobs.sweep import sweep
from jobs.testing import attempt
from jobs.testing.leaks import leaked, listening
from tests.drills.kinds import noop, secretive
from tests.drills.ledger import effects, happened
from tests.integration.kernel.acting import (
    claimed_elsewhere,
    ended,
    expired,
    reaping,
    tried,
    waiting,
)
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

PIN = "canary-0815"
CANARY = 'canary-4711 "quoted" \\ ß'


def older(event: Event, seconds: float) -> None:
    """Let an event be that old."""
    Event.objects.filter(pk=event.pk).update(created_at=Now() - timedelta(seconds=seconds))


def test_an_event_stands_or_falls_with_its_transaction(acme: Workspace) -> None:
    heard: list[str] = []
    receives("scene.said")(lambda event: heard.append(event.subject))
    with transaction.atomic():
        emit("scene.said", acme, "undone", {})
        transaction.set_rollback(True)
    emit("scene.said", acme.pk, "done", {"n": 1})
    event = Event.objects.get()
    assert (event.subject, event.data, event.workspace_id) == ("done", {"n": 1}, acme.pk)
    assert (event.tries, event.error, event.delivered_at is None) == (1, "", False)


def test_what_nobody_listens_to_is_delivered_as_it_is_written(acme: Workspace) -> None:
    event = emit("scene.unheard", acme, "x", {})
    event.refresh_from_db()
    assert (event.tries, event.delivered_at is None) == (0, False)
    assert sweep().delivered == 0


def test_one_receiver_that_fails_undoes_itself_and_no_other(acme: Workspace) -> None:
    calls: Counter[str] = Counter()

    def writes(event: Event) -> None:
        calls["writes"] += 1
        Workspace.objects.filter(pk=acme.pk).update(name="written")

    def writes_and_fails(event: Event) -> None:
        calls["fails"] += 1
        Workspace.objects.filter(pk=acme.pk).update(slug="half")
        if calls["fails"] == 1:
            raise ValueError("not yet")

    receives("scene.said")(writes_and_fails)
    receives("scene.said")(writes)
    event = emit("scene.said", acme, "x", {})
    event.refresh_from_db()
    acme.refresh_from_db()
    assert (acme.slug, acme.name, event.delivered_at) == ("acme", "written", None)
    assert event.error.endswith("writes_and_fails: ValueError: not yet")

    assert sweep().delivered == 1
    event.refresh_from_db()
    acme.refresh_from_db()
    assert (event.tries, event.error, event.delivered_at is None) == (2, "", False)
    assert (acme.slug, calls) == ("half", {"writes": 2, "fails": 2})


def test_a_receiver_that_never_hears_is_asked_less_and_less_and_then_no_more(
    acme: Workspace,
) -> None:
    asked: list[int] = []

    def refuses(event: Event) -> None:
        asked.append(event.pk)
        raise ValueError("never")

    receives("scene.said")(refuses)
    event = emit("scene.said", acme, "x", {})
    for _ in range(10):
        sweep()
    soon = len(asked)
    older(event, 100_000)
    for _ in range(30):
        sweep()
    event.refresh_from_db()
    assert soon == 4, "three more at once, then it waits"
    assert (len(asked), event.tries, event.delivered_at) == (MAX_TRIES, MAX_TRIES, None)


def test_events_are_delivered_again_in_their_order(acme: Workspace) -> None:
    heard: list[str] = []
    receives("scene.said")(lambda event: heard.append(event.subject))
    for subject in ("a", "b", "c"):
        emit("scene.said", acme, subject, {}, deliver=False)
    assert (sweep().delivered, heard) == (3, ["a", "b", "c"])


def test_an_event_of_death_tells_what_an_alert_needs(acme: Workspace, ledger: str) -> None:
    @step("breaks")
    def breaks() -> None:
        raise Terminal("it broke")

    @job_kind("scene.breaks", steps=(breaks,))
    def kind(run: Run) -> None:
        run(breaks)

    job = waiting(kind.s(), acme, request_id="req-1")
    attempt(job)
    (event,) = Event.objects.filter(subject=str(job.pk))
    assert event.data == {
        "kind": "scene.breaks",
        "key": "a",
        "root_id": str(job.pk),
        "retry_of": None,
        "state": "dead",
        "cause": "terminal",
        "attempt": 1,
        "step": "breaks",
        "error_class": "jobs.outcomes.Terminal",
        "message": "it broke",
        "reason": "terminal",
        "fingerprint": job.attempts.get().fingerprint,
        "request_id": "req-1",
        "traceparent": "",
    }


def test_a_success_asks_no_receiver_that_does_not_listen(acme: Workspace) -> None:
    asked: list[int] = []

    def wants(workspace_id: int) -> bool:
        asked.append(workspace_id)
        return False

    events._receivers.clear()
    receives("job.succeeded", wants=wants)(lambda event: None)
    receives("job.dead")(lambda event: None)
    tried(noop.s(), acme)
    assert set(asked) == {acme.pk}
    assert not Event.objects.exists()


# --- secrets -------------------------------------------------------------------------------------


def test_no_secret_of_params_or_outputs_shows_anywhere(acme: Workspace, ledger: str) -> None:
    """The drill puts a redacted param, its JSON and a password into its error's message."""
    job = waiting(secretive.s(ledger=ledger, card={"number": CANARY}, fault="leak"), acme)
    with listening() as lines:
        attempt(job)
        retry(job.pk, mode="resume", actor=SYSTEM, reason="try again")
    secrets = frozenset({CANARY, "canary-4711", "canary-token-from-login", "hunter2-canary"})
    assert job.attempts.get().message
    assert any("job.attempt_failed" in line for line in lines)
    assert leaked(secrets, lines, job) == []


def test_an_output_is_known_as_a_secret_in_later_attempts_too(acme: Workspace) -> None:
    @step("login")
    def login() -> dict[str, str]:
        return {"token": CANARY}

    @job_kind("scene.tells_later", steps=(login,), max_retries=1)
    def tells_later(run: Run) -> None:
        token = run(login)["token"]
        if run.attempt == 2:
            raise Transient(f"refused {token}")
        raise Transient("at first")

    with listening() as lines:
        job = ended(tells_later.s(), acme)
    assert "refused [hidden]" in job.attempts.get(number=2).message
    assert leaked(frozenset({CANARY}), lines, job) == []


@pytest.mark.parametrize("name", ["turn", "of an output", "lock"])
def test_no_name_holds_a_secret(acme: Workspace, ledger: str, name: str) -> None:
    """Names are keys, and stored: what hides values later finds them in clear."""

    @step.once("card", many=True)
    def card(number: str) -> dict[str, str]:
        happened(ledger, "card")
        return {"token": "canary-from-output"}

    @job_kind("scene.names", steps=(card,), redact=("account.pin",), max_retries=0)
    def names(run: Run, *, account: dict[str, str]) -> None:
        pin = account["pin"]
        if name == "turn":
            run(card.at(f"{pin}-a"), pin)
        if name == "of an output":
            run(card.at(run(card.at(1), pin)["token"]), pin)
        if name == "lock":
            run.lock(f"account {pin}", keep=True)

    with listening() as lines:
        job = ended(names.s(account={"pin": PIN}), acme)
    row = job.attempts.get()
    assert (job.state, job.cause, row.error_class) == ("dead", "terminal", "ValueError")
    assert "redact hides" in row.message
    assert effects(ledger) == ({"card": 1} if name == "of an output" else {})
    assert leaked(frozenset({PIN, "canary-from-output"}), lines, job) == []


def test_what_is_stored_under_such_a_name_already_stays_done(acme: Workspace) -> None:
    """By an older release: refusing it then would hide nothing, and could repeat an effect."""

    @step("card", many=True)
    def card() -> None:
        pass

    @job_kind("scene.names", steps=(card,), redact=("pin",), max_retries=1)
    def names(run: Run, *, pin: str) -> None:
        if run.attempt == 1:
            run(card.at(1))
            raise Transient("later")
        run(card.at(pin))

    job = tried(names.s(pin=PIN), acme)
    job.steps.update(name=f"card:{PIN}")
    assert attempt(job).state == "succeeded"


def test_a_hook_that_fails_in_the_sweeper_tells_no_secret_either(acme: Workspace) -> None:
    """The job's own process is gone: the sweeper must know its secrets by itself."""

    @step("login")
    def login() -> dict[str, str]:
        return {"token": "canary-from-output"}

    @job_kind("scene.hooked", steps=(login,), redact=("account.pin",), max_losses=0)
    def hooked(run: Run, *, account: dict[str, str]) -> None:
        run(login)
        raise Transient("so that it waits")

    @hooked.after
    def tell(job: Job, verb: str, successor: Job | None) -> None:
        output = job.steps.get().output
        raise ValueError(f"cannot tell {job.params!r} {json.dumps(output)}")

    job = tried(hooked.s(account={"pin": CANARY}), acme)
    expired(claimed_elsewhere(job, attempt=2))
    with listening() as lines:
        reaping()
        sweep()
    job.refresh_from_db()
    event = Event.objects.get(type="job.hook_failed")
    assert (job.state, job.cause) == ("dead", "lost")
    assert "[hidden]" in event.data["error"]
    assert "ValueError" in event.error
    assert leaked(frozenset({CANARY, "canary-from-output"}), lines, job) == []
