"""What the kernel refuses, each with a stable code and a sentence that says what was not done."""

from __future__ import annotations

from workspaces.errors import FiredoorError


class JobsError(FiredoorError):
    """Base of every refusal of the kernel. Nothing was written."""


class UnknownKind(JobsError):
    code = "unknown_kind"
    status = 422


class ParamsInvalid(JobsError):
    code = "params_invalid"
    status = 422


class ParamsTooLarge(JobsError):
    code = "params_too_large"
    status = 413


class KeyInvalid(JobsError):
    code = "key_invalid"
    status = 422


class KeyReserved(JobsError):
    code = "key_reserved"
    status = 422


class KeyConflict(JobsError):
    code = "job_key_reused"
    status = 422


class MomentInvalid(JobsError):
    code = "moment_invalid"
    status = 422


class JobNotFound(JobsError):
    code = "job_not_found"
    status = 404


class NotRetryable(JobsError):
    code = "not_retryable"
    status = 409


class NotCancellable(JobsError):
    code = "not_cancellable"
    status = 409


class NotResolvable(JobsError):
    code = "not_resolvable"
    status = 409


class NotReconcilable(JobsError):
    code = "not_reconcilable"
    status = 409


class AlreadyRetried(JobsError):
    code = "already_retried"
    status = 409


class ReconcileRequired(JobsError):
    code = "reconcile_required"
    status = 409


class PlanChanged(JobsError):
    code = "plan_changed"
    status = 409


class VersionChanged(JobsError):
    code = "version_changed"
    status = 409


class LockHeld(JobsError):
    code = "lock_held"
    status = 409


class OperationNotFound(JobsError):
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
    code = "nothing_eligible"
    status = 409


class Busy(JobsError):
    code = "busy"
    status = 503


class Refused(JobsError):
    """A kind's ``before`` hook refuses a verb: ``Refused(code, sentence)``."""

    status = 409

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
