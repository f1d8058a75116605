"""What a run has recorded of its steps, and how it records more: every write under the fence."""

from __future__ import annotations

import json
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import DurationField, ExpressionWrapper, F
from django.db.models.functions import Now
from django.utils import timezone

from jobs import locks, moves, shutdown
from jobs.events import emit
from jobs.fence import Claim, Standing
from jobs.models import Job
from jobs.models import Step as StepRow
from jobs.over import seconds_until_over
from jobs.params import OutputRejected, encode_output
from jobs.statements import persist
from jobs.states import StepState, WaitReason
from jobs.steps import Step
from jobs.stops import CancelRequested, DeadlinePassed, Defer, LeaseLost, OutputUnusable, Uncertain
from workspaces.redaction import learn, secrets_in

logger = logging.getLogger(__name__)
RENAMED = (
    "it was started and no outcome is recorded, and the code here has no such step (was it renamed "
    "or removed?): nothing was sent since"
)


@dataclass
class Checkpoint:
    """A recorded step. ``opens_in`` is in seconds from the moment it was loaded."""

    state: StepState
    output: object = None
    output_error: str = ""
    attempt: int = 0
    written_by: uuid.UUID | None = None
    intent_at: datetime | None = None
    opens_in: float = 0.0
    late: bool = False
    late_output: object = None


class Journal:
    """The checkpoints of one attempt. Belongs to the thread that runs the handler.

    Each write retries in place while the database is out of reach, until the attempt's hard time
    limit, and raises LeaseLost where the fence matches nothing: somebody else owns the job, or it
    is final. That the lease ran out meanwhile decides nothing: the fence does.
    """

    def __init__(
        self,
        claim: Claim,
        redact: Sequence[str] = (),
        can_call: Callable[[str], bool] = lambda _name: True,
        read_back: Sequence[str] | None = None,
    ) -> None:
        self.claim = claim
        self.fence = claim.fence
        self.checkpoints = _stored(claim, read_back) if claim.has_history else {}
        self.lost = False
        self.took_locks = False
        self._redact = redact
        self._loaded = time.monotonic()
        self._pid = os.getpid()
        self._standing = Standing(cancel_requested=False, deadline_passed=False)
        for checkpoint in self.checkpoints.values():
            self._learn(checkpoint.output)
        self._orphan = next((n for n in self._unsettled() if not can_call(n)), None)

    def boundary(self) -> None:
        """Raise what stops the run here: lost lease, cancel, passed deadline, stopping worker.

        An intent of an earlier attempt that nothing here can settle stops it as well, whoever
        calls what: its step may do the same under another name.
        """
        if self.lost:
            raise LeaseLost
        if self._standing.cancel_requested:
            raise CancelRequested
        if self._standing.deadline_passed:
            raise DeadlinePassed
        if shutdown.asked():
            raise Defer(0.0, "its worker is stopping", wait=WaitReason.INTERRUPTED)
        if self._orphan is not None:
            raise Uncertain(self._orphan, RENAMED)

    def noted(self, standing: Standing | None) -> None:
        """Take in what a fenced write told about the job; None means that the lease is lost."""
        if standing is None:
            self.lost = True
            raise LeaseLost
        self._standing = standing

    def is_open(self, checkpoint: Checkpoint) -> bool:
        """Whether an intent has no outcome and sending again is not known to be safe."""
        if checkpoint.state is not StepState.STARTED or checkpoint.late:
            return False
        return checkpoint.opens_in <= time.monotonic() - self._loaded

    def _unsettled(self) -> Iterator[str]:
        """The steps that were started and have no outcome, whether their key still holds or not."""
        for name, checkpoint in self.checkpoints.items():
            if checkpoint.state is StepState.STARTED and not checkpoint.late:
                yield name

    def has_started_steps(self) -> bool:
        """Whether any intent, open or not, has no outcome."""
        return any(c.state is StepState.STARTED for c in self.checkpoints.values())

    def open_steps(self) -> list[str]:
        """The steps whose intent is open."""
        return [name for name, checkpoint in self.checkpoints.items() if self.is_open(checkpoint)]

    def is_own(self, checkpoint: Checkpoint) -> bool:
        """Whether this very attempt recorded it."""
        return checkpoint.attempt == self.fence.attempt and checkpoint.written_by is None

    def hold(self) -> None:
        """Lock the job row by the fence, inside the caller's transaction, and extend the lease."""
        self.noted(moves.renew(self.fence))

    def renew(self) -> None:
        self._write(lambda: moves.renew(self.fence))

    def end_if_forked(self) -> None:
        """End a fork that came back from the author's code: the job is its parent's."""
        if os.getpid() != self._pid:
            logger.error("job.fork_came_back", extra={"job_id": str(self.fence.job_id)})
            os._exit(1)

    def progress(self, text: str) -> None:
        self._write(lambda: moves.progress(self.fence, text))

    def begin(self, step: Step[..., object]) -> None:
        """Commit the intent of ``step``, before anything is done about it."""
        remembers = step.remembers.total_seconds() if step.remembers else 0.0
        self._write(
            lambda: moves.begin_step(
                self.fence,
                name=step.name,
                effect=step.effect.value,
                boundary=step.boundary,
                remembers=remembers,
            )
        )
        self.checkpoints[step.name] = Checkpoint(
            StepState.STARTED,
            attempt=self.fence.attempt,
            intent_at=timezone.now(),
            opens_in=time.monotonic() - self._loaded + remembers,
        )

    def deny(self, step: Step[..., object]) -> None:
        """Close an intent whose effect surely did not happen."""
        self._write(lambda: moves.deny_step(self.fence, name=step.name))
        self.checkpoints[step.name] = Checkpoint(StepState.NOT_DONE, attempt=self.fence.attempt)

    def store(self, step: Step[..., object], output: object) -> object:
        """Commit that ``step`` is done, and return its output as any later attempt will see it.

        An output that cannot be stored is recorded as such: the effect has happened and must
        never run again. Raises OutputUnusable then. After a lost lease the output of a step with
        an intent is kept as evidence, and LeaseLost raised.
        """
        try:
            text: str | None = encode_output(output)
            fault = ""
        except OutputRejected as error:
            text, fault = None, str(error)[:300]
        try:
            self._write(lambda: self._finish(step, text, fault))
        except LeaseLost:
            if step.begins and text is not None:
                self._keep_late(step, text)
            raise
        return self.remember(step, text, fault)

    def store_within(self, step: Step[..., object], output: object) -> str:
        """Write the checkpoint inside the caller's transaction; ``remember`` it afterwards.

        Raises OutputRejected.
        """
        text = encode_output(output)
        self.noted(self._finish(step, text, ""))
        return text

    def seconds_until_over(self, checkpoint: Checkpoint) -> float | None:
        """How long until the attempt that wrote an intent is surely over; None: nobody can know."""
        return seconds_until_over(checkpoint.written_by or self.fence.job_id, checkpoint.attempt)

    def lock(self, name: str, *, keep: bool) -> bool:
        """Take a named lock for this job; False while another job holds it."""
        with transaction.atomic():
            self.hold()
            self.took_locks = True
            claim = self.claim
            return locks.take(self.fence, claim.workspace_id, claim.root_id, name, keep=keep)

    def _finish(self, step: Step[..., object], text: str | None, fault: str) -> Standing | None:
        return moves.finish_step(
            self.fence,
            name=step.name,
            effect=step.effect.value,
            boundary=step.boundary,
            output=text,
            output_error=fault,
        )

    def remember(self, step: Step[..., object], text: str | None, fault: str = "") -> object:
        """Take a committed checkpoint in; its output, or OutputUnusable if that had a ``fault``."""
        output = None if text is None else json.loads(text)
        self.checkpoints[step.name] = Checkpoint(
            StepState.DONE, output, fault, attempt=self.fence.attempt
        )
        if fault:
            raise OutputUnusable(step.name, fault)
        self._learn(output)
        return output

    def _write(self, write: Callable[[], Standing | None]) -> None:
        self.noted(persist(write, self.claim.patience))

    def _keep_late(self, step: Step[..., object], text: str) -> None:
        with transaction.atomic():
            job = Job.objects.select_for_update().get(pk=self.fence.job_id)
            if moves.keep_late_output(self.fence, name=step.name, output=text):
                data = {"kind": job.kind, "step": step.name, "attempt": self.fence.attempt}
                emit("job.late_write", job.workspace_id, job.pk, data)

    def _learn(self, output: object) -> None:
        learn(secrets_in(output, self._redact))


def _stored(claim: Claim, names: Sequence[str] | None) -> dict[str, Checkpoint]:
    opens = ExpressionWrapper(F("opens_at") - Now(), output_field=DurationField())
    rows = StepRow.objects.filter(job_id=claim.fence.job_id).annotate(opens_in=opens)
    if names is not None:
        rows = rows.filter(name__in=names)
    return {row.name: _checkpoint(row) for row in rows}


def _checkpoint(row: StepRow) -> Checkpoint:
    opens_in = getattr(row, "opens_in", None)
    return Checkpoint(
        state=StepState(row.state),
        output=row.output,
        output_error=row.output_error,
        attempt=row.attempt,
        written_by=row.carried_from,
        intent_at=row.intent_at,
        opens_in=opens_in.total_seconds() if opens_in is not None else 0.0,
        late=row.late_at is not None,
        late_output=row.late_output,
    )
