"""The worker dies, the tool is killed, interrupted or overtaken: what is told, what is left?"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from provisioning.terraform import host, process, records
from provisioning.terraform.apply import RUN
from provisioning.terraform.binary import Binary
from provisioning.terraform.classify import Class
from provisioning.terraform.errors import AlreadyStarted
from provisioning.terraform.fate import Life, group_is_empty, look, start_of
from provisioning.terraform.observe import Verdict, observe
from provisioning.terraform.plan import Plan
from provisioning.terraform.prepare import prepare
from provisioning.terraform.stack import Stack
from provisioning.terraform.state import StateMark, read_file
from provisioning.terraform.stream import Progress, read
from tests.support.terraform import ROOT, Site, in_flight, real_tool
from tests.waiting import wait_until

ALL = ["acme network created", "acme database created", "acme app created"]
WORKER = """
import json, sys
from pathlib import Path
from provisioning.terraform.apply import apply
from provisioning.terraform.binary import Binary
from provisioning.terraform.stack import Backend, Stack
given = json.loads(sys.stdin.read())
tool = Binary(Path(given["tool"]), given["version"])
stack = Stack(tool, Path(given["module"]), Backend.local(Path(given["state"])), given["variables"])
apply(stack, Path(given["folder"]), Path(given["plan"]), sha256=given["sha256"],
      module_sha256=given["module_sha256"], seconds=60)
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path, real_tool(), hold=tmp_path / "hold")
    site.hold.touch()
    yield site
    site.hold.unlink(missing_ok=True)


def begin(stack: Stack, planned: Plan, folder: Path) -> subprocess.Popen[bytes]:
    """Start a worker that applies the plan, in a process of its own."""
    given = {
        "tool": str(stack.tool.path),
        "version": stack.tool.version,
        "module": str(stack.module),
        "state": str(stack.backend.file),
        "variables": stack.variables,
        "folder": str(folder),
        "plan": str(planned.file),
        "sha256": planned.sha256,
        "module_sha256": planned.module_sha256,
    }
    worker = subprocess.Popen([sys.executable, "-c", WORKER], cwd=ROOT, stdin=subprocess.PIPE)
    assert worker.stdin is not None
    with worker.stdin:
        worker.stdin.write(json.dumps(given).encode())
    return worker


def killed_worker(site: Site, at: str) -> tuple[Stack, Plan, Path]:
    """Begin an apply that pauses at a resource, and SIGKILL its worker there."""
    stack = site.stack(pause_at=at)
    planned, folder = site.plan(stack), site.folder()
    worker = begin(stack, planned, folder)
    in_flight(folder / RUN, at)
    worker.kill()
    worker.wait()
    return stack, planned, folder


def tool_of(folder: Path) -> host.Process:
    record = records.read(folder / RUN / records.TOOL)
    assert record is not None
    return host.Process(**record)


def supervisor_of(folder: Path) -> host.Process:
    start = start_of(folder / RUN)
    assert start is not None
    return start.supervisor


def test_a_killed_worker_leaves_an_apply_that_ends_on_record(site: Site) -> None:
    stack, planned, folder = killed_worker(site, "database")
    during = observe(stack, folder, prior=planned.prior)

    site.hold.unlink()
    after = observe(stack, folder, prior=planned.prior, wait=60)
    fate = look(folder / RUN)

    assert (during.verdict, during.code) == (Verdict.CANNOT_TELL, "still_running")
    assert [one.progress for one in during.ledger] == [Progress.COMPLETED, Progress.STARTED]
    assert (fate.life, fate.rc) == (Life.ENDED, 0)
    assert (after.verdict, after.code) == (Verdict.APPLIED, "applied")
    assert after.state is not None
    assert after.state.serial > planned.prior.serial
    assert site.effects == ALL


def test_a_killed_worker_whose_apply_then_fails_cannot_be_told(site: Site) -> None:
    stack = site.stack(pause_at="database", fail_at="app")
    planned, folder = site.plan(stack), site.folder()
    worker = begin(stack, planned, folder)
    in_flight(folder / RUN, "database")
    worker.kill()
    worker.wait()
    site.hold.unlink()
    process.wait(folder / RUN, 60)

    seen = observe(stack, folder, prior=planned.prior)

    assert (seen.verdict, seen.code) == (Verdict.CANNOT_TELL, "apply_partial")
    assert [one.progress.value for one in seen.ledger] == ["completed", "completed", "errored"]


def test_a_killed_tool_is_uncertain_and_its_child_goes_on(site: Site) -> None:
    stack, planned, folder = killed_worker(site, "network")

    host.send(tool_of(folder), signal.SIGKILL)
    fate = process.wait(folder / RUN, 30)

    assert (fate.life, fate.rc) == (Life.ENDED, -9)
    assert group_is_empty(folder / RUN) is False
    assert site.effects == []
    site.hold.unlink()
    wait_until(lambda: group_is_empty(folder / RUN))
    assert site.effects == ALL[:1], "the effect came after the tool's death"
    assert read_file(site.state) == planned.prior, "and no state tells of it"
    seen = observe(stack, folder, prior=planned.prior)
    assert (seen.verdict, seen.code) == (Verdict.CANNOT_TELL, "crashed")
    assert [one.address for one in seen.ledger] == ["terraform_data.network"]


def test_everything_killed_is_lost(site: Site) -> None:
    stack, planned, folder = killed_worker(site, "database")

    host.send(supervisor_of(folder), signal.SIGKILL)
    wait_until(lambda: look(folder / RUN).life is Life.ORPHANED)
    orphaned = observe(stack, folder, prior=planned.prior)
    process.kill(folder / RUN)
    wait_until(lambda: group_is_empty(folder / RUN))
    lost = observe(stack, folder, prior=planned.prior)

    assert (orphaned.verdict, orphaned.code) == (Verdict.CANNOT_TELL, "still_running")
    assert (lost.verdict, lost.code) == (Verdict.CANNOT_TELL, "lost")
    assert lost.ledger[0].id.startswith("id=")


def test_an_orphan_that_finished_is_believed_by_its_final_summary(site: Site) -> None:
    stack, planned, folder = killed_worker(site, "app")

    host.send(supervisor_of(folder), signal.SIGKILL)
    wait_until(lambda: look(folder / RUN).life is Life.ORPHANED)
    site.hold.unlink()
    wait_until(lambda: group_is_empty(folder / RUN))
    seen = observe(stack, folder, prior=planned.prior)

    assert look(folder / RUN).life is Life.LOST
    assert (seen.verdict, seen.code) == (Verdict.APPLIED, "applied")
    assert site.effects == ALL


def test_an_apply_that_never_started_is_proven_and_then_forbidden(site: Site) -> None:
    stack = site.stack()
    planned, folder = site.plan(stack), site.folder()
    prepare(stack, folder)

    seen = observe(stack, folder, prior=planned.prior)

    assert (seen.verdict, seen.code) == (Verdict.NOTHING_HAPPENED, "never_started")
    with pytest.raises(AlreadyStarted):
        site.apply(stack, planned, folder)
    assert site.effects == []


def test_on_a_host_without_the_folder_nothing_can_be_told(site: Site) -> None:
    stack, folder = site.stack(), site.folder()

    seen = observe(stack, folder, prior=StateMark())

    assert (seen.verdict, seen.code) == (Verdict.CANNOT_TELL, "no_record")
    assert not folder.exists()


def test_a_refusal_with_an_unmoved_state_is_nothing_a_moved_one_cannot_be_told(
    site: Site,
) -> None:
    stack, other = site.stack(pause_at="network"), site.stack()
    planned, stale = site.plan(stack), site.plan(other)
    holder, locked_out, late = site.folder(), site.folder(), site.folder()
    worker = begin(stack, planned, holder)
    in_flight(holder / RUN, "network")

    refused = site.apply(other, stale, locked_out)
    nothing = observe(other, locked_out, prior=stale.prior)
    site.hold.unlink()
    worker.wait()
    overtaken = site.apply(other, stale, late)

    assert (refused.outcome.kind, refused.outcome.code) == (Class.TRANSIENT, "state_locked")
    assert (nothing.verdict, nothing.code) == (Verdict.NOTHING_HAPPENED, "state_locked")
    assert overtaken.outcome.code == "plan_stale"
    assert observe(other, late, prior=stale.prior).code == "state_moved"
    assert site.effects == ALL


def test_a_stop_interrupts_once_and_leaves_a_recorded_part(site: Site) -> None:
    stack = site.stack(pause_at="database")
    planned, folder = site.plan(stack), site.folder()
    said = folder / RUN / records.STDOUT

    applied = site.apply(
        stack, planned, folder, stop=lambda: "database: (local-exec)" in said.read_text()
    )

    assert (applied.outcome.kind, applied.outcome.code) == (Class.PARTIAL, "canceled_partial")
    assert site.effects == ALL[:1]
    assert read(said).interrupts == 1
    assert process.was_interrupted(folder / RUN)
    assert applied.state is not None
    assert applied.state.serial > 0


def test_a_stop_can_lose_the_race(site: Site) -> None:
    stack = site.stack(pause_at="app")
    planned, folder = site.plan(stack), site.folder()
    asked: list[bool] = []

    def stop() -> bool:
        asked.append(True)
        site.hold.unlink(missing_ok=True)
        process.wait(folder / RUN, 60)
        return True

    applied = site.apply(stack, planned, folder, stop=stop)

    assert asked
    assert applied.outcome.code == "applied"
    assert site.effects == ALL
    assert not process.was_interrupted(folder / RUN)


def test_an_apply_that_sits_out_its_interrupt_goes_on_and_is_found_again(site: Site) -> None:
    deaf = site.path / "deaf"
    deaf.write_text(f"#!/bin/sh\ntrap '' INT\n{site.tool.path} \"$@\"\n")
    deaf.chmod(0o755)
    stack = replace(site.stack(pause_at="database"), tool=Binary(deaf, site.tool.version))
    planned, folder = site.plan(stack), site.folder()

    applied = site.apply(stack, planned, folder, seconds=1, grace=1)

    assert (applied.outcome.kind, applied.outcome.code) == (Class.UNCERTAIN, "still_running")
    assert process.was_interrupted(folder / RUN)
    assert observe(stack, folder, prior=planned.prior).code == "still_running"
    site.hold.unlink()
    process.wait(folder / RUN, 60)
    assert observe(stack, folder, prior=planned.prior).verdict is Verdict.APPLIED
    assert site.effects == ALL
