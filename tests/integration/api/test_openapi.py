"""The schema: true, complete, and read by people and programs without a foreign byte."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, given, settings
from pytest_django.live_server_helper import LiveServer
from rest_framework import serializers
from schemathesis import GenerationMode
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from tests.integration.api.conftest import Caller
from tests.integration.api.routes import EVERY, things_of
from tests.integration.api.shapes import faults
from workspaces.http.authentication import counter_of
from workspaces.http.examples import example_of
from workspaces.models import Workspace
from workspaces.permissions import Role

Callers = Callable[..., Caller]
ROOT = Path(__file__).parents[3]
EXAMPLES = 12
OURS = "http://testserver"
GIVEN_HERE = {ParameterLocation.PATH, ParameterLocation.HEADER}


def _by_status(declared: Any) -> Iterator[tuple[Any, Any]]:
    """Of what a view declares for a method the classes, each with its status if it has one."""
    for place, cls in declared.items() if isinstance(declared, dict) else [(None, declared)]:
        if isinstance(cls, type) and issubclass(cls, serializers.BaseSerializer):
            yield place[0] if isinstance(place, tuple) else place, cls


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return str(tmp_path / "ledger")


def test_it_is_valid_with_nothing_guessed_and_the_docs_have_it(tmp_path: Path) -> None:
    written = tmp_path / "openapi.yaml"
    call_command("spectacular", validate=True, fail_on_warn=True, file=str(written))
    assert (ROOT / "docs/openapi.yaml").read_text() == written.read_text()


DECLARED = [
    (str(route), way, status, cls)
    for route in EVERY
    for way in ("takes", "gives")
    for status, cls in _by_status(getattr(route.view, way, {}).get(route.method))
]


@pytest.mark.parametrize(("route", "way", "status", "declared"), DECLARED, ids=str)
def test_every_body_and_every_answer_has_an_example_that_is_one(
    route: str, way: str, status: Any, declared: Any
) -> None:
    example = json.loads(
        json.dumps(example_of(declared, status)).replace("https://ops.example.com", OURS)
    )
    assert example is not None, f"{declared.__name__} has none in the examples.json beside it"
    if way == "gives":
        assert faults(declared(), example) == []
    else:
        sent = declared(data=example)
        assert sent.is_valid(), sent.errors


def test_the_schema_tells_the_examples() -> None:
    schema: Any = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    told = schema["paths"]["/api/v1/workspaces/{slug}/jobs/"]["post"]
    sent = told["requestBody"]["content"]["application/json"]["examples"]
    assert [one["value"]["kind"] for one in sent.values()] == ["payments.charge"]
    created = [
        one["value"]["created"]
        for status in ("201", "200")
        for one in told["responses"][status]["content"]["application/json"]["examples"].values()
    ]
    assert created == [True, False]


@pytest.mark.sqlite
def test_it_takes_a_token_or_a_session(caller: Callers, transactional_db: None) -> None:
    User.objects.create_user("ana", password="x", is_staff=True)
    console, nobody = Client(), Client()
    console.login(username="ana", password="x")
    assert nobody.get("/api/schema/").status_code == 401
    assert json.loads(console.get("/api/schema/").content)["openapi"] == "3.0.3"
    assert caller(Role.VIEWER).get("/api/schema/").status_code == 200
    assert console.get("/api/v1/workspaces/acme/jobs/").status_code == 401


@pytest.mark.sqlite
def test_the_page_for_people_needs_nothing_from_elsewhere(transactional_db: None) -> None:
    User.objects.create_user("ana", password="x", is_staff=True)
    console = Client()
    assert console.get("/api/docs/").status_code == 302
    console.login(username="ana", password="x")
    response = console.get("/api/docs/")
    page = response.content.decode()
    assert "POST /api/v1/workspaces/{slug}/jobs/{job_id}/retry/" in page
    assert "&quot;kind&quot;: &quot;payments.charge&quot;" in page
    assert "<script" not in page
    assert re.findall(r'(?:src|href)="(?!/|#)', page) == []
    assert "default-src 'none'" in response["Content-Security-Policy"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_the_server_keeps_to_it_whatever_it_is_sent(
    mode: GenerationMode, caller: Callers, acme: Workspace, live_server: LiveServer, ledger: str
) -> None:
    """Requests that the schema allows, and ones that it does not: no fault of ours, no surprise."""
    me = caller(Role.ADMIN)
    schema = schemathesis.openapi.from_dict(json.loads(me.get("/api/schema/").content))
    known = {"slug": acme.slug, **{name: str(one) for name, one in things_of(acme, ledger).items()}}
    operations: list[Any] = [found.ok() for found in schema.get_all_operations()]  # type: ignore[union-attr]
    # Closing the workspace would end the token that all others are tried with.
    operations.sort(key=lambda operation: operation.path.endswith("/close/"))
    for operation in operations:
        cache.clear()  # bad tokens are sent on purpose, and counted
        _tried(operation, mode, known, live_server.url, me.secret)
    assert len(operations) >= 8


def _tried(
    operation: Any, mode: GenerationMode, known: dict[str, str], url: str, secret: str
) -> None:
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        cache.delete(counter_of("127.0.0.1"))  # it tries bad tokens too, more than are let try
        names = set(case.path_parameters or {})
        case.path_parameters = {name: known[name] for name in names}
        case.call_and_validate(
            base_url=url,
            headers={**dict(case.headers or {}), "Authorization": f"Bearer {secret}"},
            excluded_checks=_not_asked(case),
        )

    send()


def _not_asked(case: Any) -> list[Any]:
    """No schema says which kinds there are; and a wrong id or token was made right by us."""
    wrong = {
        place for place, how in case.meta.components.items() if how.mode is GenerationMode.NEGATIVE
    }
    spoilt = bool(wrong & GIVEN_HERE)
    return [positive_data_acceptance, *([negative_data_rejection] if spoilt else [])]
