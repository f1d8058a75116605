"""What a worker holds while it owns a job, and what it is told when it writes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from jobs.states import AttemptOutcome, State
from jobs.tracing import Trace


class Wake(NamedTuple):
    """Whom a message is about and where it goes; without a queue, to that of its kind."""

    job_id: uuid.UUID
    kind: str
    queue: str = ""


@dataclass(frozen=True)
class Fence:
    """Who may write: one attempt of one worker. ``lease`` in seconds."""

    job_id: uuid.UUID
    attempt: int
    worker: str
    lease: float

    def params(self, **more: Any) -> dict[str, Any]:
        return {
            "id": self.job_id,
            "attempt": self.attempt,
            "worker": self.worker,
            "lease": self.lease,
            **more,
        }


@dataclass(frozen=True)
class Standing:
    """What a fenced write learns about its job on the way."""

    cancel_requested: bool
    deadline_passed: bool


def words_of(
    job_id: uuid.UUID,
    kind: str,
    attempt: int,
    workspace_id: int,
    request_id: str,
    traceparent: str,
) -> dict[str, Any]:
    """What every log line about an attempt carries; ids that nobody gave are empty."""
    return {
        "job_id": str(job_id),
        "kind": kind,
        "attempt": attempt,
        "workspace": workspace_id,
        "request_id": request_id,
        "trace_id": traceparent[3:35],
    }


@dataclass(frozen=True)
class Claim:
    """A job as the worker that won it sees it. ``params`` is JSON text.

    ``kill_at`` is when the attempt's process is killed, by the monotonic clock of that process: a
    little before the row's ``kill_at``, never after it.
    """

    fence: Fence
    kill_at: float
    kind: str
    key: str
    params: str
    version: int
    workspace_id: int
    root_id: uuid.UUID
    epoch: int
    failures: int
    losses: int
    seconds_left: float | None
    is_retry: bool
    request_id: str
    traceparent: str
    gate: str

    @property
    def words(self) -> dict[str, Any]:
        """What every log line about this attempt carries."""
        fence = self.fence
        return words_of(
            fence.job_id,
            self.kind,
            fence.attempt,
            self.workspace_id,
            self.request_id,
            self.traceparent,
        )

    @property
    def patience(self) -> float:
        """For how many seconds a write is tried again while the database is out of reach.

        Until the process is killed: the fence decides, not the lease. Where nothing kills it, in
        inline mode, for a lease at least.
        """
        return max(self.fence.lease, self.kill_at - time.monotonic())

    @property
    def trace(self) -> Trace:
        """What calls of this attempt, and the jobs it enqueues, carry."""
        return Trace(self.request_id, self.traceparent, str(self.fence.job_id))

    @property
    def has_history(self) -> bool:
        """Whether steps may be stored already: a first attempt of a first job has none."""
        return self.fence.attempt > 1 or self.is_retry


@dataclass(frozen=True)
class AttemptRecord:
    """What is kept of an attempt. Texts are scrubbed and within their limits already."""

    WORDS: ClassVar[tuple[str, ...]] = (
        *("classification", "reason", "step"),
        *("error_class", "message", "traceback", "fingerprint"),
    )

    outcome: AttemptOutcome
    classification: str = ""
    reason: str = ""
    step: str = ""
    error_class: str = ""
    message: str = ""
    traceback: str = ""
    fingerprint: str = ""
    cost: str | None = None
    provider_request_id: str = ""

    @property
    def says_nothing(self) -> bool:
        """Whether there are no words in it, as of an attempt that simply succeeded."""
        return not any(getattr(self, name) for name in self.WORDS)

    def params(self) -> dict[str, Any]:
        return {**self.__dict__, "outcome": self.outcome.value, "reason": self.reason[:300]}


@dataclass(frozen=True)
class Along:
    """Rows of an author's own that a plain success writes in the very statement that ends its job.

    Instead of the kind's ``after`` hooks, all of whose work ``writes`` must do: common table
    expressions that read the ended job as ``j``. ``where`` is a condition on ``jobs_job``. Where it
    does not hold, or anything else has to follow, ``otherwise`` is called before the job ends in
    the usual way, hooks and all; it must be safe to call after ``writes`` was committed.
    *Hole:* where the process dies, or the handler raises, after it has set this, neither is done.
    """

    where: str
    writes: str
    params: Mapping[str, Any]
    otherwise: Callable[[], None]


@dataclass(frozen=True)
class Ended:
    """The state a job was found in after its attempt was closed."""

    state: State
    cause: str
