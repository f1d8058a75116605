"""What is a secret is in no answer: of whatever address, in whatever form, however it is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client
from rest_framework import serializers

from jobs import registry
from jobs.kinds import Run, Terminal, job_kind, step
from jobs.models import Attempt, Event, Job, Operation, OperationItem, Step
from jobs.testing import drain
from tests.integration.api.conftest import Caller
from tests.integration.api.routes import CANARY, EVERY, Route, ids_of
from tests.integration.console_scene import at_console
from workspaces.audit import DONE
from workspaces.http.examples import example_of
from workspaces.models import AuditEvent, Workspace
from workspaces.permissions import Role

Callers = Callable[..., Caller]
CONFIDED = "drills.confided"
TOLD_BACK = ("kind", "key", "verb", "step", "description")
CARD = {"number": CANARY, "holder": "A. Canary"}
every_route = pytest.mark.parametrize("route", EVERY, ids=str)


@pytest.fixture
def confided() -> Iterator[None]:
    """A kind that anybody may give a card, and that cannot keep its number to itself."""

    @step("tell")
    def tell(number: str) -> dict[str, Any]:
        return {"echo": f"card {number} taken", "token": number}

    @step("fail")
    def fail(number: str) -> None:
        raise Terminal(f"no such card: {number}")

    def confide(run: Run, *, card: dict[str, str]) -> None:
        run(tell, card["number"])
        run.progress(0.5, f"asking for {card['number']}")
        run(fail, card["number"])

    job_kind(CONFIDED, steps=(tell, fail), api=True, redact=("card.number",))(confide)
    yield
    registry.KINDS.pop(CONFIDED, None)


@pytest.fixture
def told(confided: None, caller: Callers, acme: Workspace) -> tuple[Caller, dict[str, object]]:
    """Everything that a job, its retry and its operators can be told, with the number in it."""
    me = caller(Role.ADMIN)
    said = {"kind": CONFIDED, "key": "order-1", "params": {"card": CARD}}
    made = me.post("jobs/", said, idempotency_key="the-key-1")
    assert (made.status_code, CANARY in made.content.decode()) == (201, False)
    drain()
    job = Job.objects.get()
    assert (job.state, job.params["card"]["number"]) == ("dead", CANARY)
    assert CANARY in json.dumps(list(Step.objects.values_list("output", flat=True)))
    refused = me.post(f"jobs/{job.pk}/cancel/", {"reason": f"the card is {CANARY}"})
    assert refused.status_code == 409
    assert AuditEvent.objects.filter(result="not_cancellable").exists()
    ids = ids_of(acme, job)
    as_if_nothing_had_hidden_it(job)
    return me, {"slug": acme.slug, **ids}


def as_if_nothing_had_hidden_it(job: Job) -> None:
    """Whatever hides it when it is written, it is hidden where it is read, too."""
    said, shaped = f"the card {CANARY}", f"password={CANARY}"
    Attempt.objects.update(message=said, reason=said)
    Event.objects.update(data={"why": said})
    Step.objects.update(late_output={"card": said}, observed_output=[said])
    Job.objects.update(resolution=said)
    Operation.objects.update(reason=shaped, note=shaped, resolution=shaped)
    OperationItem.objects.update(sentence=shaped)
    AuditEvent.objects.create(
        workspace=job.workspace,
        actor="system",
        actor_label="system",
        action="job.looked",
        object_type="job",
        object_id=str(job.pk),
        reason=shaped,
        result=DONE,
        before={"password": CANARY},
        after={"why": shaped},
        created_at=Now(),
    )


def ways(route: Route) -> Iterator[dict[str, Any]]:
    """How an address is asked: bodies and queries, right ones and wrong ones."""
    if route.method == "GET":
        filters = getattr(route.view, "filters", None)
        yield {}
        yield from [{"query": {"nonsense": CANARY}}] if route.view else []
        for name in sorted({*filters.base_filters, *filters.parameters} if filters else ()):
            yield {"query": {name: CANARY}}
            if name == "format":
                yield from ({"query": {name: form}} for form in ("csv", "md", "json"))
        return
    takes = route.view.takes.get(route.method)
    fields = list(takes().fields.items()) if takes else []
    yield from ({"body": body} for body in nearly_right(takes))
    yield {"body": {}}
    yield {"body": {"reason": f"because of {CANARY} password={CANARY}"}}
    yield {"body": {"reason": "why", "nonsense": CANARY}}
    for wrong in (CANARY, [CANARY], {"a": CANARY}):
        yield {"body": {name: wrong for name, _field in fields}}
    for name, field in fields:
        if isinstance(field, serializers.ChoiceField):
            yield {"body": {"reason": "why", name: CANARY}}
    yield {"body": f'{{"reason": "{CANARY}"'}
    yield {"body": {}, "content_type": "text/plain"}


def nearly_right(takes: Any) -> Iterator[dict[str, Any]]:
    """A body that is right but for one value, which is the number where none belongs.

    What names something is told back to who sent it, and a description is shown.
    """
    right = dict(example_of(takes) or {})
    if "kind" in right:
        right |= {"kind": CONFIDED, "key": "order-1", "params": {"card": CARD}}
    for name, value in right.items():
        for wrong in (*([CANARY] * (name not in TOLD_BACK)), {"a": [CANARY]}):
            yield {**right, name: wrong}
        for inner in value if isinstance(value, dict) else ():
            for wrong in (*([CANARY] * (inner not in TOLD_BACK)), {"a": [CANARY]}):
                yield {**right, name: {**value, inner: wrong}}
    if "params" in right:
        yield {**right, "params": {"card": {**CARD, "holder": "else"}}}
        yield {**right, "params": {"card": CARD, "more": CANARY}}
    if "url" in right:
        for url in (
            "http://x:{}@h.example.com/",
            "https://h.example.com:1{}/",
            "https://{}.local/",
        ):
            yield {**right, "url": url.format(CANARY)}


def send(me: Caller, route: Route, url: str, way: dict[str, Any]) -> Any:
    if route.method == "GET":
        return me.get(url, way.get("query"))
    headers = {"content_type": way["content_type"]} if "content_type" in way else {}
    key = f"key-of-{abs(hash(str(way)))}"
    return me.send(route.method, url, way["body"], idempotency_key=key, **headers)


def shows(response: Any, *secrets: str) -> list[str]:
    whole = response.getvalue().decode(errors="replace") + json.dumps(dict(response.items()))
    return [secret for secret in secrets if secret in whole]


@every_route
def test_no_secret_of_a_job_or_an_endpoint_is_in_any_answer(
    route: Route, told: tuple[Caller, dict[str, object]], caplog: pytest.LogCaptureFixture
) -> None:
    me, ids = told
    url = route.url(me.workspace, ids)
    for way in ways(route):
        response = send(me, route, url, way)
        assert response.status_code < 500, (way, response.content)
        assert shows(response, CANARY, me.secret) == [], (way, response.status_code)
    assert CANARY not in caplog.text


def test_a_token_that_is_none_is_not_told_back(told: tuple[Caller, dict[str, object]]) -> None:
    me, ids = told
    for route in EVERY:
        for authorization in (f"Bearer {CANARY}", f"Bearer fdr_{CANARY}", f"Basic {CANARY}"):
            headers = {"Authorization": authorization}
            url = route.url(me.workspace, ids)
            response = Client().generic(route.method, url, b"{}", headers=headers)
            assert shows(response, CANARY) == [], str(route)


def test_the_pages_for_people_have_none_either(told: tuple[Caller, dict[str, object]]) -> None:
    console = at_console("ana", Role.ADMIN)
    for address in ("/api/schema/", "/api/docs/", "/api/problems/"):
        response = console.get(address)
        assert response.status_code == 200
        assert shows(response, CANARY, told[0].secret) == []


def test_the_scene_holds_what_is_looked_for(told: tuple[Caller, dict[str, object]]) -> None:
    """So that the others cannot pass for want of anything to find."""
    job = Job.objects.get()
    assert [a.error_class.rpartition(".")[2] for a in Attempt.objects.all()] == ["Terminal"]
    assert (job.progress or {})["fraction"] == 0.5
    assert Event.objects.filter(subject=str(job.pk)).exists()
    written = AuditEvent.objects.exclude(action="job.looked").values_list("reason", flat=True)
    assert written
    assert CANARY not in json.dumps(list(written))
