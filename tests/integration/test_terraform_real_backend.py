"""A real remote state that fails in real ways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from provisioning.terraform.ask import MODULE, ToolFailed, state_now
from provisioning.terraform.classify import Class
from provisioning.terraform.observe import Verdict, observe
from provisioning.terraform.plan import plan
from provisioning.terraform.prepare import prepare
from provisioning.terraform.stack import Backend
from provisioning.terraform.state import StateMark
from provisioning.terraform.verify import verify
from tests.support.terraform import SECONDS, Site, real_tool
from tests.support.terraform_state import StateServer, state_server

ALL = ["acme network created", "acme database created", "acme app created"]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, real_tool(), hold=tmp_path / "hold")


@pytest.fixture
def server() -> Iterator[StateServer]:
    with state_server() as server:
        yield server


def test_a_remote_state_is_planned_applied_verified_and_observed(
    site: Site, server: StateServer
) -> None:
    stack = site.stack(backend=server.backend())
    planned, folder = site.plan(stack), site.folder()

    applied = site.apply(stack, planned, folder)

    assert applied.outcome.code == "applied"
    assert applied.state is not None
    assert applied.state == state_now(stack, folder)
    assert verify(stack, folder, seconds=SECONDS).converged
    assert observe(stack, folder, prior=planned.prior).verdict is Verdict.APPLIED
    assert site.effects == ALL


@pytest.mark.parametrize(
    ("method", "code", "expected"),
    [
        ("LOCK", 500, "transient/backend_unavailable"),
        ("LOCK", 401, "terminal/backend_auth"),
        ("LOCK", 403, "terminal/backend_auth"),
        ("LOCK", 409, "transient/state_locked"),
        ("LOCK", 423, "transient/state_locked"),
        ("GET", 500, "transient/backend_unavailable"),
        ("GET", 503, "transient/backend_unavailable"),
        ("GET", 401, "terminal/backend_auth"),
    ],
)
def test_a_backend_that_answers_badly_stops_the_plan(
    site: Site, server: StateServer, method: str, code: int, expected: str
) -> None:
    stack, folder = site.stack(backend=server.backend()), site.folder()
    prepare(stack, folder)
    server.answers[method] = code
    if code in (409, 423):
        server.answers.pop(method)
        server.lock = b'{"ID": "somebody-else"}'

    with pytest.raises(ToolFailed) as failed:
        plan(stack, folder, seconds=SECONDS, lock_wait=0)

    assert f"{failed.value.outcome.kind.value}/{failed.value.code}" == expected
    assert failed.value.outcome.nothing_happened


def test_a_backend_that_is_not_there_stops_the_preparation(site: Site) -> None:
    nowhere = Backend("http", {"address": "http://127.0.0.1:9/state", "retry_max": "0"})

    with pytest.raises(ToolFailed) as failed:
        site.plan(site.stack(backend=nowhere))

    assert (failed.value.outcome.kind, failed.value.code) == (
        Class.TRANSIENT,
        "backend_unavailable",
    )


def test_a_404_looks_like_a_new_stack_unless_we_remember(site: Site, server: StateServer) -> None:
    stack = site.stack(backend=server.backend())
    applied = site.apply(stack, site.plan(stack), site.folder())
    server.answers["GET"] = 404

    fooled = site.plan(stack)
    with pytest.raises(ToolFailed) as refused:
        plan(stack, site.folder(), seconds=SECONDS, known=applied.state)

    assert fooled.summary.add == 3
    assert refused.value.code == "lineage_regression"
    assert site.effects == ALL


def test_a_restored_backup_is_refused_by_what_we_remember(site: Site) -> None:
    stack = site.stack()
    first = site.apply(stack, site.plan(stack), site.folder()).state
    backup = site.state.read_bytes()
    assert first is not None
    later = StateMark(first.serial + 1, first.lineage)

    assert plan(stack, site.folder(), seconds=SECONDS, known=first).prior == first
    site.state.write_bytes(backup)
    with pytest.raises(ToolFailed) as refused:
        plan(stack, site.folder(), seconds=SECONDS, known=later)

    assert refused.value.code == "lineage_regression"


def test_a_state_that_cannot_be_saved_makes_the_apply_uncertain(
    site: Site, server: StateServer
) -> None:
    stack = site.stack(backend=server.backend())
    planned, folder = site.plan(stack), site.folder()
    server.answers["POST"] = 500

    applied = site.apply(stack, planned, folder)

    assert (applied.outcome.kind, applied.outcome.code) == (
        Class.UNCERTAIN,
        "state_not_persisted",
    )
    assert applied.errored_state == folder / MODULE / "errored.tfstate"
    assert site.effects == ALL
    assert [one.progress.value for one in applied.ledger] == ["completed"] * 3
    seen = observe(stack, folder, prior=planned.prior)
    assert (seen.verdict, seen.code) == (Verdict.CANNOT_TELL, "state_not_persisted")


def test_a_lock_that_cannot_be_released_is_not_a_clean_success(
    site: Site, server: StateServer
) -> None:
    stack = site.stack(backend=server.backend())
    planned, folder = site.plan(stack), site.folder()
    server.answers["UNLOCK"] = 500

    applied = site.apply(stack, planned, folder)

    assert (applied.outcome.kind, applied.outcome.code) == (Class.PARTIAL, "lock_not_released")
    assert site.effects == ALL
    assert observe(stack, folder, prior=planned.prior).verdict is Verdict.CANNOT_TELL


def test_an_unreadable_backend_leaves_the_success_on_record(
    site: Site, server: StateServer
) -> None:
    stack = site.stack(backend=server.backend())
    planned, folder = site.plan(stack), site.folder()
    site.apply(stack, planned, folder)
    server.answers["GET"] = 500

    seen = observe(stack, folder, prior=planned.prior)

    assert (seen.verdict, seen.state) == (Verdict.APPLIED, None)


def test_a_corrupt_state_is_terminal(site: Site) -> None:
    stack = site.stack()
    planned, folder = site.plan(stack), site.folder()
    prepare(stack, folder)
    site.state.parent.mkdir(exist_ok=True)
    site.state.write_text("not a state")

    applied = site.apply(stack, planned, folder)
    with pytest.raises(ToolFailed) as failed:
        site.plan(stack)

    assert (applied.outcome.kind, applied.outcome.code) == (Class.TERMINAL, "state_corrupt")
    assert applied.state is None
    assert (failed.value.outcome.kind, failed.value.code) == (Class.TERMINAL, "state_corrupt")
    assert site.effects == []
