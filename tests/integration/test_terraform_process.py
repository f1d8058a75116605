"""Supervised runs outlive their worker, are started once, and are interrupted once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from provisioning.terraform import host, process, records
from provisioning.terraform.errors import AlreadyStarted
from provisioning.terraform.fate import Life, group_is_empty, look, seal, start_of
from provisioning.terraform.process import Command
from tests.support.terraform import ROOT
from tests.waiting import wait_until


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "attempt/run"


def shell(tmp_path: Path, script: str, **environ: str) -> Command:
    path = {"PATH": os.environ["PATH"]}
    return Command(("/bin/sh", "-c", script), tmp_path, {**path, **environ})


def hold(tmp_path: Path) -> Path:
    file = tmp_path / "hold"
    file.touch()
    return file


HELD = "while [ -e hold ]; do sleep 0.02; done"
POLITE = f"trap 'echo Interrupt received >> said; exit 3' INT; echo ready; {HELD}"


def supervisor(run: Path) -> host.Process:
    start = start_of(run)
    assert start is not None
    return start.supervisor


def test_a_command_runs_to_its_end_and_its_exit_is_on_record(tmp_path: Path, run: Path) -> None:
    fate = process.finish(run, shell(tmp_path, "echo out; echo err >&2; pwd; exit 5"), seconds=30)

    assert (fate.life, fate.rc) == (Life.ENDED, 5)
    assert (run / records.STDOUT).read_text() == f"out\n{tmp_path}\n"
    assert (run / records.STDERR).read_text() == "err\n"
    wait_until(lambda: group_is_empty(run))


def test_the_tool_sees_exactly_its_environment_and_no_stdin(tmp_path: Path, run: Path) -> None:
    process.finish(run, shell(tmp_path, "env; cat; readlink /proc/$$/fd/0", SECRET="x"), seconds=30)

    lines = (run / records.STDOUT).read_text().splitlines()
    names = {line.partition("=")[0] for line in lines[:-1]}
    of_the_shell = {"PWD", "OLDPWD", "SHLVL", "_"}
    assert names - of_the_shell == {"PATH", "SECRET", host.MARKER}
    assert lines[-1] == "/dev/null"


def test_what_it_prints_is_private(tmp_path: Path, run: Path) -> None:
    process.finish(run, shell(tmp_path, "echo secret"), seconds=30)

    assert (run / records.STDOUT).stat().st_mode & 0o777 == 0o600
    assert run.stat().st_mode & 0o777 == 0o700


def test_a_command_that_cannot_be_executed_never_started(tmp_path: Path, run: Path) -> None:
    process.start(run, Command(("/no/such/tool",), tmp_path, {}))
    fate = process.wait(run, 30)

    assert fate.life is Life.NEVER
    assert "FileNotFoundError" in fate.reason
    wait_until(lambda: group_is_empty(run))


def test_a_run_is_started_once(tmp_path: Path, run: Path) -> None:
    process.finish(run, shell(tmp_path, "echo once >> effects"), seconds=30)

    with pytest.raises(AlreadyStarted) as refused:
        process.start(run, shell(tmp_path, "echo twice >> effects"))

    assert refused.value.code == "already_started"
    assert (tmp_path / "effects").read_text() == "once\n"


def test_of_many_starters_one_wins(tmp_path: Path, run: Path) -> None:
    refused: list[AlreadyStarted] = []

    def begin() -> None:
        try:
            process.start(run, shell(tmp_path, "echo once >> effects"))
        except AlreadyStarted as error:
            refused.append(error)

    threads = [Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    process.wait(run, 30)

    assert len(refused) == 7
    assert (tmp_path / "effects").read_text() == "once\n"


def test_a_sealed_run_never_starts(tmp_path: Path, run: Path) -> None:
    assert seal(run)
    assert seal(run)

    with pytest.raises(AlreadyStarted):
        process.start(run, shell(tmp_path, "echo >> effects"))

    assert look(run).life is Life.NEVER
    assert not (tmp_path / "effects").exists()


def test_a_supervisor_that_comes_after_the_seal_does_not_start_the_tool(
    tmp_path: Path, run: Path
) -> None:
    # The worker was paused after it had made the directory; an observer sealed the run since.
    seal(run)
    spoken = {"argv": ["/bin/sh", "-c", "touch effects"], "cwd": str(tmp_path), "environ": {}}

    late = subprocess.run(
        [sys.executable, "-m", "provisioning.terraform.supervisor", run],
        input=json.dumps({**spoken, "marker": "m"}).encode(),
        cwd=ROOT,
        check=False,
    )

    assert late.returncode == 1
    assert not (tmp_path / "effects").exists()


def test_a_run_that_has_started_cannot_be_sealed(tmp_path: Path, run: Path) -> None:
    process.finish(run, shell(tmp_path, "exit 0"), seconds=30)

    assert not seal(run)
    assert look(run).life is Life.ENDED


def test_it_outlives_the_worker_that_started_it(tmp_path: Path, run: Path) -> None:
    held = hold(tmp_path)
    script = (
        "import sys, json; from pathlib import Path; from provisioning.terraform import process\n"
        "run, cwd = map(Path, sys.argv[1:]); command = process.Command(\n"
        f"    ('/bin/sh', '-c', {HELD!r} + '; echo done'), cwd, {{'PATH': '/usr/bin:/bin'}})\n"
        "process.start(run, command); print('up', flush=True); process.wait(run, 60)"
    )
    worker = subprocess.Popen(
        [sys.executable, "-c", script, run, tmp_path], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert worker.stdout is not None
    with worker.stdout:
        assert worker.stdout.readline() == b"up\n"
        worker.kill()
        worker.wait()
    assert look(run).life is Life.RUNNING
    assert group_is_empty(run) is False

    held.unlink()
    fate = process.wait(run, 30)

    assert (fate.life, fate.rc) == (Life.ENDED, 0)
    assert (run / records.STDOUT).read_text() == "done\n"


def test_signals_to_the_supervisor_do_not_reach_the_tool(tmp_path: Path, run: Path) -> None:
    held = hold(tmp_path)
    process.start(run, shell(tmp_path, POLITE))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        host.send(supervisor(run), number)

    held.unlink()

    assert process.wait(run, 30).rc == 0
    assert not (tmp_path / "said").exists()


def test_one_interrupt_is_sent_and_never_a_second(tmp_path: Path, run: Path) -> None:
    held = hold(tmp_path)
    stubborn = f"trap 'echo got >> said' INT; echo ready; {HELD}"
    process.start(run, shell(tmp_path, stubborn))
    wait_until(lambda: process.interrupt(run))

    assert not process.interrupt(run)
    assert process.was_interrupted(run)
    wait_until(lambda: (tmp_path / "said").exists())
    held.unlink()
    process.wait(run, 30)

    assert (tmp_path / "said").read_text() == "got\n"
    assert not process.interrupt(run)


def test_a_tool_that_was_interrupted_by_somebody_else_gets_no_second_one(
    tmp_path: Path, run: Path
) -> None:
    held = hold(tmp_path)
    process.start(run, shell(tmp_path, f"echo Interrupt received; trap 'touch said' INT; {HELD}"))
    wait_until(lambda: (run / records.STDOUT).read_bytes())

    assert not process.interrupt(run)
    held.unlink()
    process.wait(run, 30)

    assert not (tmp_path / "said").exists()
    assert not process.was_interrupted(run)


def test_a_tool_that_has_not_spoken_is_not_interrupted(tmp_path: Path, run: Path) -> None:
    held = hold(tmp_path)
    process.start(run, shell(tmp_path, HELD))

    assert not process.interrupt(run)
    held.unlink()

    assert process.wait(run, 30).rc == 0


def test_time_is_up_means_interrupted_then_killed(tmp_path: Path, run: Path) -> None:
    hold(tmp_path)
    deaf = f"trap 'echo got >> said' INT; echo ready; {HELD}"

    fate = process.finish(run, shell(tmp_path, deaf), seconds=0.5, grace=0.5)

    assert (fate.life, fate.rc) == (Life.ENDED, -signal.SIGKILL)
    assert (tmp_path / "said").read_text() == "got\n"
    wait_until(lambda: group_is_empty(run))  # the killed may be a moment dying


@pytest.mark.parametrize("left", ["sleep 60 &", "setsid sleep 60 &", "(setsid nohup sleep 60 &) &"])
def test_what_the_tool_left_behind_is_seen_and_killed(tmp_path: Path, run: Path, left: str) -> None:
    fate = process.finish(run, shell(tmp_path, f"{left} echo ready; exit 0"), seconds=30)

    assert fate.life is Life.ENDED
    assert group_is_empty(run) is False
    process.kill(run)
    wait_until(lambda: group_is_empty(run))


def test_a_dead_supervisor_leaves_an_orphan_and_then_nothing_on_record(
    tmp_path: Path, run: Path
) -> None:
    held = hold(tmp_path)
    process.start(run, shell(tmp_path, HELD))
    host.send(supervisor(run), signal.SIGKILL)

    assert process.wait(run, 30).life is Life.ORPHANED
    assert group_is_empty(run) is False
    assert not seal(run)
    held.unlink()
    wait_until(lambda: group_is_empty(run))

    assert look(run).life is Life.LOST


def test_a_run_of_another_boot_is_unknown_here(tmp_path: Path, run: Path) -> None:
    process.finish(run, shell(tmp_path, "exit 0"), seconds=30)
    record = records.read(run / records.START)
    assert record is not None
    record["place"]["boot"] = "another"
    records.write_whole(run / records.START, record)

    assert look(run).life is Life.ENDED
    assert group_is_empty(run) is None
    (run / records.EXIT).unlink()
    assert look(run).life is Life.UNKNOWN
    assert not process.interrupt(run)


@pytest.mark.parametrize("broken", ["", "[]", "{}", '{"place": 3}', '{"rc": "x"}'])
def test_a_broken_record_is_unknown_never_nothing(tmp_path: Path, run: Path, broken: str) -> None:
    process.finish(run, shell(tmp_path, "exit 0"), seconds=30)
    (run / records.EXIT).unlink()
    (run / records.START).write_text(broken)

    assert look(run).life is Life.UNKNOWN
    assert group_is_empty(run) is None
    assert not seal(run)


def test_a_pid_that_belongs_to_somebody_else_now_is_not_ours() -> None:
    me = host.process(os.getpid())
    assert me is not None
    earlier = replace(me, ticks=me.ticks - 1)

    assert host.is_alive(me)
    assert not host.is_alive(earlier)
    assert not host.send(earlier, signal.SIGKILL)
    assert host.members(earlier, "no-such-marker") == frozenset()


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen(["/bin/true"])
    wait_until(lambda: host.process(child.pid) is None)

    assert not host.is_alive(host.Process(child.pid, 0))
    child.wait()


def test_what_the_waiting_raises_passes_through_and_the_run_goes_on(
    tmp_path: Path, run: Path
) -> None:
    held = hold(tmp_path)
    process.start(run, shell(tmp_path, HELD))

    def lease_lost() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        process.wait(run, 30, until=lease_lost)
    assert look(run).life is Life.RUNNING
    held.unlink()

    assert process.wait(run, 30).rc == 0
