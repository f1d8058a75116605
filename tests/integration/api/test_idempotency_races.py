"""Many at once, and a process that dies at any moment: one execution, or none."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import Group
from django.db import connection, connections, transaction
from django.db.models.functions import Now

from jobs.models import Job
from tests.integration.api.conftest import Caller, problem
from tests.integration.api.probe import Probe
from tests.integration.meanwhile import meanwhile
from workspaces import idempotency, sql
from workspaces.models import IdempotencyRecord

Callers = Callable[..., Caller]
KEY = {"idempotency_key": "the-key-1"}
ORDER = {"kind": "payments.charge", "params": {"order_id": "o-1", "cents": 4200}}
ROOT = Path(__file__).parents[3]


def at_once(count: int, send: Callable[[int], Any]) -> list[Any]:
    """What each of so many threads was answered."""

    def one(number: int) -> Any:
        try:
            return send(number)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def statuses(answers: list[Any]) -> set[int]:
    return {answer.status_code for answer in answers}


# --- while the first is at work ------------------------------------------------------------------


def test_while_one_is_at_work_the_others_are_told_to_come_back(
    caller: Callers, probe: type[Probe]
) -> None:
    """Same body or another: nobody can see yet what the first one's was."""
    me, started, told = caller(), Event(), Event()

    def act(_view: Probe) -> None:
        started.set()
        assert told.wait(60)

    probe.does(act)

    def send(number: int) -> Any:
        if number == 0:
            return me.post("probe/", {"name": "first"}, **KEY)
        assert started.wait(60)
        return me.post("probe/", {"name": "first" if number % 2 else "other"}, **KEY)

    with ThreadPoolExecutor(1) as alone:
        first = alone.submit(at_once, 1, send)
        others = at_once(6, lambda number: send(number + 1))
        told.set()
        (answered,) = first.result()
    after = at_once(4, lambda number: send(number + 1))

    assert (answered.status_code, statuses(others)) == (201, {409})
    assert {problem(other)["code"] for other in others} == {"idempotency_in_progress"}
    assert {problem(other)["retry"] for other in others} == {"same_key"}
    assert all(1 <= int(other["Retry-After"]) <= 5 for other in others)
    assert statuses(after) == {201, 422}
    assert len(probe.calls) == 1


def test_a_wait_is_bounded_with_a_key_and_without(caller: Callers, probe: type[Probe]) -> None:
    """Asked inside the work: how long a statement of it would wait for a lock."""
    seen = []

    def act(_view: Probe) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SHOW lock_timeout")
            seen.append(cursor.fetchone()[0])

    probe.does(act)
    me = caller()
    me.post("probe/", {"name": "a"})
    me.post("probe/", {"name": "b"}, **KEY)
    assert seen == ["2s", "2s"]


def test_when_the_first_is_rolled_back_the_one_that_waited_does_the_work(
    caller: Callers, probe: type[Probe]
) -> None:
    me, answers = caller(), list[Any]()
    me.post("probe/", {"name": "warm-up"}, idempotency_key="warm-up-key")

    with meanwhile(lambda: answers.append(me.post("probe/", {}, **KEY)), undone=True):
        copied_record("the-key-1")

    assert [(a.status_code, a["Idempotent-Replayed"]) for a in answers] == [(201, "false")]


def copied_record(key: str) -> None:
    """A record under ``key``, as a request that is at work holds it."""
    record = IdempotencyRecord.objects.get()
    record.pk, record.key = None, key
    record.save(force_insert=True)


def test_a_record_that_is_pruned_while_it_is_looked_for_is_made_anew(
    caller: Callers, probe: type[Probe]
) -> None:
    me, answers = caller(), list[Any]()
    me.post("probe/", {"name": "a"}, **KEY)
    with meanwhile(lambda: answers.append(me.post("probe/", {"name": "b"}, **KEY))):
        IdempotencyRecord.objects.all().delete()
    assert [(a.status_code, a["Idempotent-Replayed"]) for a in answers] == [(201, "false")]


@pytest.mark.sqlite
def test_a_record_that_vanishes_between_two_looks_is_made_anew(
    caller: Callers, probe: type[Probe], monkeypatch: pytest.MonkeyPatch
) -> None:
    me, insert, looks = caller(), idempotency._inserted, list[int]()

    def first_in_vain(asked: idempotency.Asked) -> int | None:
        looks.append(1)
        return None if len(looks) == 1 else insert(asked)

    monkeypatch.setattr(idempotency, "_inserted", first_in_vain)
    assert me.post("probe/", {}, **KEY).status_code == 201
    assert len(looks) == 2


@pytest.mark.sqlite
def test_of_twelve_who_find_an_expired_record_one_does_the_work(
    caller: Callers, probe: type[Probe]
) -> None:
    me = caller()
    me.post("probe/", {"name": "before"}, **KEY)
    IdempotencyRecord.objects.update(expires_at=Now() - timedelta(seconds=1))
    answers = at_once(12, lambda _n: me.post("probe/", {"name": "after"}, **KEY))
    assert statuses(answers) <= {201, 409}
    assert len(probe.calls) == 2
    assert IdempotencyRecord.objects.count() == 1


def test_whoever_finds_it_expired_leaves_alone_what_replaced_it_meanwhile(
    caller: Callers, probe: type[Probe], monkeypatch: pytest.MonkeyPatch
) -> None:
    me, look = caller(), sql.made
    me.post("probe/", {"name": "before"}, **KEY)
    IdempotencyRecord.objects.update(expires_at=Now() - timedelta(seconds=1))
    faster = [lambda: at_once(1, lambda _n: me.post("probe/", {"name": "after"}, **KEY))]
    answered = list[Any]()

    def made(model: Any, rows: Any) -> Any:
        found = list(look(model, rows))
        if model is IdempotencyRecord and faster:
            answered.extend(faster.pop()())
        return found

    monkeypatch.setattr(sql, "made", made)
    late = me.post("probe/", {"name": "after"}, **KEY)

    assert (statuses(answered), late.status_code) == ({201}, 409)
    assert problem(late)["code"] == "idempotency_in_progress"
    assert len(probe.calls) == 2
    assert me.post("probe/", {"name": "after"}, **KEY).content == answered[0].content


@pytest.mark.sqlite
def test_pruning_and_answering_get_along(caller: Callers, probe: type[Probe]) -> None:
    me = caller()
    me.post("probe/", {"name": "0"}, idempotency_key="the-key-0")
    IdempotencyRecord.objects.update(expires_at=Now() - timedelta(seconds=1))

    def work(number: int) -> Any:
        if number % 2:
            return idempotency.prune()
        return me.post("probe/", {"name": "again"}, idempotency_key="the-key-0").status_code

    answers = at_once(6, work)
    assert {a for n, a in enumerate(answers) if n % 2 == 0} <= {201, 409}
    assert len(probe.calls) == 2


def test_pruning_passes_over_a_record_that_somebody_holds(
    caller: Callers, probe: type[Probe]
) -> None:
    me = caller()
    for number in range(3):
        me.post("probe/", {"name": str(number)}, idempotency_key=f"the-key-{number}")
    IdempotencyRecord.objects.update(expires_at=Now() - timedelta(seconds=1))
    with transaction.atomic():
        IdempotencyRecord.objects.select_for_update().get(key="the-key-1")
        with ThreadPoolExecutor(1) as pool:
            gone = pool.submit(at_once, 1, lambda _n: idempotency.prune()).result(30)
    assert gone == [2]
    assert IdempotencyRecord.objects.get().key == "the-key-1"


# --- others in the way ---------------------------------------------------------------------------


def contention(state: str, times: int) -> Callable[[Probe], None]:
    left = [times]

    def act(_view: Probe) -> None:
        if left[0]:
            left[0] -= 1
            with connection.cursor() as cursor:
                cursor.execute(f"DO $$ BEGIN RAISE 'in the way' USING ERRCODE = '{state}'; END $$")

    return act


@pytest.mark.parametrize("state", ["40P01", "40001"], ids=["deadlock", "serialisation"])
def test_work_that_met_a_deadlock_is_done_again(
    caller: Callers, probe: type[Probe], state: str
) -> None:
    probe.does(contention(state, 2))
    assert caller().post("probe/", {}, **KEY).status_code == 201
    assert (len(probe.calls), Group.objects.count()) == (3, 1)


def test_work_that_meets_deadlocks_for_ever_is_given_up_and_the_key_is_free(
    caller: Callers, probe: type[Probe]
) -> None:
    probe.does(contention("40P01", 5))
    me = caller()
    first = me.post("probe/", {}, **KEY)
    left = IdempotencyRecord.objects.count()
    second = me.post("probe/", {}, **KEY)
    assert (first.status_code, problem(first)["retry"], left) == (503, "same_key", 0)
    assert (second.status_code, len(probe.calls)) == (201, 6)


def test_a_lock_that_is_held_for_long_is_busy_and_not_a_fault(
    caller: Callers, probe: type[Probe]
) -> None:
    Group.objects.create(name="held")
    probe.does(lambda _view: Group.objects.select_for_update().get(name="held").name and None)
    me = caller()
    with transaction.atomic():
        Group.objects.select_for_update().get(name="held")
        (answer,) = at_once(1, lambda _n: me.post("probe/", {}, **KEY))
    assert (answer.status_code, problem(answer)["code"]) == (503, "unavailable")
    assert not IdempotencyRecord.objects.exists()


def test_a_database_out_of_reach_is_told_before_anything_is_done(
    caller: Callers, probe: type[Probe]
) -> None:
    me = caller()
    with out_of_reach():
        answer = me.post("probe/", {}, **KEY)
    assert (answer.status_code, problem(answer)["code"]) == (503, "unavailable")
    assert probe.calls == []


class out_of_reach:  # noqa: N801  reads as the words it stands for
    """The block finds no server where the settings point."""

    def __enter__(self) -> None:
        connection.close()
        self.before = connections.settings["default"]["HOST"]
        connection.settings_dict["HOST"] = "/there/is/no/server"

    def __exit__(self, *_: object) -> None:
        connection.close()
        connection.settings_dict["HOST"] = self.before


# --- a process that dies -------------------------------------------------------------------------

_REQUEST = """
import json, os, signal, sys, django
django.setup()
from django.test import Client
from workspaces import idempotency, sql
from workspaces.http import idempotency as layer
from jobs.api.jobs import JobList

def dying(owner, name, before):
    real = getattr(owner, name)
    def dies(*args, **kwargs):
        if not before:
            real(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(owner, name, dies)

dying(*{
    "claimed": (idempotency, "claim", False),
    "worked": (idempotency, "answer", True),
    "answered": (idempotency, "answer", False),
    "committed": (layer, "_in_one_transaction", False),
}[sys.argv[1]])
Client().post(sys.argv[2], sys.argv[3], "application/json", headers=json.loads(sys.argv[4]))
"""


def killed(me: Caller, moment: str) -> None:
    """Send the order from a process of its own, which ends by SIGKILL at that moment."""
    command = [sys.executable, "-c", _REQUEST, moment, me.url("jobs/"), json.dumps(ORDER)]
    headers = {"Authorization": f"Bearer {me.secret}", "Idempotency-Key": "the-key-1"}
    environ = {
        **os.environ,
        "DATABASE_URL": database_url(),
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "ALLOWED_HOSTS": "testserver",
    }
    ended = subprocess.run(
        [*command, json.dumps(headers)],
        cwd=ROOT, env=environ, capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


def database_url() -> str:
    name = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        return f"sqlite:///{name}"
    return urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()


@pytest.mark.sqlite
@pytest.mark.parametrize("moment", ["claimed", "worked"])
def test_a_process_that_dies_before_the_commit_leaves_nothing_and_the_retry_works(
    caller: Callers, moment: str
) -> None:
    me = caller()
    killed(me, moment)
    left = (Job.objects.count(), IdempotencyRecord.objects.count())

    again = me.post("jobs/", ORDER, **KEY)

    assert left == (0, 0)
    assert (again.status_code, again["Idempotent-Replayed"]) == (201, "false")
    assert Job.objects.count() == 1


@pytest.mark.sqlite
def test_a_process_that_dies_as_the_answer_is_kept_leaves_all_or_nothing(caller: Callers) -> None:
    me = caller()
    killed(me, "answered")
    left = (Job.objects.count(), IdempotencyRecord.objects.count())

    again = me.post("jobs/", ORDER, **KEY)

    together = connection.vendor == "postgresql"  # where the answer and the COMMIT go out as one
    assert left == ((1, 1) if together else (0, 0))
    assert again["Idempotent-Replayed"] == ("true" if together else "false")
    assert (again.status_code, Job.objects.count()) == (201, 1)


@pytest.mark.sqlite
def test_a_process_that_dies_after_the_commit_is_repeated(caller: Callers) -> None:
    me = caller()
    killed(me, "committed")
    job = Job.objects.get()

    again = me.post("jobs/", ORDER, **KEY)

    assert (again.status_code, again["Idempotent-Replayed"]) == (201, "true")
    assert again.json()["id"] == str(job.pk)
    assert Job.objects.count() == 1


def test_a_wake_that_nobody_could_send_changes_no_answer(
    caller: Callers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker is out of reach: the row is there, and the upkeep pass wakes it."""
    from jobs import publish, tasks

    monkeypatch.setenv("CELERY_BROKER_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setattr(tasks, "_local", type(tasks._local)())
    monkeypatch.setattr(publish._Broker, "skip_until", 0.0)
    me = caller()
    first = me.post("jobs/", ORDER, **KEY)
    again = me.post("jobs/", ORDER, **KEY)
    assert (first.status_code, again.content) == (201, first.content)
    assert "broker.unreachable" in caplog.text
    assert Job.objects.get().state == "queued"
