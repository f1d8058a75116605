"""Whatever in a request can name a thing, it names none of another workspace.

Addresses are walked elsewhere. Here are the query and the body: each of their names is either
listed as one that can name a thing, and tried with one of theirs, or as one that cannot.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from rest_framework import serializers

from jobs.events import emit
from jobs.models import Attempt, Event, Job
from tests.drills.kinds import repeatable
from tests.integration.api.conftest import Caller, problem
from tests.integration.api.jobs_scene import PUBLIC, body, dead, public_kind
from tests.integration.api.routes import EVERY, ids_of
from workspaces.actors import Actor
from workspaces.audit import record
from workspaces.models import AuditEvent, Workspace
from workspaces.permissions import Role
from workspaces.tokens import bearer_of

Callers = Callable[..., Caller]
NO_TEXT = "never-was-there"
PLAIN = set(
    "limit format mode wait state cause wait_reason kind dead_letter open_step action object_type"
    " result verb outcome status event_type since until created_after created_before"
    " finished_after finished_before run_at_after run_at_before".split()
)
NAMING = {  # a parameter, and what of theirs is put into it; `cursor` and `after` are positions
    "GET api-workspaces": {"cursor": "cursor"},
    "GET api-audit": {
        "actor": "actor",
        "object_id": "job_id",
        "request_id": "request_id",
        "cursor": "cursor",
    },
    "GET api-jobs": {
        "root_id": "job_id",
        "key": "key",
        "request_id": "request_id",
        "fingerprint": "fingerprint",
        "cursor": "cursor",
    },
    "GET api-job-events": {"after": "event_id"},
    "GET api-operations": {"cursor": "cursor"},
    "GET api-operation-items": {"cursor": "cursor"},
    "GET api-webhook-endpoints": {"cursor": "cursor"},
    "GET api-webhook-deliveries": {"endpoint": "endpoint_id", "cursor": "cursor"},
}
BESIDE = {  # what all of ours fit as well: together they may be found by another index
    "GET api-audit": {"result": "done"},
    "GET api-jobs": {"state": "dead"},
    "GET api-webhook-deliveries": {"status": "succeeded"},
}
NAMING_FIELDS = {
    "POST api-jobs": {"key"},
    "POST api-job-retry": {"digest"},
    "POST api-job-reconcile": {"step"},
    "POST api-operations": {"ids", "filter"},
}
PLAIN_FIELDS = set(
    "kind params eta reason mode outcome output verb care care.canary care.rate_per_minute"
    " care.stop_after care.stop_ratio url events description headers delays grace_seconds since"
    " until include_skipped".split()
)
PAIRS = [
    (route, name)
    for route in EVERY
    for name in NAMING.get(str(route), {})
    if name not in ("cursor", "after")
]
LISTS = [route for route in EVERY if "cursor" in NAMING.get(str(route), {})]


@dataclass
class Side:
    """One workspace, who speaks for it, and one of each thing in it by its name."""

    me: Caller
    things: dict[str, Any]

    def url(self, route: Any) -> str:
        return str(route.url(self.me.workspace, self.things))

    def ids(self) -> set[str]:
        return {str(value) for value in self.things.values()}


@pytest.fixture
def sides(
    caller: Callers, acme: Workspace, rival: Workspace, tmp_path: Any
) -> Iterator[tuple[Side, Side]]:
    """Mine and theirs, alike in everything but their ids."""
    with public_kind():
        yield tuple(  # type: ignore[misc]
            _side(caller(Role.ADMIN, place), place, str(tmp_path / place.slug))
            for place in (acme, rival)
        )


def _side(me: Caller, place: Workspace, ledger: str) -> Side:
    job = dead(repeatable.s(ledger=ledger), place, "first", key=f"key-of-{place.slug}")
    request_id = f"request-of-{place.slug}"
    events = Event.objects.filter(workspace=place).order_by("pk")
    Job.objects.filter(pk=job.pk).update(request_id=request_id)
    Attempt.objects.filter(job=job).update(fingerprint=f"print-{place.slug}")
    emit("drill.told", place, str(job.pk), {"of": place.slug})
    record(
        actor=actor_of(me),
        action="job.looked",
        workspace=place,
        object_type="job",
        object_id=job.pk,
        request_id=request_id,
    )
    return Side(
        me,
        {
            **ids_of(place, job),
            "key": job.key,
            "request_id": request_id,
            "fingerprint": f"print-{place.slug}",
            "actor": me.account_id,
            "event_id": events[0].pk,
        },
    )


def actor_of(me: Caller) -> Actor:
    found = bearer_of(me.secret)
    assert found is not None
    return found[0]


def test_every_parameter_is_said_to_name_a_thing_or_not() -> None:
    for route in EVERY:
        filters = getattr(route.view, "filters", None) if route.method == "GET" else None
        names = {*filters.base_filters, *filters.parameters} if filters else set()
        assert names - PLAIN == set(NAMING.get(str(route), {})), str(route)


def test_every_field_is_said_to_name_a_thing_or_not() -> None:
    for route in EVERY:
        takes = getattr(route.view, "takes", {}).get(route.method)
        names = set(_fields(takes())) if takes else set()
        assert names - PLAIN_FIELDS == NAMING_FIELDS.get(str(route), set()), str(route)


def _fields(said: Any, before: str = "") -> Iterator[str]:
    for name, field in said.fields.items():
        yield f"{before}{name}"
        if isinstance(field, serializers.Serializer):
            yield from _fields(field, f"{before}{name}.")


@pytest.mark.parametrize(("route", "name"), PAIRS, ids=lambda value: str(value))
def test_a_parameter_finds_nothing_of_theirs(
    route: Any, name: str, sides: tuple[Side, Side]
) -> None:
    mine, theirs = sides
    kind = NAMING[str(route)][name]
    unknown = str(uuid.uuid4()) if kind.endswith("_id") and name != "request_id" else NO_TEXT
    asked = {"of mine": mine.things[kind], "of theirs": theirs.things[kind], "of none": unknown}
    for beside in ({}, BESIDE[str(route)]):
        answers = {
            whose: mine.me.get(mine.url(route), {name: str(value), **beside})
            for whose, value in asked.items()
        }
        assert body(answers["of mine"])["results"], "the parameter finds what is ours"
        assert body(answers["of theirs"])["results"] == []
        assert body(answers["of theirs"]) == body(answers["of none"])


@pytest.mark.parametrize("route", LISTS, ids=str)
def test_a_cursor_of_theirs_leads_to_nothing_of_theirs(
    route: Any, sides: tuple[Side, Side]
) -> None:
    mine, theirs = sides
    for n in range(2):
        record(
            actor=actor_of(theirs.me), action=f"more.{n}", workspace=theirs.me.workspace,
            object_type="x", object_id=f"secret-of-rival-{n}",
        )  # fmt: skip
    page = theirs.me.get(theirs.url(route), {"limit": 1})
    links = [link for link in (body(page)["next"], body(page)["previous"]) if link]
    cursors = [link.partition("cursor=")[2].partition("&")[0] for link in links]
    cursors += _ends(route)
    for cursor in cursors:
        answer = mine.me.client.get(
            f"{mine.url(route)}?cursor={cursor}",
            headers={"Authorization": f"Bearer {mine.me.secret}"},
        )
        assert answer.status_code == 200, answer.content
        text = json.dumps(body(answer)["results"])
        assert "rival" not in text
        assert not [one for one in theirs.ids() if len(one) > 8 and one in text]


def _ends(route: Any) -> list[str]:
    """Cursors at both ends of everything, as whoever makes cursors up would write them."""
    low, high = str(uuid.UUID(int=0)), str(uuid.UUID(int=2**127))
    if route.name in ("api-audit", "api-operation-items"):
        low, high = "0", str(2**62)
    elif route.name == "api-workspaces":
        low, high = "0", "z"
    return [
        base64.urlsafe_b64encode(f"{way} {value}".encode()).decode().rstrip("=")
        for way, value in (("lt", high), ("gt", low), ("gte", low), ("lte", high))
    ]


def test_after_an_event_of_theirs_come_mine_alone(sides: tuple[Side, Side]) -> None:
    mine, theirs = sides
    path = f"jobs/{mine.things['job_id']}/events/"
    for after in (0, theirs.things["event_id"] - 1, theirs.things["event_id"]):
        told = body(mine.me.get(path, {"after": after}))
        assert "rival" not in json.dumps(told)
        kept = Event.objects.filter(pk__in=[event["id"] for event in told["results"]])
        assert {event.workspace_id for event in kept} <= {mine.me.workspace.pk}
    assert body(mine.me.get(path))["results"]


def test_a_key_of_theirs_is_free_here(sides: tuple[Side, Side]) -> None:
    mine, theirs = sides
    said = {"kind": PUBLIC, "key": "one-key", "params": {"anything": 1}}
    other = theirs.me.post("jobs/", {**said, "params": {"anything": 2}})
    made = mine.me.post("jobs/", said)
    assert (other.status_code, made.status_code) == (201, 201)
    assert body(made)["id"] != body(other)["id"]


def test_a_digest_of_theirs_is_no_plan_of_mine(sides: tuple[Side, Side]) -> None:
    mine, theirs = sides
    plan = body(theirs.me.get(f"jobs/{theirs.things['job_id']}/retry/"))
    refused = mine.me.post(
        f"jobs/{mine.things['job_id']}/retry/", {"reason": "why", "digest": plan["digest"]}
    )
    assert (refused.status_code, problem(refused)["code"]) == (409, "plan_changed")


@pytest.mark.parametrize(("verb", "thing"), [("resume", "job_id"), ("recover", "delivery_id")])
def test_ids_of_theirs_are_skipped_like_ids_that_never_were(
    verb: str, thing: str, sides: tuple[Side, Side]
) -> None:
    mine, theirs = sides
    ids = [str(theirs.things[thing]), str(uuid.uuid4())]
    made = mine.me.post("operations/", {"verb": verb, "ids": ids})
    assert made.status_code == 201, made.content
    told = body(mine.me.get(f"operations/{body(made)['id']}/items/"))["results"]
    assert [item["outcome"] for item in told] == ["skipped", "skipped"]
    foreign, unknown = ({**item, "object_id": "", "position": 0} for item in told)
    assert json.dumps(foreign).replace(ids[0], "") == json.dumps(unknown).replace(ids[1], "")


def test_a_filter_of_operations_finds_nothing_of_theirs(sides: tuple[Side, Side]) -> None:
    mine, theirs = sides
    window = {"since": "2000-01-01T00:00:00+00:00", "until": "2999-01-01T00:00:00+00:00"}
    answers = [
        mine.me.post(
            "operations/", {"verb": "recover", "filter": {**window, "endpoint": str(endpoint)}}
        )
        for endpoint in (theirs.things["endpoint_id"], uuid.uuid4())
    ]
    assert {answer.status_code for answer in answers} == {422}
    assert problem(answers[0])["detail"] == problem(answers[1])["detail"]
    of_dead = mine.me.post("operations/", {"verb": "resume", "filter": {"state": "dead"}})
    told = body(mine.me.get(f"operations/{body(of_dead)['id']}/items/"))["results"]
    assert [item["object_id"] for item in told] == [str(mine.things["job_id"])]


def test_what_is_on_their_record_about_a_job_of_mine_is_not_told_here(
    sides: tuple[Side, Side],
) -> None:
    """They may have tried its id; what they said then is theirs."""
    mine, theirs = sides
    job_id = mine.things["job_id"]
    record(
        actor=actor_of(theirs.me), action="job.cancel", workspace=theirs.me.workspace,
        object_type="job", object_id=job_id, reason="secret-of-rival",
    )  # fmt: skip
    emit("drill.told", theirs.me.workspace, str(job_id), {"said": "secret-of-rival"})
    for path in ("", "events/", "evidence/", "evidence/?format=md", "retry/"):
        answer = mine.me.get(f"jobs/{job_id}/{path}")
        assert answer.status_code == 200
        assert b"secret-of-rival" not in answer.content, path


def test_nothing_of_this_was_put_on_their_record(sides: tuple[Side, Side]) -> None:
    mine, theirs = sides
    before = AuditEvent.objects.filter(workspace=theirs.me.workspace).count()
    for verb in ("cancel", "resolve", "retry", "reconcile"):
        mine.me.post(f"jobs/{theirs.things['job_id']}/{verb}/", {"reason": "mine now"})
    assert AuditEvent.objects.filter(workspace=theirs.me.workspace).count() == before
    assert not AuditEvent.objects.filter(object_id=str(theirs.things["job_id"])).exclude(
        workspace=theirs.me.workspace
    )
