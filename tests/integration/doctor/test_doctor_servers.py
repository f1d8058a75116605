"""What the doctor says of a broker and a database that are not as they should be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from celery import current_app
from django.conf import settings
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder
from kombu import pools
from pytest_django import Settings

from config.doctor.answer import Level
from config.doctor.clocks import judged
from config.doctor.examine import examine
from config.doctor.sight import Sight, Worker
from config.doctor.workers import FLOOD
from jobs.models import Upkeep
from jobs.sweep import UPKEEP, sweep
from tests.integration.doctor.asking import ago, asked, queued
from tests.servers import Server, valkey
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A broker that this test may spoil, where the doctor looks for one."""
    with valkey(durable=True) as server:
        monkeypatch.setenv("CELERY_BROKER_URL", server.url)
        _forget_connections()
        yield server
        _forget_connections()


def _forget_connections() -> None:
    """Let Celery open its pools anew: they stay at the broker that was there first."""
    app: Any = current_app
    pools.reset()
    app.amqp._producer_pool = app._pool = None


def wire(broker: Server) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(broker.folder / "valkey.sock"))


def test_a_broker_as_it_should_be(broker: Server) -> None:
    levels = {finding.code: finding.level for finding in examine(["broker."])}
    assert levels == {
        "broker.reachable": Level.OK,
        "broker.eviction": Level.OK,
        "broker.persistence": Level.OK,
        "broker.memory": Level.OK,
    }


@pytest.mark.parametrize(
    ("policy", "level"), [("allkeys-lru", Level.FAIL), ("volatile-ttl", Level.WARN)]
)
def test_a_broker_that_evicts(broker: Server, policy: str, level: Level) -> None:
    wire(broker).config_set("maxmemory-policy", policy)
    finding = asked("broker.eviction")
    assert finding.level is level
    assert policy in finding.sentence
    assert finding.command.endswith("config set maxmemory-policy noeviction")


def test_a_broker_that_forgets(broker: Server) -> None:
    wire(broker).config_set("appendonly", "no")
    finding = asked("broker.persistence")
    assert (finding.level, finding.command.split()[-3:]) == (
        Level.WARN,
        ["set", "appendonly", "yes"],
    )


def test_a_broker_that_fills_up(broker: Server) -> None:
    used = int(wire(broker).info("memory")["used_memory"])
    wire(broker).config_set("maxmemory", int(used / 0.7))
    assert asked("broker.memory").level is Level.WARN
    wire(broker).config_set("maxmemory", used)
    finding = asked("broker.memory")
    assert finding.level is Level.FAIL
    assert "info memory" in finding.command


@pytest.mark.parametrize("how", ["stop", "freeze"])
def test_a_broker_that_does_not_answer_ends_no_examination(broker: Server, how: str) -> None:
    getattr(broker, how)()
    findings = {finding.code: finding for finding in examine()}
    assert findings["broker.reachable"].level is Level.FAIL
    assert "broker.eviction" not in findings
    assert "workers.answer" not in findings
    assert findings["jobs.unpublished"].level is Level.OK
    assert findings["clock.skew"].level is Level.OK


def test_an_address_is_told_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://app:hunter22-canary@127.0.0.1:1/0")
    finding = asked("broker.reachable")
    assert finding.level is Level.FAIL
    assert "127.0.0.1:1" in finding.sentence
    assert "canary" not in str(finding)


def test_no_worker_answers(broker: Server) -> None:
    finding = asked("workers.answer")
    assert (finding.level, finding.command) == (Level.FAIL, "celery -A config inspect ping")


def worker(name: str = "w@a", **other: object) -> Worker:
    words: dict[str, object] = {
        "queues": frozenset(settings.FIREDOOR_QUEUES),
        "kinds": frozenset(task for task in current_app.tasks if not task.startswith("celery.")),
        "visibility": 3600,
    }
    return Worker(name, **{**words, **other})  # type: ignore[arg-type]


@pytest.fixture
def seen(broker: Server, monkeypatch: pytest.MonkeyPatch) -> list[Worker]:
    """The workers that answer; what real ones answer is tested with real ones."""
    workers: list[Worker] = [worker()]
    monkeypatch.setattr(Sight, "workers", property(lambda _sight: tuple(workers)))
    return workers


def test_workers_as_they_should_be(seen: list[Worker]) -> None:
    assert {f.level for f in examine(["workers.", "queues."])} == {Level.OK}


def test_a_queue_without_a_worker_fails_once_jobs_wait_there(
    seen: list[Worker], acme: Workspace
) -> None:
    seen[:] = [worker(queues=frozenset(settings.FIREDOOR_QUEUES) - {"default"})]
    finding = asked("queues.unserved")
    assert (finding.level, finding.rows) == (Level.WARN, ("default",))
    queued(acme)
    finding = asked("queues.unserved")
    assert finding.level is Level.FAIL
    assert "1 jobs" in finding.sentence
    assert finding.command == "celery -A config worker --queues default --hostname default@%h"


def test_a_worker_that_serves_no_queue_of_ours(seen: list[Worker]) -> None:
    seen.append(worker("stray@b", queues=frozenset({"defualt"})))
    finding = asked("workers.strangers")
    assert (finding.level, finding.rows) == (Level.WARN, ("stray@b",))


def test_a_worker_of_older_code(seen: list[Worker]) -> None:
    seen.append(worker("old@b", kinds=seen[0].kinds - {"drills.noop"}))
    finding = asked("workers.kinds")
    assert (finding.level, finding.rows) == (Level.WARN, ("old@b",))
    assert "old@b lacks drills.noop" in finding.sentence


def test_a_worker_with_a_visibility_timeout_of_its_own(seen: list[Worker]) -> None:
    seen.append(worker("odd@b", visibility=60))
    finding = asked("workers.visibility")
    assert (finding.level, finding.rows) == (Level.WARN, ("odd@b",))


def test_a_flooded_queue(seen: list[Worker], broker: Server) -> None:
    wire(broker).rpush("sync", *["{}"] * (FLOOD + 1))
    finding = asked("queues.length")
    assert (finding.level, finding.rows) == (Level.WARN, ("sync",))
    assert f"sync holds {FLOOD + 1} messages for 0 jobs" in finding.sentence


@pytest.mark.parametrize(
    ("seconds", "level"),
    [(0.4, Level.OK), (-1.9, Level.OK), (3.0, Level.WARN), (-40.0, Level.FAIL)],
)
def test_clocks_that_differ(seconds: float, level: Level) -> None:
    answer = judged({"this host": 0.1, "the broker": seconds})
    assert answer.level is level
    assert ("the broker" in answer.sentence) == (level is not Level.OK)
    assert ("behind" in answer.sentence) == (seconds < -2)


def test_clocks_of_one_machine_agree() -> None:
    assert asked("clock.skew").level is Level.OK


def test_a_database_that_forgets(acme: Workspace) -> None:
    finding = asked("database.durability")  # the tests' server syncs nothing, to be fast
    assert finding.level is Level.FAIL
    assert "fsync" in finding.sentence
    assert "SHOW fsync" in finding.command


def test_missing_and_unknown_migrations() -> None:
    assert asked("database.migrations").level is Level.OK
    recorder = MigrationRecorder(connection)
    recorder.record_applied("jobs", "9999_from_tomorrow")
    try:
        finding = asked("database.migrations")
        assert (finding.level, finding.rows) == (Level.WARN, ("jobs.9999_from_tomorrow",))
        recorder.record_unapplied("alerts", "0001_initial")
        finding = asked("database.migrations")
        assert (finding.level, finding.command) == (Level.FAIL, "manage.py migrate")
        assert "alerts.0001_initial" in finding.rows
        assert [f.code for f in examine(["jobs."])] == ["database.migrations"]
    finally:
        recorder.record_unapplied("jobs", "9999_from_tomorrow")
        recorder.record_applied("alerts", "0001_initial")


def test_connections_are_counted() -> None:
    finding = asked("database.connections")
    assert finding.level is Level.OK
    assert "of 197 connections are used; one of everything may open" in finding.sentence


def test_a_database_that_does_not_answer_ends_no_examination(settings: Settings) -> None:
    def refuse(*_arguments: object) -> None:
        raise OperationalError("connection to postgresql://app:hunter22-canary@db failed")

    with connection.execute_wrapper(refuse):
        findings = {finding.code: finding for finding in examine()}
    assert findings["database.reachable"].level is Level.FAIL
    assert findings["broker.reachable"].level is Level.OK
    assert not any(code.startswith("jobs.") for code in findings)
    assert "canary" not in str(findings)


@pytest.mark.sqlite
def test_upkeep_that_stopped(settings: Settings) -> None:
    sweep()
    assert asked("upkeep.age").level is Level.OK
    Upkeep.objects.filter(name=UPKEEP).update(passed_at=ago(minutes=2))
    Upkeep.objects.exclude(name=UPKEEP).delete()
    finding = asked("upkeep.age")
    assert finding.level is Level.FAIL
    helps = "manage.py serve" if settings.FIREDOOR_INLINE else "celery -A config beat --pidfile="
    assert finding.command == helps
