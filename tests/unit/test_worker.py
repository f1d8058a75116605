"""Who a worker is, and when it is surely gone: only what this process can see for itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from jobs import worker
from jobs.worker import identity, is_alive, is_gone, is_limited, of_earlier_boot, unlimited

SAY_WHO = "from jobs.worker import identity; print(identity(), flush=True)"


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    """A process that says who it is and lives until its input closes."""
    code = f"{SAY_WHO}; input()"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return str(process.stdout.readline()).strip()


def test_a_worker_names_host_boot_namespace_process_and_start() -> None:
    parts = identity().split("/")
    assert len(parts) == 5
    assert all(parts)
    assert identity() == identity()


def test_this_process_is_not_gone() -> None:
    assert not is_gone(identity())


def test_a_child_is_another_worker_until_it_ends(other: subprocess.Popen[str]) -> None:
    name = said(other)
    alive = is_gone(name)
    other.kill()
    assert other.stdin is not None
    zombie = name  # not waited for yet: it has a pid, and does nothing any more
    while other.poll() is None:
        assert not alive
    assert (name != identity(), alive, is_gone(zombie)) == (True, False, True)
    assert not is_alive(zombie)


def test_one_that_nothing_ends_at_its_limit_is_found_alike() -> None:
    name = unlimited(identity())
    another = unlimited(f"{identity().rpartition('/')[0]}/1")
    assert (is_limited(identity()), is_limited(name)) == (True, False)
    assert (is_alive(name), is_gone(name)) == (True, False)
    assert (is_alive(another), is_gone(another)) == (False, True)


def test_an_earlier_boot_is_one_of_a_host_of_this_name() -> None:
    host, _boot, *rest = identity().split("/")
    assert of_earlier_boot("/".join((host, "another", *rest)))
    assert not of_earlier_boot(identity())
    assert not of_earlier_boot("/".join(("elsewhere", "another", *rest)))
    assert not of_earlier_boot("/".join((host, "-", *rest)))


def test_a_zombie_counts_as_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", SAY_WHO], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    name = process.stdout.read().strip()  # its end closes the pipe; nobody has waited for it
    pid = process.pid
    with open(f"/proc/{pid}/stat") as stat:
        while stat.read().rpartition(")")[2].split()[0] != "Z":
            stat.seek(0)
    process.stdout.close()
    gone = is_gone(name)
    process.wait()
    assert gone


def test_a_pid_that_was_given_to_another_process_is_not_taken_for_it() -> None:
    assert is_gone(f"{identity().rpartition('/')[0]}/1")


@pytest.mark.parametrize("part", [0, 1, 2], ids=["host", "boot", "namespace"])
def test_of_another_place_nothing_is_known(part: int) -> None:
    parts = identity().split("/")
    parts[part] = "another"
    parts[4] = "1"
    assert not is_gone("/".join(parts))
    assert not is_alive("/".join(parts))


@pytest.mark.parametrize(
    "name", ["", "w", "a/b/c/d", "a/b/c/d/e", "h/b/1/-5/1", "h/b/1/x/1", "-/-/-/-/-"]
)
def test_nonsense_is_never_gone(name: str) -> None:
    assert not is_gone(name)
    assert not is_alive(name)
    assert not of_earlier_boot(name)


def test_a_process_that_one_may_not_look_at_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With /proc mounted hidepid=2, others' processes are invisible there and alive."""

    def forbidden(_pid: int, _signal: int) -> None:
        raise PermissionError

    parts = identity().split("/")  # before it would be remembered without its start
    parts[3], parts[4] = "4000000", "1"
    monkeypatch.setattr(worker, "_start_ticks", lambda pid: "-")
    monkeypatch.setattr("jobs.worker.os.kill", forbidden)
    assert not is_gone("/".join(parts))


def test_where_there_is_no_proc_a_worker_is_unknown_and_never_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr("jobs.worker.Path.read_text", missing)
    monkeypatch.setattr("jobs.worker.os.readlink", missing)
    identity.cache_clear()
    try:
        name = identity()
        assert name.split("/")[1:3] == ["-", "-"]
        assert not is_gone(name)
    finally:
        identity.cache_clear()
