"""Do jobs wait for something that will come?"""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from config.doctor.answer import Answer, ok, warn
from config.doctor.check import check
from config.doctor.sight import Sight
from jobs.models import Gate, Job, Lock, Operation
from jobs.models.operation import GATE as PAUSED
from jobs.states import FINAL, OperationState, State, WaitReason
from workspaces.redaction import scrub

LONG = timedelta(minutes=15)


@check(
    "jobs.gate_closed",
    needs="database.migrations",
    command="manage.py shell -c \"from jobs import gates; gates.open_again(WORKSPACE_ID, 'ROW')\"",
)
def gate_closed(_sight: Sight) -> Answer:
    """Do gates open again?

    A provider said "later" and its gate is closed for another quarter of an hour or more, with
    jobs behind it. They use no attempts, but their deadlines run. If the provider is well again,
    open the gate by hand.
    """
    behind = Job.objects.filter(
        Q(workspace_id=OuterRef("workspace_id")) | Q(gate__startswith="*"),
        state=State.QUEUED,
        gate=OuterRef("name"),
    )
    gates = Gate.objects.filter(Exists(behind), closed_until__gt=Now() + LONG)
    gates = gates.exclude(name__startswith=PAUSED)  # operations.paused tells of these
    closed = list(gates.order_by("-closed_until")[:5])
    if not closed:
        return ok("No job waits behind a gate that stays closed.")
    words = "; ".join(
        f"{gate.name} until {gate.closed_until:%Y-%m-%d %H:%M} UTC ({gate.reason})"
        for gate in closed
    )
    return warn(f"Jobs wait behind closed gates: {words}.", [gate.name for gate in closed])


@check(
    "operations.paused",
    needs="database.migrations",
    command="manage.py job operation show ROW",
)
def operation_paused(_sight: Sight) -> Answer:
    """Does every operation go on?

    Somebody paused it, or it paused by itself: its canary or its stop rule spoke, or its engine
    died. It goes on only when somebody says so (``manage.py job operation go``), or is stopped.
    """
    paused = list(Operation.objects.filter(state=OperationState.PAUSED).order_by("pk")[:5])
    if not paused:
        return ok("No operation is paused.")
    words = "; ".join(f"{each.verb} of {each.eligible} ({scrub(each.note)})" for each in paused)
    return warn(f"Operations are paused: {words}.", [each.pk for each in paused])


@check("jobs.lock_abandoned", needs="database.migrations", command="manage.py job show ROW")
def lock_abandoned(_sight: Sight) -> Answer:
    """Are locks held by jobs that are over given up?

    A lock outlives its job only while nobody knows what the job did, or because it asked for that.
    Reconcile its open step (``manage.py job reconcile``), retry it, or force the lock open; until
    then, whoever wants the lock is put off again and again. Row: the job that holds it.
    """
    wants = Job.objects.filter(
        workspace_id=OuterRef("workspace_id"), state=State.QUEUED, wait_reason=WaitReason.LOCK
    )
    held = Lock.objects.filter(Exists(wants), job__state__in=FINAL).order_by("since")[:5]
    locks = list(held.select_related("job"))
    if not locks:
        return ok("No job waits for a lock of one that is over.")
    words = "; ".join(f"{lock.name}, held by a job that is {_ended(lock.job)}" for lock in locks)
    return warn(f"Jobs wait for locks: {words}.", [lock.job_id for lock in locks])


def _ended(job: Job) -> str:
    return f"{job.state} ({job.cause})" if job.cause else job.state
