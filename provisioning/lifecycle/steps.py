"""Which steps make a workspace usable, and what is each worth after a crash?"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models.functions import Now

from jobs.events import emit
from jobs.kinds import CannotTell, Defer, DidNotHappen, Happened, Intent, Terminal, step
from provisioning.lifecycle import evidence, outputs, plans, registration
from provisioning.lifecycle.folders import Bench
from provisioning.lifecycle.models import Lifecycle
from provisioning.lifecycle.moves import move
from provisioning.lifecycle.outcomes import failure_of, ledger_in_words, nothing_applied
from provisioning.lifecycle.states import FINISH
from provisioning.terraform import apply as applying
from provisioning.terraform import plan as planning
from provisioning.terraform import planfile, prepare
from provisioning.terraform import verify as verifying
from provisioning.terraform.classify import Class
from provisioning.terraform.observe import Observation, Verdict, observe
from provisioning.terraform.stack import Stack
from provisioning.terraform.state import StateMark
from provisioning.terraform.stream import Entry
from workspaces.models import Workspace

# Seconds. One step stays within the grace of its queue, all of them within the kind's time limit.
READ_SECONDS = 240
APPLY_SECONDS = 600
ASK_AGAIN_SECONDS = 10.0  # while an apply goes on without its worker
_RESOURCES_KEPT = 100  # addresses in a step's output; the whole ledger stays in the folder


@step(evidence.PLAN, carry=False)
def plan(bench: Bench, stack: Stack) -> dict[str, Any]:
    """Find out what is to be done; changes nothing. What it returns is enough to apply it."""
    known = evidence.last_state(bench.root_id)
    with nothing_applied(), bench.passing("plan") as folder:
        made = planning.plan(stack, folder, seconds=READ_SECONDS, known=known)
        name = plans.store(made.file, made.sha256)
    return {
        "plan": name,
        "sha256": made.sha256,
        "module_sha256": made.module_sha256,
        "tool": made.tool,
        "serial": made.prior.serial,
        "lineage": made.prior.lineage,
        "add": made.summary.add,
        "change": made.summary.change,
        "remove": made.summary.remove,
        "applyable": made.applyable,
        "complete": made.complete,
        "destroys": made.destroys,
    }


def lay_out(bench: Bench, stack: Stack, planned: dict[str, Any]) -> None:
    """Make the apply's folder ready. Plain code, to be called before the intent commits.

    From then on the folder proves to this host whether the apply was started; and what fails
    here, a provider that cannot be had for instance, leaves nothing in doubt. An apply that was
    begun is kept or asked about first, so it gets no more than the empty folder.
    """
    bench.apply.mkdir(mode=0o700, exist_ok=True)
    if evidence.is_begun(bench.job_id):
        return
    with nothing_applied():
        file = plans.restore(planned["plan"], planned["sha256"], bench.apply)
        prepare.prepare(stack, bench.apply, lock=planfile.lock_file(file))


def find_apply(
    intent: Intent, bench: Bench, stack: Stack, planned: dict[str, Any]
) -> Happened | DidNotHappen | CannotTell:
    """Ask the records, the process table and the state what became of an apply.

    While something of it runs the job waits, using no budget, until its deadline.
    """
    begun = evidence.begun(bench, intent.attempt)
    seen = observe(stack, begun.folder, prior=begun.prior)
    if seen.verdict is Verdict.APPLIED:
        return Happened(_applied(seen.ledger, seen.state))
    if seen.verdict is Verdict.NOTHING_HAPPENED:
        return DidNotHappen()
    if seen.code == "still_running":
        raise Defer(ASK_AGAIN_SECONDS, seen.reason)
    return CannotTell(_in_doubt(seen))


@step.once(evidence.APPLY, reconcile=find_apply, boundary="provider")
def apply(bench: Bench, stack: Stack, planned: dict[str, Any]) -> dict[str, Any]:
    """Apply exactly the plan of this job, and nothing when a byte of it has changed."""
    with nothing_applied():
        came = applying.apply(
            stack,
            bench.apply,
            plans.restore(planned["plan"], planned["sha256"], bench.apply),
            sha256=planned["sha256"],
            module_sha256=planned["module_sha256"],
            seconds=APPLY_SECONDS,
        )
    if came.outcome.kind is not Class.OK:
        raise failure_of(came)
    return _applied(came.ledger, came.state)


@step("verify", carry=False)
def verify(bench: Bench, stack: Stack) -> dict[str, Any]:
    """Insist that a fresh plan is empty; returns the module's outputs."""
    with nothing_applied(), bench.passing("verify") as folder:
        found = verifying.verify(stack, folder, seconds=READ_SECONDS)
    if not found.converged:
        named = [*(f"{one.address} ({one.action})" for one in found.changes), *found.failed_checks]
        raise Terminal(f"{found.sentence} {', '.join(named[:20])} [{found.code}]")
    kept, left_out = outputs.storable(found.outputs)
    return {"outputs": kept, "left_out": left_out}


@step.keyed("register", remembers=registration.REMEMBERS)
def register(key: str, slug: str) -> dict[str, Any]:
    """Make the workspace known, under a key that is the same in every attempt and resume."""
    return registration.register(key, slug)


@step.local("ready")
def ready(
    workspace_id: int, job_id: UUID, registered: dict[str, Any], verified: dict[str, Any]
) -> dict[str, Any]:
    """Open the workspace, in the transaction that marks this step done.

    That is told as `workspace.ready`. A workspace without a lifecycle (its job was enqueued by
    hand) has nothing to move, and nothing is told.
    """
    lifecycle = Lifecycle.objects.filter(workspace_id=workspace_id)
    changes = {"registration": registered["id"], "outputs": verified["outputs"], "ready_at": Now()}
    if not lifecycle.exists():
        return {"workspace": workspace_id}
    if not move(lifecycle.filter(job_id=job_id), FINISH, **changes):
        raise Terminal(
            "The workspace was not opened: its lifecycle follows another job, or does not stand "
            "at provisioning. Look at it in the console before anything else."
        )
    slug = Workspace.objects.values_list("slug", flat=True).get(pk=workspace_id)
    told = {"workspace": slug, "registration": registered["id"], "job_id": str(job_id)}
    emit("workspace.ready", workspace_id, slug, told)
    return {"workspace": workspace_id}


def _applied(ledger: tuple[Entry, ...], state: StateMark | None) -> dict[str, Any]:
    mark = {} if state is None else {"serial": state.serial, "lineage": state.lineage}
    addresses = [f"{entry.address}: {entry.action}" for entry in ledger]
    return {"resources": len(ledger), "first": addresses[:_RESOURCES_KEPT], **mark}


def _in_doubt(seen: Observation) -> str:
    return f"{seen.reason}{ledger_in_words(seen.ledger)} [{seen.code}]"
