"""What the kernel refuses, each with a stable code and a sentence that says what was not done."""

from __future__ import annotations

from typing import Any, Self

from workspaces.errors import FiredoorError


class JobsError(FiredoorError):
    """Base of every refusal of the kernel. Nothing was written.

    ``members`` says to programs what the sentence says to people.
    """

    members: dict[str, Any] = {}

    def telling(self, **members: Any) -> Self:
        """Itself, with these members."""
        self.members = members
        return self


class UnknownKind(JobsError):
    """No code here knows a kind of that name."""

    code = "unknown_kind"
    status = 422


class ParamsInvalid(JobsError):
    """The params are not what the kind takes, or not plain JSON."""

    code = "params_invalid"
    status = 422


class ParamsTooLarge(JobsError):
    """The params take more than 64 kB."""

    code = "params_too_large"
    status = 413


class KeyInvalid(JobsError):
    """The key is empty, too long, or holds what cannot be shown."""

    code = "key_invalid"
    status = 422


class KeyReserved(JobsError):
    """The key begins with a prefix that belongs to the platform."""

    code = "key_reserved"
    status = 422


class KeyConflict(JobsError):
    """The key belongs to a job of that kind with other params."""

    code = "job_key_reused"
    status = 422


class MomentInvalid(JobsError):
    """The moment to run at has no time zone, or lies where none can."""

    code = "moment_invalid"
    status = 422


class JobNotFound(JobsError):
    """There is no such job that the actor may see."""

    code = "job_not_found"
    status = 404


class NotRetryable(JobsError):
    """The job is neither dead nor cancelled."""

    code = "not_retryable"
    status = 409


class NotCancellable(JobsError):
    """The job has ended already."""

    code = "not_cancellable"
    status = 409


class NotResolvable(JobsError):
    """The job is no dead letter, or was resolved before."""

    code = "not_resolvable"
    status = 409


class NotReconcilable(JobsError):
    """The job has not ended, or the step is not open any more."""

    code = "not_reconcilable"
    status = 409


class AlreadyRetried(JobsError):
    """The job has a successor, made in another mode."""

    code = "already_retried"
    status = 409


class ReconcileRequired(JobsError):
    """A step may have happened: what became of it must be recorded first."""

    code = "reconcile_required"
    status = 409


class PlanChanged(JobsError):
    """What would happen is not what was read and confirmed."""

    code = "plan_changed"
    status = 409


class VersionChanged(JobsError):
    """The kind is newer than the job: its steps may not fit any more."""

    code = "version_changed"
    status = 409


class LockHeld(JobsError):
    """A running job holds the lock."""

    code = "lock_held"
    status = 409


class OperationNotFound(JobsError):
    """There is no such operation that the actor may see."""

    code = "operation_not_found"
    status = 404


class OperationInvalid(JobsError):
    """A verb, filter, rate or size that no operation can have."""

    code = "operation_invalid"
    status = 422


class OperationConflict(JobsError):
    """The operation's state does not allow the deed."""

    code = "operation_state"
    status = 409


class NothingEligible(JobsError):
    """None of what was selected may be done."""

    code = "nothing_eligible"
    status = 409


class Busy(JobsError):
    """Somebody else is working on the same job at this moment."""

    code = "busy"
    status = 503


class HookBroke(JobsError):
    """A kind's hook ended the transaction of the deed, or tried to end the process."""

    code = "hook_broke"
    status = 409


class Refused(JobsError):
    """A kind's ``before`` hook refuses a verb: ``Refused(code, sentence)``."""

    status = 409

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
