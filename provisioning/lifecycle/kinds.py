"""Making a workspace usable: plan, apply, verify, register, and only then `ready`.

A plan is never applied twice. Its apply is a `once` step: the intent commits first, every attempt
applies in a folder of its own, and whoever comes later asks what became of it. A retry plans
again, since a plan holds for one job only; where the apply is kept nobody applies the new plan,
and drift that it finds is what `verify` refuses.

Seams: runs and approvals will rebuild this on their rows. What `plan` returns is what an approval
binds to (digest, counts, whether it destroys), and an approval goes between `plan` and `lay_out`.
Which module and which state belong to a workspace is asked of `stack.stack_of` alone.
"""

from __future__ import annotations

from typing import Any

from jobs.kinds import Job, Refused, Run, Terminal, job_kind
from jobs.states import State as JobState
from jobs.states import Verb
from provisioning.lifecycle.folders import Bench
from provisioning.lifecycle.models import Lifecycle
from provisioning.lifecycle.moves import move
from provisioning.lifecycle.outcomes import nothing_applied
from provisioning.lifecycle.stack import stack_of
from provisioning.lifecycle.states import FAIL, RETRY, State
from provisioning.lifecycle.steps import apply, lay_out, plan, ready, register, verify


class NotItsWorkspace(Terminal):
    """A job of one workspace was told to provision another one. Nothing was done."""

    def __init__(self, slug: str, own: str) -> None:
        super().__init__(
            f"nothing was provisioned: the params say workspace {slug!r}, but the job belongs to "
            f"{own!r}; request it for its own workspace",
            happened=False,
        )


@job_kind(
    "provisioning.provision",
    steps=(plan, apply, verify, register, ready),
    queue="provisioning",
    runbook="docs/runbooks/provisioning.md",
    soft_time_limit=2640,
    time_limit=2700,
)
def provision(run: Run, *, slug: str, variables: dict[str, Any] | None = None) -> dict[str, Any]:
    """Provision the workspace `slug`; `variables` are more of the module's, none of them secret."""
    if slug != run.workspace.slug:
        raise NotItsWorkspace(slug, run.workspace.slug)
    bench = Bench(run.root_id, run.job_id, run.attempt)
    with nothing_applied():
        stack = stack_of(slug, variables or {})
    planned = run(plan, bench, stack)
    lay_out(bench, stack, planned)
    run(apply, bench, stack, planned)
    verified = run(verify, bench, stack)
    registered = run(register, slug)
    run(ready, run.workspace.pk, run.job_id, registered, verified)
    bench.clear()
    return {"registration": registered["id"]}


@provision.before
def only_what_failed(job: Job, verb: str) -> None:
    """Let a retry begin only where the workspace stands at provision_failed, following this job."""
    if verb not in (Verb.RESUME, Verb.RESTART):
        return
    lifecycle = Lifecycle.objects.select_for_update().filter(workspace_id=job.workspace_id).first()
    if lifecycle is None:
        return
    if lifecycle.job_id != job.pk:
        raise Refused(
            "not_its_job",
            f"Nothing was retried: the workspace follows job {lifecycle.job_id}, not this one. "
            "Retry that one, or resolve this dead letter.",
        )
    if lifecycle.state != State.PROVISION_FAILED:
        raise Refused(
            "not_provision_failed",
            f"Nothing was retried: the workspace is {lifecycle.get_state_display()}, and only a "
            "failed provisioning is retried. If it is ready, resolve this dead letter instead.",
        )


@provision.after
def follow(job: Job, verb: str, successor: Job | None) -> None:
    """Let the workspace follow its newest job, and fail with it; only from where it may stand."""
    mine = Lifecycle.objects.filter(job_id=job.pk)
    if successor is not None:
        move(mine, RETRY, job_id=successor.pk)
    elif verb in (JobState.DEAD, JobState.CANCELLED):
        move(mine, FAIL)
