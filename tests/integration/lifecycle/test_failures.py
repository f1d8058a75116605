"""Each way to fail is told apart: nothing happened, something did, or nobody knows."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.files.storage import default_storage
from pytest_django import Settings

from alerts.models import Alert
from config.env import ROOT
from examples.registry.control import RegistryControl
from jobs.kinds import Transient
from jobs.models import Job
from jobs.recovery.reconcile import reconcile
from jobs.shown import shown
from jobs.testing import attempt
from provisioning.lifecycle import kinds
from provisioning.lifecycle.folders import Bench
from provisioning.lifecycle.steps import lay_out
from provisioning.terraform.stack import Stack
from tests.integration.lifecycle.looking import (
    EACH_ONCE,
    effects,
    finished,
    last,
    lifecycle_of,
    provisioned,
    requested,
    retried,
    steps,
    words,
)
from workspaces.actors import SYSTEM
from workspaces.models import Workspace


def test_a_partial_apply_needs_a_person_and_then_a_new_plan(
    workspace: Workspace, root: Path, module: Path
) -> None:
    (root / "broken").touch()
    job = provisioned(workspace)
    stood = steps(job)
    again = retried(job)
    reconcile(
        again.pk, step="apply", outcome="did_not_happen", actor=SYSTEM, reason="the state has it"
    )
    (root / "broken").unlink()

    successor = retried(again)

    assert (job.state, job.cause, stood["apply"]) == ("dead", "uncertain", "started")
    assert "[apply_partial]" in last(job).message
    assert "completed: terraform_data.network" in last(job).message
    assert Alert.objects.filter(severity="critical").count() == 2
    assert (ROOT / Alert.objects.all()[0].runbook).is_file()
    assert (again.cause, words(again)["apply"]) == ("uncertain", "runs")
    assert successor.state == "succeeded"
    assert effects(workspace) == {"network": 1, "database": 1}


def test_what_was_finished_by_hand_is_kept_and_still_verified(
    workspace: Workspace, root: Path, module: Path
) -> None:
    (root / "broken").touch()
    job = provisioned(workspace)
    reconcile(job.pk, step="apply", outcome="happened", actor=SYSTEM, reason="done by hand")

    successor = retried(job)

    assert (successor.state, successor.cause) == ("dead", "terminal")
    assert steps(successor)["apply"] == "kept"
    assert "[not_converged]" in last(successor).message
    assert effects(workspace) == {"network": 1}


@pytest.mark.parametrize("when", ["before its folder is laid out", "after that"])
def test_a_plan_that_was_tampered_with_is_never_applied(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    def tamper(bench: Bench, stack: Stack, planned: dict[str, str]) -> None:
        if when == "after that":
            lay_out(bench, stack, planned)
        Path(default_storage.path(planned["plan"])).write_bytes(b"PK\x03\x04 something else")
        monkeypatch.undo()
        if when != "after that":
            lay_out(bench, stack, planned)

    monkeypatch.setattr(kinds, "lay_out", tamper)

    job = provisioned(workspace)

    assert (job.state, job.cause) == ("dead", "terminal")
    assert "[plan_tampered]" in last(job).message
    assert steps(job) == {"plan": "done"} | ({"apply": "not_done"} if when == "after that" else {})
    assert effects(workspace) == {}
    assert lifecycle_of(workspace).state == "provision_failed"

    Path(default_storage.path(_plan_of(job))).unlink()
    assert retried(job).state == "succeeded"
    assert effects(workspace) == EACH_ONCE


def test_a_plan_of_this_job_is_used_by_its_later_attempts(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails_once(bench: Bench, stack: Stack, planned: dict[str, str]) -> None:
        monkeypatch.undo()
        raise Transient("the network was away")

    monkeypatch.setattr(kinds, "lay_out", fails_once)

    job = provisioned(workspace)

    assert job.state == "succeeded"
    assert {row.name: row.attempt for row in job.steps.all()} == {
        "plan": 1,
        "apply": 2,
        "verify": 2,
        "register": 2,
        "ready": 2,
    }


def test_a_plan_that_is_gone_from_the_storage_is_made_again_by_a_retry(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(bench: Bench, stack: Stack, planned: dict[str, str]) -> None:
        default_storage.delete(planned["plan"])
        monkeypatch.undo()
        lay_out(bench, stack, planned)

    monkeypatch.setattr(kinds, "lay_out", lose)
    job = provisioned(workspace)

    successor = retried(job)

    assert "[plan_missing]" in last(job).message
    assert successor.state == "succeeded"
    assert effects(workspace) == EACH_ONCE


def test_a_state_that_was_lost_is_never_taken_for_a_new_workspace(
    workspace: Workspace, root: Path, control: RegistryControl
) -> None:
    control.down()
    job = provisioned(workspace)
    control.up()
    (root / "provisioning/states/acme.tfstate").unlink()

    for mode in ("resume", "restart"):
        job = retried(job, mode)
        assert "[lineage_regression]" in last(job).message

    assert effects(workspace) == EACH_ONCE


def test_without_a_tool_nothing_is_begun(workspace: Workspace, settings: Settings) -> None:
    settings.FIREDOOR_TOFU_BIN = "/no/such/tofu"
    job = provisioned(workspace)
    settings.FIREDOOR_TOFU_BIN = None

    assert (job.state, job.cause) == ("dead", "terminal")
    assert "[binary_missing]" in last(job).message
    assert steps(job) == {}
    assert retried(job).state == "succeeded"


def test_without_a_registry_nothing_is_registered(
    workspace: Workspace, settings: Settings, control: RegistryControl
) -> None:
    settings.FIREDOOR_REGISTRY_URL = None
    job = provisioned(workspace)
    assert (job.cause, steps(job)["register"]) == ("terminal", "not_done")
    assert "REGISTRY_URL" in last(job).message

    (settings.FIREDOOR_EXAMPLES / "registry.url").write_text(f"{control.url}\n")
    assert retried(job).state == "succeeded"


def test_what_the_module_calls_a_secret_shows_nowhere(workspace: Workspace, module: Path) -> None:
    (module / "secret.tf").write_text(SECRETIVE)
    canary = "canary-of-the-database"

    job = finished(requested(workspace, db_password=canary))

    attempt = last(job)
    assert job.cause == "uncertain"
    assert "boom" in attempt.message
    assert canary in job.params["variables"]["db_password"]
    told = (shown(job), attempt.message, attempt.traceback, Alert.objects.get().trace)
    assert canary not in repr(told)


SECRETIVE = """
variable "db_password" {
  type      = string
  sensitive = true
}

resource "terraform_data" "secretive" {
  provisioner "local-exec" {
    command = "echo boom ${var.db_password}; exit 1"
  }
}
"""


def _plan_of(job: Job) -> str:
    planned = job.steps.get(name="plan").output
    assert isinstance(planned, dict)
    return str(planned["plan"])


def test_a_job_provisions_its_own_workspace_and_no_other(
    workspace: Workspace, root: Path, module: Path
) -> None:
    other = Workspace.objects.create(slug="other", name="Other")
    job = kinds.provision.s(slug=other.slug).enqueue(workspace=workspace, key="k", countdown=60)
    attempt(job)
    assert (job.state, job.cause, steps(job)) == ("dead", "terminal", {})
    assert last(job).error_class.endswith("NotItsWorkspace")
    assert "belongs to" in last(job).message
