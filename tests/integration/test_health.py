"""The probes tell the truth and answer in time, whatever is down."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import F
from django.db.models.functions import Now
from django.test import Client
from pytest_django import Settings

from config.health import readiness
from jobs.models import Job, Upkeep
from jobs.sweep import UPKEEP
from jobs.worker import identity, unlimited
from tests.drills.kinds import noop
from tests.integration.kernel.acting import claimed_elsewhere
from tests.servers import Server, valkey
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db


@pytest.fixture
def fresh_upkeep() -> None:
    Upkeep.objects.create(name=UPKEEP, passed_at=Now(), by="a test")


@pytest.fixture
def broker(settings: Settings) -> Iterator[Server]:
    with valkey() as server:
        settings.REDIS_URL = server.url
        yield server


def test_live_answers_without_looking_at_anything(client: Client) -> None:
    response = client.get("/healthz/live", headers={"host": "10.0.0.7:8000"})
    assert response.status_code == 200
    assert response.json() == {"status": "ok", "checks": {}}


@pytest.mark.usefixtures("fresh_upkeep")
def test_ready_when_database_upkeep_and_broker_are_well(client: Client) -> None:
    response = client.get("/healthz/ready", headers={"host": "10.0.0.7:8000"})
    assert response.json() == {
        "status": "ok",
        "checks": {"database": "ok", "upkeep": "ok", "broker": "ok"},
    }
    assert response.status_code == 200
    assert response["Cache-Control"] == "no-store"


@pytest.mark.sqlite
def test_not_ready_before_the_first_upkeep_pass(client: Client) -> None:
    response = client.get("/healthz/ready")
    assert response.status_code == 503
    assert "ever made" in response.json()["checks"]["upkeep"]


@pytest.mark.sqlite
@pytest.mark.usefixtures("fresh_upkeep")
def test_not_ready_when_the_last_pass_is_thirty_seconds_old(client: Client) -> None:
    assert readiness()["upkeep"] == "ok"
    Upkeep.objects.update(passed_at=F("passed_at") - timedelta(seconds=31))
    response = client.get("/healthz/ready")
    assert response.status_code == 503
    assert "beat" in response.json()["checks"]["upkeep"]


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("inline", "by", "lease", "answer"),
    [
        (True, "me", 60, 200),
        (True, "me", -1, 503),
        (True, "somebody who is gone", 60, 503),
        (False, "me", 60, 503),
    ],
)
def test_inline_a_long_job_is_no_lack_of_upkeep(
    client: Client, settings: Settings, inline: bool, by: str, lease: int, answer: int
) -> None:
    """One thread makes the passes and runs the jobs."""
    settings.FIREDOOR_INLINE = inline
    settings.REDIS_URL = None
    name = identity() if by == "me" else f"{identity().rpartition('/')[0]}/0"
    acme = Workspace.objects.create(slug="acme", name="Acme")
    job = noop.s().enqueue(workspace=acme, key="k", countdown=60)
    until = Now() + timedelta(seconds=lease)
    claimed_elsewhere(job, worker=unlimited(name), lease_until=until)
    Upkeep.objects.create(name=UPKEEP, passed_at=Now() - timedelta(seconds=31), by=name)
    assert client.get("/healthz/ready").status_code == answer
    Job.objects.filter(pk=job.pk).update(worker="another")
    assert client.get("/healthz/ready").status_code == 503


@pytest.mark.sqlite
@pytest.mark.usefixtures("fresh_upkeep")
def test_not_ready_while_a_migration_is_missing(client: Client, settings: Settings) -> None:
    settings.REDIS_URL = None
    last = MigrationRecorder.Migration.objects.filter(app="jobs").order_by("-name")[0]
    MigrationRecorder.Migration.objects.create(app="jobs", name="9999_of_a_newer_release")
    assert client.get("/healthz/ready").status_code == 200
    last.delete()
    response = client.get("/healthz/ready")
    assert response.status_code == 503
    assert "manage.py migrate" in response.json()["checks"]["database"]


@pytest.mark.usefixtures("fresh_upkeep")
def test_not_ready_while_the_broker_is_frozen_or_gone(client: Client, broker: Server) -> None:
    assert client.get("/healthz/ready").status_code == 200
    broker.freeze()
    assert "broker" in client.get("/healthz/ready").json()["checks"]["broker"]
    broker.thaw()
    assert client.get("/healthz/ready").status_code == 200
    broker.stop()
    assert client.get("/healthz/ready").status_code == 503


@pytest.mark.usefixtures("fresh_upkeep")
def test_inline_mode_needs_no_broker(client: Client, settings: Settings) -> None:
    settings.REDIS_URL = None
    answer = client.get("/healthz/ready")
    assert answer.status_code == 200
    assert answer.json()["checks"] == {"database": "ok", "upkeep": "ok"}, "none was asked"


def test_not_ready_without_database_and_says_no_secret(client: Client) -> None:
    def refuse(*_arguments: object) -> None:
        raise OperationalError("connection to postgresql://user:hunter22@db failed")

    with connection.execute_wrapper(refuse):
        response = client.get("/healthz/ready")
    assert response.status_code == 503
    assert "DATABASE_URL" in response.json()["checks"]["database"]
    assert "hunter22" not in response.content.decode()


def test_only_reading_is_allowed(client: Client) -> None:
    assert client.post("/healthz/ready").status_code == 405


def test_the_run_uses_a_broker() -> None:
    assert settings.REDIS_URL
