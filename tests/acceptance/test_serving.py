"""``manage.py serve`` and what it starts: how they end, and what is said when they cannot begin."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.acceptance.stack import ROOT, Stack
from tests.acceptance.watching import holding, process_in
from tests.drills.held import held
from tests.servers.process import family
from tests.waiting import wait_until
from workspaces.models import Workspace

pytestmark = pytest.mark.timeout(300)
MANAGE = [sys.executable, str(ROOT / "manage.py")]
ON_ANY_PORT = [*MANAGE, "serve", "--bind", "127.0.0.1:0"]
PARTS = ("web", "beat", "worker-default")
SUPERVISE = f"""
import sys, django
django.setup()
from config import serving
commands = {{name: serving.processes(0)[name] for name in {PARTS!r}}}
commands["web"] = [word.replace("fd://0", "127.0.0.1:0") for word in commands["web"]]
sys.exit(serving.supervise(commands, say=print))
"""
ENQUEUE = """
from tests.drills.held import held
from workspaces.models import Workspace
acme = Workspace.objects.create(slug="acme", name="Acme")
held.s(ledger={ledger!r}).enqueue(workspace=acme, key="k", countdown=1)
"""


def ended(pid: int) -> bool:
    """Whether a process executes nothing any more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@contextmanager
def started(
    command: list[str], environment: dict[str, str], log: Path = Path(os.devnull)
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own; it and all that it started are gone after the block."""
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command, env=environment, cwd=ROOT, stderr=errors, start_new_session=True
        )
    seen: list[int] = []
    try:
        yield process
        seen = family(process.pid)
    finally:
        for pid in seen or family(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


# --- with a broker -------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_whatever_ends_the_supervisor_all_its_parts_stop_in_order(
    stack: Stack, workspace: Workspace, ledger: str, number: signal.Signals
) -> None:
    """A running job stops at its next step and uses no budget."""
    stack.worker.stop()
    with started([sys.executable, "-c", SUPERVISE], {
        **stack.environment, "DJANGO_SETTINGS_MODULE": "config.settings"
    }) as supervisor, holding(ledger):  # fmt: skip
        job = held.s(ledger=ledger).enqueue(workspace=workspace, key="k")
        at_work = process_in(ledger, "work")
        parts = family(supervisor.pid)[1:]
        assert at_work in parts
        os.kill(supervisor.pid, number)
        if number is signal.SIGKILL:
            supervisor.wait()
        idle = [pid for pid in parts if _name(pid).endswith(("beat --pidfile=",))]
        wait_until(lambda: all(map(ended, idle)), what="beat has stopped")
        assert not ended(at_work), "its step is let end"
        Path(f"{ledger}.hold").unlink()
        wait_until(lambda: all(map(ended, parts)), 60, "all have stopped")
        Path(f"{ledger}.hold").touch()
    job.refresh_from_db()
    told = (job.state, job.wait_reason, job.failures, job.losses)
    assert told == ("queued", "interrupted", 0, 0)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    except OSError:
        return ""


# --- without one ---------------------------------------------------------------------------------


def alone(var: Path) -> dict[str, str]:
    """The environment of a person's machine."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "FIREDOOR_VAR": str(var),
        "FIREDOOR_EXTRA_APPS": "tests.drills",
    }


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    var = tmp_path_factory.mktemp("migrated")
    subprocess.run([*MANAGE, "migrate", "--verbosity", "0"], env=alone(var), check=True)
    return var


@pytest.fixture
def machine(migrated: Path, tmp_path: Path) -> dict[str, str]:
    """Such a machine, with a database of its own that is migrated."""
    shutil.copytree(migrated, tmp_path / "var")
    return alone(tmp_path / "var")


def row(machine: dict[str, str]) -> tuple[object, ...]:
    """What the only job says."""
    with closing(sqlite3.connect(f"{machine['FIREDOOR_VAR']}/firedoor.sqlite3")) as database:
        found = database.execute("SELECT state, wait_reason, failures, losses FROM jobs_job")
        return tuple(found.fetchone())


@pytest.mark.parametrize(
    ("number", "send"),
    [
        (signal.SIGHUP, os.killpg),
        (signal.SIGINT, os.killpg),
        (signal.SIGKILL, os.kill),
    ],
)
def test_inline_a_stop_lets_the_step_end_and_gives_the_job_back(
    machine: dict[str, str],
    ledger: str,
    tmp_path: Path,
    number: signal.Signals,
    send: Callable[[int, int], None],
) -> None:
    """Sent to the whole group, as a terminal does, or to the first process alone."""
    log = tmp_path / "log"
    enqueue = [*MANAGE, "shell", "--verbosity", "0", "-c", ENQUEUE.format(ledger=ledger)]
    subprocess.run(enqueue, env=machine, check=True)
    with started(ON_ANY_PORT, machine, log) as serve, holding(ledger):
        at_work = process_in(ledger, "work")
        send(serve.pid, number)
        wait_until(lambda: "Worker exiting" in log.read_text(), what="the stop has reached it")
        Path(f"{ledger}.hold").unlink()
        serve.wait(40)
        wait_until(lambda: ended(at_work), 40, "the process that worked has ended")
        Path(f"{ledger}.hold").touch()
    assert row(machine) == ("queued", "interrupted", 0, 0)


def test_what_cannot_begin_says_why_and_nothing_else(machine: dict[str, str]) -> None:
    def tried(*words: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [*MANAGE, "serve", *words],
            env=machine,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        code, out, error = tried("--bind", bind)
    assert (code, out) == (1, "")
    assert f"{bind} cannot be listened on" in error
    assert "PORT=8001" in error
    code, out, error = tried("--bind", "nonsense")
    assert (code, out) == (1, "")
    assert "HOST:PORT" in error
    with started(ON_ANY_PORT, machine):
        note = Path(machine["FIREDOOR_VAR"], "registry.url")
        wait_until(note.exists, 60, "it serves")
        before = note.read_text()
        code, out, error = tried("--bind", "127.0.0.1:0")
        assert (code, out, note.read_text()) == (1, "", before)
        assert "another `manage.py serve` runs" in error
        assert "Traceback" not in error
