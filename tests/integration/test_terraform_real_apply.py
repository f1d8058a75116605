"""The real tool on the example module: what is planned is applied, once, and told as it was."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from provisioning.terraform import process, records
from provisioning.terraform.apply import Applied, apply
from provisioning.terraform.ask import ToolFailed
from provisioning.terraform.classify import Class
from provisioning.terraform.errors import AlreadyStarted, FolderUsed, ModuleChanged, PlanTampered
from provisioning.terraform.observe import Verdict, observe
from provisioning.terraform.plan import Plan, plan
from provisioning.terraform.planfile import sha256
from provisioning.terraform.prepare import prepare
from provisioning.terraform.stack import Stack
from provisioning.terraform.state import Movement, StateMark, movement
from provisioning.terraform.stream import Change, Progress, Summary
from provisioning.terraform.verify import verify
from tests.support.terraform import EXAMPLE, SECONDS, Site, real_tool

ALL = ["acme network created", "acme database created", "acme app created"]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, real_tool(), hold=tmp_path / "hold")


def ledger(applied: Applied) -> list[tuple[str, str]]:
    return [
        (one.address.removeprefix("terraform_data."), one.progress.value) for one in applied.ledger
    ]


def again(site: Site, stack: Stack, planned: Plan) -> Applied:
    """Do what the caller's rule forbids."""
    return site.apply(stack, planned, site.folder())


def test_a_plan_is_made_elsewhere_applied_here_and_verified(site: Site) -> None:
    stack = site.stack()
    planned = site.plan(stack)
    assert site.effects == []
    stored = site.path / "storage.bin"
    shutil.move(planned.file, stored)
    shutil.rmtree(planned.file.parent)
    here = site.folder()

    applied = apply(
        stack,
        here,
        stored,
        sha256=planned.sha256,
        module_sha256=planned.module_sha256,
        seconds=SECONDS,
    )

    assert (applied.outcome.kind, applied.outcome.code) == (Class.OK, "applied")
    assert site.effects == ALL
    assert ledger(applied) == [(name, "completed") for name in ("network", "database", "app")]
    assert applied.summary == Summary("apply", 3, 0, 0)
    assert set(applied.outputs) == {"network_id", "database_id", "app_id"}
    assert applied.state is not None
    assert movement(planned.prior, applied.state) is Movement.MOVED
    assert not applied.left_behind
    assert verify(stack, here, seconds=SECONDS).converged
    assert site.effects == ALL


def test_a_plan_says_what_it_would_do(site: Site) -> None:
    planned = site.plan(site.stack())

    assert planned.applyable
    assert planned.complete
    assert planned.prior == StateMark(0, "")
    assert planned.summary == Summary("plan", 3, 0, 0)
    assert Change("terraform_data.database", "create") in planned.changes
    assert not planned.destroys
    kept = planned.record()
    assert kept["prior"] == {"serial": 0, "lineage": ""}
    assert kept["sha256"] == planned.sha256


def test_the_ledger_is_watched_while_it_grows(site: Site) -> None:
    stack = site.stack(pause_at="database")
    planned = site.plan(stack)
    site.hold.touch()
    seen: list[str] = []

    def watch(entries: tuple[object, ...]) -> None:
        seen.append(f"{len(entries)}")
        if len(entries) == 2:
            site.hold.unlink(missing_ok=True)

    applied = site.apply(stack, planned, site.folder(), watch=watch)

    assert applied.outcome.code == "applied"
    assert seen[-1] == "3"
    assert "2" in seen


def test_an_empty_plan_has_nothing_to_apply(site: Site) -> None:
    stack = site.stack()
    site.apply(stack, site.plan(stack), site.folder())

    empty = site.plan(stack)

    assert not empty.applyable
    assert empty.changes == ()
    assert site.apply(stack, empty, site.folder()).outcome.code == "applied"
    assert site.effects == ALL


def test_a_resource_that_fails_in_the_middle_leaves_a_partial_apply(site: Site) -> None:
    stack = site.stack(fail_at="database")
    planned = site.plan(stack)
    folder = site.folder()

    applied = site.apply(stack, planned, folder)

    assert (applied.outcome.kind, applied.outcome.code) == (Class.PARTIAL, "apply_partial")
    assert site.effects == ALL[:1]
    assert ledger(applied) == [("network", "completed"), ("database", "errored")]
    assert "was told to fail" in applied.message
    assert observe(stack, folder, prior=planned.prior).verdict is Verdict.CANNOT_TELL
    assert again(site, stack, planned).outcome.code == "plan_stale"
    repaired = site.stack()
    follow_up = site.plan(repaired)
    assert Change("terraform_data.database", "delete, create") in follow_up.changes
    assert follow_up.destroys
    assert site.apply(repaired, follow_up, site.folder()).outcome.code == "applied"
    assert site.effects == ALL


def test_a_second_apply_of_a_plan_is_stale_and_after_an_own_attempt_uncertain(site: Site) -> None:
    stack = site.stack()
    planned = site.plan(stack)
    site.apply(stack, planned, site.folder())

    blamed = again(site, stack, planned)
    own = site.apply(stack, planned, site.folder(), earlier_attempt=True)

    assert (blamed.outcome.kind, blamed.outcome.code) == (Class.TERMINAL, "plan_stale")
    assert (own.outcome.kind, own.outcome.code) == (Class.UNCERTAIN, "stale_after_own_attempt")
    assert site.effects == ALL


def test_the_tool_itself_would_apply_a_plan_twice(site: Site) -> None:
    # Why "at most one apply of a plan" is the caller's rule, committed before the call.
    stack = site.stack()
    planned = site.plan(stack)
    site.apply(stack, planned, site.folder())
    site.state.unlink()

    assert again(site, stack, planned).outcome.code == "applied"
    assert site.effects == ALL + ALL


def test_one_folder_serves_one_apply(site: Site) -> None:
    stack = site.stack()
    planned, folder = site.plan(stack), site.folder()
    site.apply(stack, planned, folder)

    with pytest.raises(AlreadyStarted) as refused:
        site.apply(stack, planned, folder)

    assert not refused.value.nothing_happened
    assert site.effects == ALL


def test_a_tampered_plan_is_caught_by_its_digest(site: Site) -> None:
    stack = site.stack()
    planned = site.plan(stack)
    planned.file.write_bytes(planned.file.read_bytes() + b"\0")

    with pytest.raises(PlanTampered) as caught:
        site.apply(stack, planned, site.folder())

    assert caught.value.code == "plan_tampered"
    assert site.effects == []


def test_an_edited_module_is_caught_by_its_digest(site: Site) -> None:
    module = site.path / "module"
    shutil.copytree(EXAMPLE, module)
    stack = Stack(site.tool, module, site.stack().backend, site.stack().variables)
    planned = site.plan(stack)
    (module / "script.sh").write_text("echo edited")

    with pytest.raises(ModuleChanged):
        site.apply(stack, planned, site.folder())

    assert site.effects == []


def test_a_damaged_plan_file_is_refused_before_anything_starts(site: Site) -> None:
    stack = site.stack()
    planned = site.plan(stack)
    planned.file.write_bytes(b"no plan at all")

    with pytest.raises(ToolFailed) as refused:
        apply(
            stack,
            site.folder(),
            planned.file,
            sha256=sha256(planned.file),
            module_sha256=planned.module_sha256,
            seconds=SECONDS,
        )

    planned.file.unlink()
    with pytest.raises(ToolFailed) as missing:
        site.apply(stack, planned, site.folder())

    assert refused.value.code == missing.value.code == "plan_unreadable"
    assert refused.value.nothing_happened
    assert not refused.value.transient


def test_a_folder_that_was_prepared_half_is_not_used(site: Site) -> None:
    stack, folder = site.stack(), site.folder()
    prepare(stack, folder)
    prepare(stack, folder)
    (folder / "ready.json").unlink()

    with pytest.raises(FolderUsed):
        plan(stack, folder, seconds=SECONDS)


def test_values_arrive_as_they_are(site: Site) -> None:
    odd = {"text": '${var.x} "q" \\ %{if}\n', "list": [1, 2.5, True], "ünïcode": "∑\u2028"}
    module = site.module(
        'variable "any" { type = any }\nvariable "text" { type = string }\n'
        'output "any" { value = var.any }\noutput "text" { value = var.text }'
    )
    stack = site.stack(module, any=odd, text=odd["text"])

    applied = site.apply(stack, site.plan(stack), site.folder())

    assert applied.outputs == {"any": odd, "text": odd["text"]}


def test_output_changes_alone_are_worth_applying(site: Site) -> None:
    stack = site.stack(site.module('output "o" { value = 1 }'))

    planned = site.plan(stack)

    assert planned.applyable
    assert planned.summary == Summary("plan", 0, 0, 0)


def test_what_the_apply_left_running_is_said(site: Site) -> None:
    left = "setsid sleep 60 > /dev/null 2>&1 &"
    module = site.module(
        f'resource "terraform_data" "a" {{\n  provisioner "local-exec" {{ command = "{left}" }}\n}}'
    )
    stack = site.stack(module)
    folder = site.folder()

    applied = site.apply(stack, site.plan(stack), folder)

    assert applied.outcome.code == "applied"
    assert applied.left_behind
    process.kill(folder / "apply")


def test_checks_that_fail_fail_the_verification(site: Site) -> None:
    module = site.module(
        'resource "terraform_data" "a" {}\n'
        'check "health" {\n'
        '  assert {\n    condition = terraform_data.a.id == "never"\n'
        '    error_message = "not healthy"\n  }\n}'
    )
    stack = site.stack(module)
    folder = site.folder()
    assert site.apply(stack, site.plan(stack), folder).outcome.code == "applied"

    seen = verify(stack, folder, seconds=SECONDS)

    assert (seen.code, seen.failed_checks) == ("checks_failed", ("check.health",))


def test_a_module_that_never_converges_is_said_to(site: Site) -> None:
    module = site.module('resource "terraform_data" "a" { input = timestamp() }')
    stack = site.stack(module)
    folder = site.folder()
    site.apply(stack, site.plan(stack), folder)

    seen = verify(stack, folder, seconds=SECONDS)

    assert seen.code == "not_converged"
    assert seen.changes == (Change("terraform_data.a", "update"),)


def test_show_leaves_no_clear_text_behind(site: Site) -> None:
    stack = site.stack()
    folder = site.folder()
    site.apply(stack, site.plan(stack), folder)

    shows = list((folder / "runs").glob("show-*"))

    assert shows
    assert not any((run / records.STDOUT).exists() for run in shows)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_entries_are_typed(site: Site) -> None:
    stack = site.stack()

    applied = site.apply(stack, site.plan(stack), site.folder())

    assert {one.progress for one in applied.ledger} == {Progress.COMPLETED}
    assert all(one.id.startswith("id=") and one.at for one in applied.ledger)
