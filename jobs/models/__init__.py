"""The kernel's records."""

from jobs.models.attempt import Attempt
from jobs.models.event import Event
from jobs.models.gate import Gate
from jobs.models.job import DeadLetter, Job
from jobs.models.lock import Lock
from jobs.models.operation import Operation, OperationItem
from jobs.models.step import Step
from jobs.models.upkeep import Upkeep

__all__ = [
    "Attempt",
    "DeadLetter",
    "Event",
    "Gate",
    "Job",
    "Lock",
    "Operation",
    "OperationItem",
    "Step",
    "Upkeep",
]
