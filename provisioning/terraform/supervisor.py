"""Who stays with the tool when the worker dies?

`python -m provisioning.terraform.supervisor RUN` with `{argv, cwd, environ, marker}` as JSON on
stdin. It leads a session of its own, so that neither the worker's death nor a signal to the
worker's group reaches the tool. In this order:

1. start.json, exclusively: a run that was started or forbidden before ends here, untouched;
2. the tool, in a process group of its own, on files, with /dev/null as stdin;
3. tool.json, then stdout is closed: the worker that waits for it knows that all is recorded;
4. exit.json when the tool has ended: the record that outlives the worker.

Not promised: SIGKILL of the supervisor itself loses the exit code, and so does a full disk. Both
leave a run without exit.json, which is read as *lost*, never as *nothing happened*.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from provisioning.terraform import host, records


def main() -> int:
    """Run one command to its end and write down what became of it."""
    _outlive_polite_signals()
    run = Path(sys.argv[1])
    command: dict[str, Any] = json.load(sys.stdin)
    me = _myself()
    try:
        records.write_new(run / records.START, _start_record(command, me))
    except FileExistsError:
        return 1
    tool = _launch(run, command)
    if tool is None:
        return 0
    started = host.process(tool.pid)
    ticks = 0 if started is None else started.ticks
    records.write_whole(run / records.TOOL, {"pid": tool.pid, "ticks": ticks})
    _tell_the_worker()
    code = tool.wait()
    survivors = sorted(host.members(me, command["marker"]))
    records.write_whole(
        run / records.EXIT, {"rc": code, "survivors": survivors, "ended_at": _now()}
    )
    return 0


def _outlive_polite_signals() -> None:
    # A handler, not SIG_IGN: what is ignored stays ignored in the tool, a handler does not.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)


def _myself() -> host.Process:
    me = host.process(os.getpid())
    if me is None:
        raise RuntimeError("this process is not in /proc")
    return me


def _start_record(command: dict[str, Any], me: host.Process) -> dict[str, Any]:
    return {
        "place": asdict(host.here()),
        "supervisor": asdict(me),
        "marker": command["marker"],
        "argv": command["argv"],
        "started_at": _now(),
    }


def _launch(run: Path, command: dict[str, Any]) -> subprocess.Popen[bytes] | None:
    private = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND
    out, err = (os.open(run / name, private, 0o600) for name in (records.STDOUT, records.STDERR))
    try:
        return subprocess.Popen(
            command["argv"],
            cwd=command["cwd"],
            env=command["environ"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            process_group=0,
        )
    except OSError as error:
        reason = f"{type(error).__name__}: {error.strerror}"
        records.write_whole(run / records.EXIT, {"not_started": reason, "ended_at": _now()})
        return None
    finally:
        os.close(out)
        os.close(err)


def _tell_the_worker() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _now() -> str:
    return datetime.now(UTC).isoformat()


if __name__ == "__main__":
    sys.exit(main())
