"""What a test of the lifecycle asks the rows, the ledger and the registry."""

from __future__ import annotations

from collections import Counter

from django.db.models.functions import Now

from jobs import runner
from jobs.models import Attempt, Job
from jobs.recovery.preflight import preflight
from jobs.recovery.retry import retry
from jobs.states import State
from provisioning.lifecycle.models import Lifecycle
from provisioning.lifecycle.request import request
from provisioning.lifecycle.stack import effects_ledger
from workspaces.actors import SYSTEM
from workspaces.models import Workspace


def requested(workspace: Workspace, **variables: object) -> Job:
    """The job of a requested workspace. In inline mode its first attempt has been made."""
    return job_of(request(workspace, actor=SYSTEM, variables=variables))


def provisioned(workspace: Workspace, **variables: object) -> Job:
    """The job of a requested workspace in its final state."""
    return finished(requested(workspace, **variables))


def attempted(job: Job) -> Job:
    """The job after one more attempt, whatever it had to wait for; a final one as it is."""
    Job.objects.filter(pk=job.pk, state=State.QUEUED).update(run_at=Now())
    runner.execute(job.kind, job.pk)
    job.refresh_from_db()
    return job


def finished(job: Job) -> Job:
    """The job in its final state."""
    for _ in range(MOST_ATTEMPTS):
        job.refresh_from_db()
        if job.final:
            return job
        attempted(job)
    raise AssertionError(f"{job} is still {job.state} after {MOST_ATTEMPTS} attempts")


def retried(job: Job, mode: str = "resume") -> Job:
    """The successor in its final state."""
    return finished(retry(job.pk, mode=mode, actor=SYSTEM, reason="the cause is mended"))


def lifecycle_of(workspace: Workspace) -> Lifecycle:
    return Lifecycle.objects.get(workspace=workspace)


def job_of(lifecycle: Lifecycle) -> Job:
    assert lifecycle.job_id is not None
    return Job.objects.get(pk=lifecycle.job_id)


def effects(workspace: Workspace) -> Counter[str]:
    """How often each resource of a workspace was really created."""
    ledger = effects_ledger()
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    found = [line.split() for line in lines]
    return Counter(resource for slug, resource, _ in found if slug == workspace.slug)


def steps(job: Job) -> dict[str, str]:
    """The state of each recorded step, ``kept`` where it was carried over and is done."""
    rows = job.steps.order_by("pk")
    return {s.name: "kept" if s.carried_from and s.state == "done" else s.state for s in rows}


def words(job: Job, verb: str = "resume") -> dict[str, str]:
    """What a preflight says will become of each step."""
    return {step.name: step.word.value for step in preflight(job, verb, SYSTEM).steps}


def reasons(job: Job) -> list[str]:
    return list(job.attempts.order_by("number").values_list("reason", flat=True))


def outcomes(job: Job) -> list[str]:
    return list(job.attempts.order_by("number").values_list("outcome", flat=True))


def last(job: Job) -> Attempt:
    return job.attempts.order_by("number").reverse()[0]


EACH_ONCE = {"network": 1, "database": 1, "app": 1}
MOST_ATTEMPTS = 20
