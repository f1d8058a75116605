"""A workspace is requested, fails half-way, is retried, and nothing finished is repeated."""

from __future__ import annotations

import json
from ipaddress import ip_network
from pathlib import Path

import pytest
from django.core.files.storage import default_storage
from pytest_django import Settings

from alerts.models import Alert
from examples.payments.faults import Fault
from examples.registry.control import RegistryControl
from jobs.models import Event, Job
from jobs.testing import drain
from provisioning.lifecycle.request import request
from tests.integration.lifecycle.looking import (
    EACH_ONCE,
    effects,
    lifecycle_of,
    provisioned,
    reasons,
    retried,
    steps,
    words,
)
from tests.support.receiver import receiver
from webhooks import endpoints
from workspaces.actors import SYSTEM
from workspaces.models import AuditEvent, Workspace

pytestmark = pytest.mark.sqlite

ALL_DONE = dict.fromkeys(["plan", "apply", "verify", "register", "ready"], "done")


def test_a_workspace_becomes_ready(workspace: Workspace, control: RegistryControl) -> None:
    job = provisioned(workspace)

    lifecycle = lifecycle_of(workspace)
    (registered,) = control.registrations("acme")
    assert (job.state, job.queue, job.key) == (
        "succeeded",
        "provisioning",
        f"provision:{lifecycle.pk}",
    )
    assert steps(job) == ALL_DONE
    assert (lifecycle.state, lifecycle.registration) == ("ready", registered["id"])
    assert set(lifecycle.outputs) == {"network_id", "database_id", "app_id"}
    assert lifecycle.ready_at is not None
    assert effects(workspace) == EACH_ONCE


def test_that_a_workspace_is_ready_is_told_once_and_not_before(
    workspace: Workspace, control: RegistryControl, settings: Settings
) -> None:
    settings.WEBHOOK_ALLOW_HTTP = True
    settings.WEBHOOK_ALLOW_NETWORKS = [ip_network("127.0.0.0/8")]
    with receiver() as hook:
        endpoints.create(workspace, url=hook.url, events=["workspace.ready"], actor=SYSTEM)
        control.down()
        job = provisioned(workspace)
        drain()
        assert (lifecycle_of(workspace).state, hook.got) == ("provision_failed", [])
        control.up()
        successor = retried(job)
        drain()
    (got,) = hook.got
    event = Event.objects.get(type="workspace.ready")
    assert json.loads(got.body)["data"] == {
        "subject": "acme",
        "sequence": event.pk,
        "workspace": "acme",
        "registration": lifecycle_of(workspace).registration,
        "job_id": str(successor.pk),
    }


def test_the_registry_is_down_and_a_retry_repeats_no_finished_step(
    workspace: Workspace, control: RegistryControl
) -> None:
    control.down()
    job = provisioned(workspace)
    failed, alert = lifecycle_of(workspace), Alert.objects.get()
    planned = words(job)
    control.up()

    successor = retried(job)

    assert (job.state, job.cause) == ("dead", "exhausted")
    assert [reason.partition(";")[0] for reason in reasons(job)] == ["http_503"] * 4
    assert (failed.state, failed.job_id) == ("provision_failed", job.pk)
    assert (alert.state, alert.trace["job_id"]) == ("open", str(job.pk))
    assert planned == {
        "plan": "runs again",
        "apply": "kept",
        "verify": "runs again",
        "register": "runs",
        "ready": "runs",
    }
    assert successor.state == "succeeded"
    assert steps(successor) == ALL_DONE | {"apply": "kept"}
    assert effects(workspace) == EACH_ONCE
    assert len(control.registrations("acme")) == 1
    assert len({asked["key"] for asked in control.requests()}) == 1
    ready = lifecycle_of(workspace)
    assert (ready.state, ready.job_id) == ("ready", successor.pk)
    alert.refresh_from_db()
    assert alert.state == "resolved"


def test_an_answer_that_got_lost_registers_nothing_twice(
    workspace: Workspace, control: RegistryControl
) -> None:
    control.script(Fault(drop=True, effect=True))

    job = provisioned(workspace)

    assert job.state == "succeeded"
    assert [asked["worked"] for asked in control.requests()] == [True, True]
    assert len(control.registrations("acme")) == 1


def test_a_request_is_made_once(workspace: Workspace) -> None:
    first = request(workspace, actor=SYSTEM)
    second = request(workspace, actor=SYSTEM)

    assert first.pk == second.pk
    assert Job.objects.count() == 1
    assert AuditEvent.objects.filter(action="workspace.provision").count() == 1


def test_a_plan_and_its_folder_are_private_and_nothing_is_left_in_the_folder(
    workspace: Workspace, root: Path
) -> None:
    job = provisioned(workspace)

    planned = job.steps.get(name="plan").output
    assert isinstance(planned, dict)
    stored = Path(default_storage.path(planned["plan"]))
    assert planned["sha256"] in stored.name
    assert stored.stat().st_mode & 0o777 == 0o600
    assert list((root / "provisioning/work").iterdir()) == []
