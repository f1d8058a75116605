"""Every statement that moves a job or writes under its fence. Nothing else does.

The fence is attempt number *and* worker: a worker's write locks its job row and matches both in
the same statement, so a late worker changes nothing. (The number alone can be issued twice, after
a crash that forgot an asynchronously committed claim. A bare ``INSERT … SELECT … WHERE attempt=``
is no fence under READ COMMITTED.) Database time decides everywhere, never a worker's clock.

No job becomes final with an open intent except as ``dead(uncertain)``: every statement that makes
a job final asks ``OPEN`` in the same statement.
"""

from jobs.moves.claiming import claim
from jobs.moves.ending import (
    ask_cancel,
    bury,
    cancel_queued,
    defer,
    end,
    retry_later,
    succeed,
    succeed_along,
)
from jobs.moves.evidence import observe, resolve
from jobs.moves.incoming import carry_step, insert, insert_many, insert_successor
from jobs.moves.running import (
    begin_step,
    deny_step,
    finish_step,
    keep_late_output,
    progress,
    renew,
)
from jobs.moves.waking import (
    change_lane,
    change_queue,
    mark_startable,
    mark_unstartable,
    park_behind_gates,
    take_due,
    take_gate_shares,
    take_shares,
)

__all__ = [
    "ask_cancel",
    "begin_step",
    "bury",
    "cancel_queued",
    "carry_step",
    "change_lane",
    "change_queue",
    "claim",
    "defer",
    "deny_step",
    "end",
    "finish_step",
    "insert",
    "insert_many",
    "insert_successor",
    "keep_late_output",
    "mark_startable",
    "mark_unstartable",
    "observe",
    "park_behind_gates",
    "progress",
    "renew",
    "resolve",
    "retry_later",
    "succeed",
    "succeed_along",
    "take_due",
    "take_gate_shares",
    "take_shares",
]
