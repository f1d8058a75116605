"""Jobs that wait: behind a gate nobody asks the provider, and a deadline ends the waiting."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from django.db.models import F
from django.db.models.functions import Now

from alerts.models import Alert
from jobs import gates
from jobs.models import Attempt, Job
from tests.acceptance.stack import Stack
from tests.acceptance.watching import all_ended, holding, passes, process_in, taken
from tests.drills.asking import account_at, asks
from tests.drills.held import held
from tests.drills.kinds import noop
from tests.waiting import wait_until
from workspaces.models import Workspace


@dataclass
class Provider:
    """It says "in an hour" until it is ``open``, and notes every request."""

    url: str = ""
    open: bool = False
    requests: list[str] = field(default_factory=list)


@contextmanager
def provider() -> Iterator[Provider]:
    told = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.requests.append(self.path)
            self.send_response(200 if told.open else 429)
            self.send_header("Retry-After", "3600")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        told.url = f"http://127.0.0.1:{server.server_port}/"
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield told
        server.shutdown()


def test_behind_a_closed_gate_nobody_asks_the_provider(stack: Stack, workspace: Workspace) -> None:
    mine = Job.objects.filter(workspace=workspace)
    with provider() as bank:
        asks.s(url=bank.url).enqueue(workspace=workspace, key="first")
        wait_until(lambda: mine.filter(wait_reason="throttled").exists(), what="the gate closed")
        for number in range(12):
            asks.s(url=bank.url).enqueue(workspace=workspace, key=f"sibling-{number}")
        taken(stack)
        mine.update(wake_at=Now())
        wait_until(lambda: mine.filter(wait_reason="throttled").count() == 13, what="all wait")
        passes(3)
        assert len(bank.requests) == 1
        assert mine.filter(attempt=0, publishes=0).count() == 12
        bank.open = True
        assert gates.open_again(workspace.pk, account_at(url=bank.url))
        done = all_ended(list(mine))
    assert len(bank.requests) == 1 + 13
    assert {(job.state, job.failures) for job in done} == {("succeeded", 0)}
    assert Attempt.objects.filter(job__workspace=workspace).count() == 13


def test_a_deadline_that_passes_in_waiting_ends_the_job_with_an_alert(
    stack: Stack, workspace: Workspace
) -> None:
    gates.close(workspace.pk, account_at(url="nowhere"), seconds=3600, reason="maintenance")
    jobs = [
        noop.s().enqueue(workspace=workspace, key="scheduled", countdown=3600),
        asks.s(url="nowhere").enqueue(workspace=workspace, key="throttled"),
    ]
    mine = Job.objects.filter(workspace=workspace)
    mine.update(deadline_at=Now())
    done = all_ended(jobs)
    assert {(job.state, job.cause, job.attempt) for job in done} == {("dead", "deadline", 0)}
    assert mine.filter(finished_at__gte=F("deadline_at")).count() == 2
    wait_until(lambda: Alert.objects.filter(workspace=workspace, state="open").count() == 2)


def test_a_job_whose_message_a_busy_worker_took_ahead_is_run_by_an_idle_one(
    stack: Stack, workspace: Workspace, tmp_path: Path
) -> None:
    ledgers = [str(tmp_path / str(number)) for number in range(4)]
    with holding(*ledgers):
        busy = [held.s(ledger=path).enqueue(workspace=workspace, key=path) for path in ledgers]
        for path in ledgers:
            process_in(path, "work")
        behind = [noop.s().enqueue(workspace=workspace, key=str(n)) for n in range(4)]
        with stack.wire() as wire:
            wait_until(lambda: not wire.llen("default"), what="the messages are taken ahead")
        idle = stack.start_worker("idle")
        try:
            Job.objects.filter(pk__in=[job.pk for job in behind]).update(wake_at=Now())
            for job in all_ended(behind):
                assert (job.state, job.attempt) == ("succeeded", 1)
        finally:
            idle.stop()
    assert {job.state for job in all_ended(busy)} == {"succeeded"}
