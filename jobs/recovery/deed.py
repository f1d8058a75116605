"""The frame of every verb: lock, authorise, plan again, ask the owner, act, audit. One transaction.

Lock order: the job, then its owner's rows (hooks), then alerts and audit.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from django.db import OperationalError, connection

from jobs import ending, guests, registry, shutdown, transactions
from jobs.curtain import without_secrets
from jobs.errors import (
    AlreadyRetried,
    Busy,
    HookBroke,
    JobsError,
    NotCancellable,
    NotReconcilable,
    NotResolvable,
    NotRetryable,
    PlanChanged,
    ReconcileRequired,
    UnknownKind,
    VersionChanged,
)
from jobs.models import Job
from jobs.recovery.plan import Check, Plan
from jobs.recovery.preflight import Governing, no_such_job, preflight, visible_job
from jobs.statements import bound_waiting
from jobs.states import Verb, Word
from workspaces import audit
from workspaces.actors import Actor, as_actor
from workspaces.errors import WorkspaceClosed
from workspaces.permissions import require

if TYPE_CHECKING:
    from django.contrib.auth.models import User

T = TypeVar("T")

LOCK_SECONDS = 2
_LOCK_NOT_AVAILABLE = "55P03"
_CONTENTION = frozenset({"40001", "40P01"})
_TRIES = 3

_REFUSALS: dict[str, type[JobsError]] = {
    error.code: error
    for error in (
        AlreadyRetried,
        NotCancellable,
        NotReconcilable,
        NotResolvable,
        NotRetryable,
        ReconcileRequired,
        UnknownKind,
        VersionChanged,
    )
}


@dataclass(frozen=True)
class Deed:
    """Who wants what done to which job, and why."""

    job_id: uuid.UUID | str
    verb: Verb
    actor: Actor
    reason: str
    digest: str | None = None
    operation_id: uuid.UUID | None = None
    request_id: str = ""

    @classmethod
    def of(
        cls,
        job_id: uuid.UUID | str,
        verb: Verb,
        actor: Actor | User,
        reason: str,
        *,
        digest: str | None = None,
        operation_id: uuid.UUID | None = None,
        request_id: str = "",
    ) -> Deed:
        """Check the reason; raises ReasonRequired."""
        return cls(
            job_id,
            verb,
            as_actor(actor),
            audit.reason_given(reason),
            digest,
            operation_id,
            request_id,
        )

    def done(self, work: Callable[[Deed], T]) -> T:
        """Do ``work`` in one transaction; a refusal of it is on record afterwards.

        ``work`` gets the deed with a reason that holds no secret of the job. Raises JobNotFound
        where the actor may not know of the job, and what ``work`` raises.
        """
        seen = visible_job(self.job_id, self.actor)
        deed = replace(self, reason=audit.kept(without_secrets(self.reason, [seen])))
        attempt = audit.Attempt(
            self.actor, self.action, seen.workspace_id, "job", seen.pk, deed.reason, self.request_id
        )
        with audit.attempted(attempt):
            return done(lambda: work(deed))

    @property
    def action(self) -> str:
        """What the audit trail calls it."""
        return f"job.{self.verb.value}"

    def locked(self) -> Job:
        """The job, locked. Raises JobNotFound. Only inside ``done``, which asks who may see it."""
        rows = Job.objects.select_for_update(of=_only_job()).select_related("workspace")
        job = rows.filter(pk=self.job_id).first()
        if job is None:  # pruned at this very moment
            raise no_such_job(self.job_id)
        return job

    def earlier(self, job: Job) -> bool:
        """Whether this very operation was done to this job before (a second POST of one form).

        Raises OperationRepeated where its one-time id was used for something else.
        """
        event = audit.earlier(self.operation_id)
        if event is None or self.operation_id is None:
            return False
        if (event.object_id, event.action) != (str(job.pk), self.action):
            raise audit.OperationRepeated(self.operation_id)
        return True

    def authorised(self, job: Job) -> None:
        require(self.actor, self.verb.value, job.workspace_id, Governing(job))

    def planned(self, job: Job) -> Plan:
        """Plan again under the lock. Raises what blocks, or PlanChanged."""
        plan = preflight(job, self.verb, self.actor)
        if plan.refusal is not None:
            raise _refused(plan, plan.refusal, job)
        if self.digest is not None and self.digest != plan.digest:
            raise PlanChanged(
                "Nothing was done: what would happen has changed since you looked. "
                "Read the plan again and confirm it."
            )
        return plan

    def ask_owner(self, job: Job) -> None:
        """Call the kind's ``before`` hooks; each may raise Refused. Raises HookBroke."""
        spec = registry.find(job.kind)
        for hook in spec.before_hooks if spec else ():
            with _hook_of(job, hook, "Nothing was done"):
                hook(job, self.verb.value)

    def tell_owner(self, job: Job, successor: Job | None = None) -> None:
        """Call the kind's ``after`` hooks; one that raises undoes the whole deed.

        Raises HookBroke. *Hole:* one that sends a bare ``COMMIT`` leaves the deed done, without
        its audit and event.
        """
        spec = registry.find(job.kind)
        for hook in spec.after_hooks if spec else ():
            with _hook_of(job, hook, "Nothing is on record, but look at the job: it may be done"):
                hook(job, self.verb.value, successor)

    def record(self, job: Job, *, before: object = None, after: object = None) -> None:
        audit.record(
            actor=self.actor,
            action=self.action,
            workspace=job.workspace_id,
            object_type="job",
            object_id=str(job.pk),
            reason=self.reason,
            request_id=self.request_id,
            operation_id=self.operation_id,
            before=before,
            after=after,
        )


@contextmanager
def _hook_of(job: Job, hook: Callable[..., None], outcome: str) -> Iterator[None]:
    """What a hook does to the transaction or the process is a refusal that names it."""
    name = f"{hook.__module__}.{hook.__qualname__}"
    mend = f"Its author must mend it, or operate on {job.kind} by a version without it."
    try:
        with guests.guest(f"hook {name} of job {job.pk}"):
            yield
    except guests.Broken as broke:
        if broke.outage and broke.__cause__ is not None:
            raise broke.__cause__ from broke  # the database went away, maybe by itself
        what = "ended the transaction of the deed (it must not commit, roll back or close)"
        raise HookBroke(f"{outcome}: the hook {name} {what}. {mend}") from broke
    except (SystemExit, KeyboardInterrupt) as error:
        if shutdown.ends_process(error):
            raise
        what = f"raised {type(error).__name__}"
        raise HookBroke(f"Nothing was done: the hook {name} {what}. {mend}") from error


def done(work: Callable[[], T]) -> T:
    """Do ``work`` in one transaction; inside the caller's, if there is one.

    Waits at most 2 s for a lock, then raises Busy. Deadlocks and serialisation failures are
    tried again three times, unless the transaction is the caller's.
    """
    within = connection.in_atomic_block
    tries = 1 if within else _TRIES
    for left in reversed(range(tries)):
        try:
            return ending.whole(None, partial(_bounded, work))
        except HookBroke:
            if not within:
                transactions.give_up()
            raise
        except OperationalError as error:
            sqlstate = getattr(error.__cause__, "sqlstate", None)
            if sqlstate == _LOCK_NOT_AVAILABLE:
                raise Busy(
                    "Nothing was done: somebody else is working on this job at this moment. "
                    "Look at it again in a few seconds."
                ) from error
            if sqlstate not in _CONTENTION or left == 0:
                raise
    raise AssertionError("unreachable")


def _bounded(work: Callable[[], T]) -> T:
    bound_waiting(LOCK_SECONDS)
    return work()


def _only_job() -> tuple[str, ...]:
    return ("self",) if connection.features.has_select_for_update_of else ()


def _refused(plan: Plan, check: Check, job: Job) -> Exception:
    if check.code == "workspace_closed":
        return WorkspaceClosed(job.workspace.slug)
    sentence = f"{check.sentence[0].lower()}{check.sentence[1:]}"
    error = _REFUSALS[check.code](f"Nothing was done: {sentence}")
    blocked = [step.name for step in plan.steps if step.word is Word.BLOCKED]
    return error.telling(steps=blocked) if check.code == ReconcileRequired.code else error
