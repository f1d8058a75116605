"""A secret typed into a reason shows nowhere: one canary through every door, then a look around.

The canary is of two sorts: a value that the job itself hides, and a text that looks like a secret.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now
from django.test import Client

from jobs import locks
from jobs.admin.job import CONFIRMED
from jobs.models import Job, Lock, Operation, Step
from jobs.recovery.draft import draft
from jobs.recovery.operation import start
from jobs.testing import drain
from jobs.testing.leaks import listening, tables
from tests.drills.kinds import secretive
from tests.integration.api.conftest import Caller
from tests.integration.api.routes import ROUTES, delivered
from tests.integration.console_scene import (
    CANARY,
    at_console,
    confirm,
    ended,
    form_on,
    pages_of,
)
from workspaces import service_accounts, tokens
from workspaces.actors import SYSTEM
from workspaces.closing import close
from workspaces.errors import FiredoorError
from workspaces.models import AuditEvent, Workspace
from workspaces.permissions import Role

pytestmark = pytest.mark.django_db(transaction=True)

SECRETS = (CANARY, "hunter2-canary", "canary-token-from-login")
REASON = f"paid for {CANARY} by hand, password=hunter2-canary"
"""A job that is cancelled before it ran knows no more; of the others an output says the last."""
TOLD = f"{REASON}, as canary-token-from-login said"
PLAIN = "moved by hand, password=hunter2-canary"
"""About no job."""
VERBS = tuple(page.verb.value for page in CONFIRMED)
OF_OPERATIONS = ("start", "pause", "go", "stop", "resolve")


class Scene:
    """Jobs with secrets in their params and outputs, and everybody who may say why."""

    def __init__(self, folder: Path) -> None:
        self.acme = Workspace.objects.create(slug="acme", name="Acme")
        self.folder = folder
        self.made = 0
        self.answers: list[str] = []

    def job_for(self, verb: str) -> Job:
        """A job to which the verb can be done."""
        self.made += 1
        intended = secretive.s(ledger=str(self.folder / "l"), card={"number": CANARY}, fault="leak")
        key = f"order-{self.made}"
        if verb == "cancel":
            return intended.enqueue(workspace=self.acme, key=key, countdown=3600)
        job = ended(intended, self.acme, key)
        if verb == "reconcile":
            Step.objects.create(
                job=job,
                name="first",
                effect="once",
                state="started",
                attempt=1,
                intent_at=Now(),
                opens_at=Now(),
            )
        return job

    def draft(self) -> Operation:
        ids = [str(self.job_for("resume").pk) for _ in range(2)]
        return draft(self.acme, "resolve", actor=SYSTEM, ids=ids)

    def heard(self, response: Any, *statuses: int) -> None:
        assert response.status_code in statuses, (response.status_code, response.content.decode())
        self.answers.append(response.content.decode())

    def found(self, elsewhere: Iterable[tuple[str, str]] = ()) -> dict[str, str]:
        """Which secrets show, and where: in answers, in any table, and elsewhere."""
        places = [(f"answer {n}", text) for n, text in enumerate(self.answers)]
        places += [*tables(), *elsewhere]
        return {where: s for where, text in places for s in SECRETS if s in text}

    def pages(self) -> Iterator[tuple[str, str]]:
        ana = at_console("ana-who-looks", Role.ADMIN)
        for address in pages_of(ana):
            response = ana.get(address)
            assert response.status_code in (200, 302), address
            yield address, response.content.decode()
        for event in AuditEvent.objects.filter(object_type="job", result="done"):
            address = f"/admin/jobs/job/{event.object_id}/receipts/{event.pk}/"
            response = ana.get(address)
            assert response.status_code == 200, address
            yield address, response.content.decode()

    def routes(self) -> Iterator[tuple[str, str]]:
        me = Caller(self.acme, Role.ADMIN, "who-looks")
        things = [{"job_id": pk} for pk in Job.objects.values_list("pk", flat=True)]
        things += [{"operation_id": pk} for pk in Operation.objects.values_list("pk", flat=True)]
        for route in ROUTES:
            ids = [t for t in things if set(t) == set(route.params) - {"slug"}] or [{}]
            if route.method == "GET" and set(ids[0]) == set(route.params) - {"slug"}:
                for each in ids:
                    response = me.get(route.url(self.acme, each))
                    yield str(route), response.content.decode()
        table = me.get("audit/", {"format": "csv"})
        yield "audit as CSV", b"".join(table.streaming_content).decode()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def reason_for(verb: str) -> str:
    return REASON if verb == "cancel" else TOLD


def seen_by_console(verb: str) -> dict[str, str]:
    return {"step": "first", "outcome": "did_not_happen"} if verb == "reconcile" else {}


def test_nothing_typed_at_the_console_shows_a_secret(scene: Scene) -> None:
    lead, viewer = at_console("ana"), at_console("vic", Role.VIEWER)
    with listening() as lines:
        for verb in VERBS:
            job = scene.job_for(verb)
            form = form_on(
                lead, confirm(job, verb), reason=reason_for(verb), **seen_by_console(verb)
            )
            scene.heard(refused(viewer, job, verb, form), 403)
            scene.heard(lead.post(confirm(job, verb), {**form, "digest": "changed"}), 303, 409)
            scene.heard(lead.post(confirm(job, verb), form), 303)
            scene.heard(refused(lead, job, verb, form), 303, 409, 422)
    said_somewhere(f"job.{verb}" for verb in VERBS)
    assert scene.found(scene.pages()) == {}
    assert not [line for line in lines for secret in SECRETS if secret in line]


def refused(client: Client, job: Job, verb: str, form: dict[str, str]) -> Any:
    """Somebody without the right, or a deed that is done already, under an operation of its own."""
    client.get(confirm(job, verb))
    token = client.cookies["csrftoken"].value
    number = f"00000000-0000-4000-8000-{job.pk.int % 10**6:06}{VERBS.index(verb):06}"
    return client.post(
        confirm(job, verb), {**form, "csrfmiddlewaretoken": token, "operation_id": number}
    )


def said_somewhere(actions: Iterator[str]) -> None:
    """Each deed is on record, done, and its reason is there without the secrets."""
    for action in actions:
        events = AuditEvent.objects.filter(action=action)
        assert events.filter(result="done").exists(), action
        for event in events:
            assert "by hand" in event.reason, action
            assert "[hidden]" in event.reason, action


def test_nothing_said_over_the_api_shows_a_secret(scene: Scene) -> None:
    me, viewer = Caller(scene.acme, Role.ADMIN), Caller(scene.acme, Role.VIEWER)
    spoken = set()
    with listening() as lines:
        for route in ROUTES:
            if not takes_a_reason(route.name):
                continue
            spoken.add(route.name)
            if "job_id" in route.params:
                _say_of_a_job(scene, route, me, viewer)
            elif "operation_id" not in route.params and route.name != "api-workspace-close":
                _say_of_another_thing(scene, route, me, viewer)
        _say_of_operations(scene, me, viewer)
    assert spoken >= {
        *(f"api-job-{verb}" for verb in ("retry", "cancel", "resolve", "reconcile")),
        *(f"api-operation-{deed}" for deed in OF_OPERATIONS),
        "api-workspace-close",
        "api-webhook-redeliver",
    }
    said_somewhere(f"job.{verb}" for verb in VERBS)
    said_somewhere(f"operation.{deed}" for deed in OF_OPERATIONS)
    assert scene.found(scene.routes()) == {}
    scene.heard(me.post("close/", {"reason": PLAIN}), 200)
    assert scene.found() == {}
    assert not [line for line in lines for secret in SECRETS if secret in line]


def _say_of_another_thing(scene: Scene, route: Any, me: Caller, viewer: Caller) -> None:
    """What is no job hides nothing of a job: whatever is answered, and is kept, is scrubbed."""
    delivery = delivered(scene.acme)
    ids = {"endpoint_id": delivery.endpoint_id, "delivery_id": delivery.pk}
    for who in (viewer, me, me):
        response = who.post(route.url(scene.acme, ids), {"reason": PLAIN})
        assert response.status_code < 500, (str(route), response.content.decode())
        scene.answers.append(response.content.decode())


def takes_a_reason(name: str) -> bool:
    from django.urls import get_resolver

    def walk(patterns: list[Any]) -> Iterator[Any]:
        for each in patterns:
            yield from walk(each.url_patterns) if hasattr(each, "url_patterns") else [each]

    (found,) = (each for each in walk(get_resolver().url_patterns) if each.name == name)
    body = found.callback.view_class.takes.get("POST")
    return body is not None and "reason" in body().fields


def _say_of_a_job(scene: Scene, route: Any, me: Caller, viewer: Caller) -> None:
    verb = route.name.removeprefix("api-job-")
    for mode in ("resume", "restart") if verb == "retry" else ("",):
        job = scene.job_for(mode or verb)
        more = {"mode": mode} if mode else {}
        if verb == "reconcile":
            more = {"step": "first", "outcome": "did_not_happen"}
        url = route.url(scene.acme, {"job_id": job.pk})
        body = {"reason": reason_for(verb), **more}
        scene.heard(viewer.post(url, body), 403)
        scene.heard(me.post(url, {**body, "digest": "x"}), 409, 422)
        scene.heard(me.post(url, body), 200, 202)
        scene.heard(me.post(url, body), 200, 409)


def _say_of_operations(scene: Scene, me: Caller, viewer: Caller) -> None:
    operation = scene.draft()
    for deed in OF_OPERATIONS:
        url = f"operations/{operation.pk}/{deed}/"
        scene.heard(viewer.post(url, {"reason": TOLD}), 403)
        scene.heard(me.post(url, {"reason": TOLD}), 200, 202)
        scene.heard(me.post(url, {"reason": TOLD}), 409)
    other = scene.draft()
    me.post(f"operations/{other.pk}/start/", {"reason": TOLD})
    drain()


def test_nothing_said_in_a_shell_shows_a_secret(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    with listening() as lines:
        _say_in_a_shell(scene)
    written = "".join(capsys.readouterr())
    assert not [secret for secret in SECRETS if secret in written]
    said_somewhere(f"job.{verb}" for verb in VERBS)
    assert scene.found() == {}
    assert not [line for line in lines for secret in SECRETS if secret in line]


def _say_in_a_shell(scene: Scene) -> None:
    for verb in VERBS:
        job = scene.job_for(verb)
        words = ["retry" if verb in ("resume", "restart") else verb, str(job.pk)]
        words += ["--restart"] if verb == "restart" else []
        more = ["--step", "first", "--outcome", "did_not_happen"] if verb == "reconcile" else []
        call_command("job", *words, *more, "--reason", reason_for(verb), "--json")
        if verb not in ("resume", "restart"):
            with pytest.raises(CommandError):
                call_command("job", *words, *more, "--reason", reason_for(verb))
        call_command("job", "show", str(job.pk), "--json")
    scene.job_for("resume")
    call_command("job", "resolve", "--filter", "state=dead,workspace=acme", "--reason", TOLD)
    drain()
    call_command("createtoken", workspace="acme", name="bot", role="viewer")
    call_command("createtoken", workspace="acme", name="bot", revoke=True, reason=PLAIN)


@pytest.mark.parametrize("name", ["lock", "account", "token", "workspace"])
def test_nothing_said_to_the_other_services_shows_a_secret(scene: Scene, name: str) -> None:
    job = scene.job_for("resume")
    account = service_accounts.create("bot", role=Role.VIEWER, workspace=scene.acme, actor=SYSTEM)
    token, _text = tokens.issue(account, actor=SYSTEM)
    Lock.objects.create(workspace=scene.acme, name="prod", job_id=job.pk, since=Now())
    deeds: dict[str, Callable[[], object]] = {
        "lock": lambda: locks.force_open(scene.acme, "prod", actor=SYSTEM, reason=TOLD),
        "account": lambda: service_accounts.disable(account.pk, actor=SYSTEM, reason=PLAIN),
        "token": lambda: tokens.revoke(token.pk, actor=SYSTEM, reason=PLAIN),
        "workspace": lambda: close(scene.acme.pk, actor=SYSTEM, reason=PLAIN),
    }
    deeds[name]()
    event = AuditEvent.objects.exclude(reason="").get()
    assert not [secret for secret in SECRETS if secret in event.reason]
    assert "by hand" in event.reason


def test_a_reason_may_name_what_is_no_secret(scene: Scene) -> None:
    job = scene.job_for("resolve")
    call_command("job", "resolve", str(job.pk), "--reason", "customer 4711 was paid by hand")
    job.refresh_from_db()
    assert job.resolution == "customer 4711 was paid by hand"
    assert json.dumps(job.params).count(CANARY) == 1


def test_a_refusal_that_no_service_was_asked_for_is_scrubbed_too(scene: Scene) -> None:
    from workspaces.audit import Attempt, record_refusal

    error = FiredoorError("No.")
    error.status = 409
    cut = "x" * 1990 + " password=hunter2-canary"
    record_refusal(error, Attempt(SYSTEM, "job.x", scene.acme.pk, "job", 1, cut))
    assert "hunter2" not in AuditEvent.objects.get(action="job.x").reason


def test_a_second_post_of_a_form_answers_the_receipt_of_the_first(scene: Scene) -> None:
    lead, job = at_console("ana"), scene.job_for("reconcile")
    form = form_on(lead, confirm(job, "reconcile"), **seen_by_console("reconcile"))
    answers = [lead.post(confirm(job, "reconcile"), form) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [303, 303]
    assert len({answer["Location"] for answer in answers}) == 1


def test_a_full_reason_that_grows_by_what_hides_its_secrets_is_still_one(scene: Scene) -> None:
    card = "4711"
    intended = secretive.s(ledger=str(scene.folder / "l"), card={"number": card}, fault="leak")
    job = ended(intended, scene.acme, "grows")
    reason = f"by hand {card} token=abcd " + "x" * 2000
    operation = draft(scene.acme, "resolve", actor=SYSTEM, ids=[str(job.pk)])
    start(operation.pk, actor=SYSTEM, reason=reason[:2000])
    drain()
    job.refresh_from_db()
    assert job.resolution.startswith("by hand [hidden] token=[hidden] x")
    assert len(job.resolution) == 2000
