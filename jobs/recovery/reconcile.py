"""How it is recorded what somebody observed about a step whose outcome nobody knew."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from jobs import locks, moves
from jobs.ending import told_of
from jobs.errors import NotReconcilable, ParamsInvalid
from jobs.events import emit
from jobs.models import Job
from jobs.params import OutputRejected, encode_output
from jobs.recovery.deed import Deed
from jobs.recovery.preflight import visible_job
from jobs.states import Observation, Verb
from workspaces.actors import Actor

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def reconcile(
    job_id: uuid.UUID | str,
    *,
    step: str,
    outcome: str,
    actor: Actor | User,
    reason: str,
    output: object = None,
    operation_id: uuid.UUID | None = None,
    request_id: str = "",
) -> Job:
    """Record that an open step ``happened`` (with this ``output``) or ``did_not_happen``.

    One observation a step, written once; a later resume keeps or runs the step accordingly.
    Nothing is sent to the provider. *Hole:* it is believed as it is given.
    Raises, having changed nothing: JobNotFound, NotAllowed, NotReconcilable (not final, no such
    open step, observed already, or retried already), ParamsInvalid (the output is not JSON),
    Refused, ReasonRequired, Busy.
    """
    deed = Deed.of(
        job_id, Verb.RECONCILE, actor, reason, operation_id=operation_id, request_id=request_id
    )
    observed = Observation(outcome)
    try:
        text = encode_output(output) if observed is Observation.HAPPENED else None
    except OutputRejected as error:
        raise ParamsInvalid(f"Nothing was recorded: {error}. Pass the output as JSON.") from error
    return deed.done(lambda clean: _reconciled(clean, step, observed, text))


def _reconciled(deed: Deed, step: str, observed: Observation, output: str | None) -> Job:
    job = deed.locked()
    deed.authorised(job)
    if deed.earlier(job):
        return job
    deed.planned(job)
    successor = Job.objects.filter(retry_of_id=job.pk).first()
    if successor is not None:
        raise NotReconcilable(
            "Nothing was recorded: the job was retried already. Reconcile its newest retry "
            f"instead: job {successor.pk}."
        )
    deed.ask_owner(job)
    if not moves.observe(
        job.pk, name=step, observed=observed.value, output=output, actor=deed.actor.id
    ):
        raise NotReconcilable(
            f"Nothing was recorded: step {step!r} is not open, or was observed already. A keyed "
            "step opens when its provider has forgotten the key; until then a resume sends it "
            "again. "
            f"See its steps with manage.py job show {job.pk}."
        )
    locks.release(job.pk)
    deed.tell_owner(job)
    after = {"step": step, "outcome": observed.value}
    deed.record(job, before={"state": job.state, "cause": job.cause}, after=after)
    emit("job.reconciled", job.workspace_id, job.pk, {**told_of(job), **after})
    return visible_job(job.pk, deed.actor)
