"""What webhooks tell of: each type of event, what its data holds, and an example.

A type is here as soon as the code emits it, or before that as *reserved*: one may subscribe to it,
nothing tells it yet, and its data may still change. The page for receivers is written from this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

TEST = "webhook.test"
OPT_IN = "job.succeeded"
"""One for every job that goes well: only who asks for it by name gets it."""
ALL = "*"

Fields = dict[str, str]
_TEXT, _ID, _WHOLE = "text", "id", "whole number"


@dataclass(frozen=True)
class EventType:
    """One type. ``fields`` says what each field of ``data`` is; ``example`` has all of them.

    ``reserved``: the part of Firedoor that will tell it does not exist yet.
    """

    name: str
    meaning: str
    fields: Fields
    example: dict[str, Any]
    reserved: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """``data`` as JSON Schema. More fields may come; none goes, unless it is reserved."""
        kinds: dict[str, dict[str, Any]] = {
            _TEXT: {"type": "string"},
            _ID: {"type": ["string", "null"]},
        }
        return {
            "type": "object",
            "required": sorted(self.fields),
            "properties": {
                name: {**kinds.get(what, {}), "description": what}
                for name, what in sorted(self.fields.items())
            },
        }


_COMMON: Fields = {
    "subject": "the id of what it is about",
    "sequence": "grows with every event: sort by it",
}
_JOB: Fields = {
    **_COMMON,
    "kind": _TEXT,
    "key": _TEXT,
    "root_id": _ID,
    "retry_of": _ID,
    "state": _TEXT,
    "cause": _TEXT,
    "attempt": _WHOLE,
    "step": _TEXT,
    "error_class": _TEXT,
    "message": _TEXT,
    "reason": _TEXT,
    "fingerprint": _TEXT,
    "request_id": _TEXT,
    "traceparent": _TEXT,
}
_JOB_EXAMPLE: dict[str, Any] = {
    "subject": "0192f0c1-5a7e-7b1e-8a55-3f0d5c1b2a10",
    "sequence": 4711,
    "kind": "payments.charge",
    "key": "order-42",
    "root_id": "0192f0c1-5a7e-7b1e-8a55-3f0d5c1b2a10",
    "retry_of": None,
    "state": "dead",
    "cause": "exhausted",
    "attempt": 4,
    "step": "charge",
    "error_class": "httpx2.ConnectError",
    "message": "the provider cannot be reached",
    "reason": "transient; 3 retries are used up",
    "fingerprint": "9f3c1d2b7a6e5f40",
    "request_id": "req-7f2a",
    "traceparent": "",
}
_ALERT: Fields = {
    **_COMMON,
    "rule": _TEXT,
    "cause_key": _TEXT,
    "severity": _TEXT,
    "title": _TEXT,
    "resolution": _TEXT,
}
_ALERT_EXAMPLE: dict[str, Any] = {
    "subject": "17",
    "sequence": 4712,
    "rule": "dead_letter",
    "cause_key": "dead_letter/payments.charge/exhausted/9f3c1d2b7a6e5f40",
    "severity": "error",
    "title": "payments.charge used up its retries at step 'charge': ConnectError",
    "resolution": "",
}
_OPERATION: Fields = {
    **_COMMON,
    "verb": _TEXT,
    "state": _TEXT,
    "note": _TEXT,
    "actor": _TEXT,
    "reason": _TEXT,
    "counts": "how many items have each outcome",
    "resolution": _TEXT,
}
_OPERATION_EXAMPLE: dict[str, Any] = {
    "subject": "0192f0c1-5a7e-7b1e-8a55-3f0d5c1b2a11",
    "sequence": 4713,
    "verb": "resume",
    "state": "finished",
    "note": "",
    "actor": "user:7",
    "reason": "the provider is back",
    "counts": {"pending": 0, "done": 40, "skipped": 2, "failed": 0},
    "resolution": "",
}
_WORKSPACE: Fields = {
    **_COMMON,
    "workspace": "its slug",
    "registration": "what the registry calls it",
    "job_id": _ID,
}
_WORKSPACE_EXAMPLE: dict[str, Any] = {
    "subject": "acme",
    "sequence": 4714,
    "workspace": "acme",
    "registration": "reg-1f3a",
    "job_id": "0192f0c1-5a7e-7b1e-8a55-3f0d5c1b2a13",
}
_RUN: Fields = {
    **_COMMON,
    "stack": _TEXT,
    "state": _TEXT,
    "risk": "1 creates, 2 changes, 3 destroys or replaces",
    "counts": "how many resources the plan adds, changes and removes",
    "digest": "of the plan: what an approval is for",
    "job_id": _ID,
    "actor": _TEXT,
    "message": _TEXT,
}
_RUN_EXAMPLE: dict[str, Any] = {
    "subject": "0192f0c1-5a7e-7b1e-8a55-3f0d5c1b2a14",
    "sequence": 4715,
    "stack": "network",
    "state": "needs_approval",
    "risk": 2,
    "counts": {"add": 1, "change": 3, "remove": 0},
    "digest": "9b1c5c0d7f0e4a52",
    "job_id": "0192f0c1-5a7e-7b1e-8a55-3f0d5c1b2a15",
    "actor": "user:7",
    "message": "",
}
_PIPELINE: Fields = {
    **_COMMON,
    "pipeline": _TEXT,
    "state": _TEXT,
    "verification": _TEXT,
    "rollback": "whether one is offered",
    "job_id": _ID,
    "url": _TEXT,
}
_PIPELINE_EXAMPLE: dict[str, Any] = {
    "subject": "0192f0c1-5a7e-7b1e-8a55-3f0d5c1b2a16",
    "sequence": 4716,
    "pipeline": "deploy-web",
    "state": "failed",
    "verification": "unhealthy",
    "rollback": True,
    "job_id": "0192f0c1-5a7e-7b1e-8a55-3f0d5c1b2a17",
    "url": "https://ci.example.com/runs/812",
}
_COMMAND: Fields = {
    **_COMMON,
    "agent": _TEXT,
    "command": _TEXT,
    "state": _TEXT,
    "job_id": _ID,
    "message": _TEXT,
}
_COMMAND_EXAMPLE: dict[str, Any] = {
    "subject": "0192f0c1-5a7e-7b1e-8a55-3f0d5c1b2a18",
    "sequence": 4717,
    "agent": "edge-4",
    "command": "restart_service",
    "state": "succeeded",
    "job_id": "0192f0c1-5a7e-7b1e-8a55-3f0d5c1b2a19",
    "message": "",
}
_SCHEDULE: Fields = {
    **_COMMON,
    "schedule": _TEXT,
    "scheduled_for": "the moment that was missed",
    "missed": "how many moments in a row",
    "reason": _TEXT,
}
_SCHEDULE_EXAMPLE: dict[str, Any] = {
    "subject": "0192f0c1-5a7e-7b1e-8a55-3f0d5c1b2a1a",
    "sequence": 4718,
    "schedule": "nightly-sync",
    "scheduled_for": "2026-11-30T02:00:00Z",
    "missed": 1,
    "reason": "the one before had not ended",
}


def _job(name: str, meaning: str, /, more: Fields | None = None, **changed: Any) -> EventType:
    return EventType(name, meaning, {**_JOB, **(more or {})}, {**_JOB_EXAMPLE, **changed})


def _reserved(name: str, meaning: str, fields: Fields, example: dict[str, Any]) -> EventType:
    return EventType(name, f"{meaning} *Reserved:* not told yet.", fields, example, reserved=True)


_ENDED_WELL: dict[str, Any] = {
    "cause": "",
    "step": "",
    "error_class": "",
    "message": "",
    "reason": "",
}
_TYPES = (
    _job(
        OPT_IN,
        "A job succeeded. Told only to endpoints that name it: there is one for every job.",
        state="succeeded",
        fingerprint="",
        **_ENDED_WELL,
    ),
    _job("job.dead", "A job ended dead: nothing tries it again by itself."),
    _job(
        "job.uncertain",
        "A job ended without anybody knowing whether its effect happened.",
        cause="uncertain",
        reason="worker lost",
    ),
    _job("job.cancelled", "A job was cancelled.", state="cancelled", **_ENDED_WELL),
    _job(
        "job.retried",
        "Somebody retried a dead or cancelled job; `successor` is the new one.",
        {"successor": _ID, "mode": _TEXT, "kept": "names of the steps that are not run again"},
        successor="0192f0c1-5a7e-7b1e-8a55-3f0d5c1b2a12",
        mode="resume",
        kept=["reserve"],
    ),
    _job(
        "job.resolved",
        "Somebody closed a dead letter without running it.",
        {"resolution": _TEXT},
        resolution="paid by hand, see INC-42",
    ),
    EventType("alert.opened", "Something needs a person.", _ALERT, _ALERT_EXAMPLE),
    EventType(
        "alert.resolved",
        "It needs nobody any more.",
        _ALERT,
        {**_ALERT_EXAMPLE, "resolution": "The last affected job succeeded on retry."},
    ),
    EventType(
        "operation.finished",
        "A bulk deed is through with its items.",
        _OPERATION,
        _OPERATION_EXAMPLE,
    ),
    EventType(
        "operation.paused",
        "A bulk deed paused by itself.",
        _OPERATION,
        {**_OPERATION_EXAMPLE, "state": "paused", "note": "a canary could not be done"},
    ),
    EventType(
        "workspace.ready",
        "A workspace was provisioned, verified and registered: it can be used.",
        _WORKSPACE,
        _WORKSPACE_EXAMPLE,
    ),
    _reserved("run.needs_approval", "A plan waits for somebody to approve it.", _RUN, _RUN_EXAMPLE),
    _reserved(
        "run.applied",
        "An approved plan was applied and verified.",
        _RUN,
        {**_RUN_EXAMPLE, "state": "applied"},
    ),
    _reserved(
        "run.failed",
        "A plan or its apply failed.",
        _RUN,
        {**_RUN_EXAMPLE, "state": "failed", "message": "quota exceeded"},
    ),
    _reserved("pipeline.finished", "A pipeline came to its end.", _PIPELINE, _PIPELINE_EXAMPLE),
    _reserved("command.finished", "An agent ended a command.", _COMMAND, _COMMAND_EXAMPLE),
    _reserved(
        "schedule.missed",
        "A scheduled moment passed without its job.",
        _SCHEDULE,
        _SCHEDULE_EXAMPLE,
    ),
)
CATALOGUE = {one.name: one for one in _TYPES}
KEPT_INSIDE = {
    "job.hook_failed": "a fault of ours, which upkeep repeats and the doctor tells",
    "job.late_write": "evidence beside a job whose end was told already",
    "job.reconciled": "an observation; what it leads to is told as the job's retry or resolution",
    "operation.stopped": "somebody's own deed",
    "operation.resolved": "somebody's own deed; the alert that it ends is told",
    "webhook.endpoint_failing": "told as an alert, to other endpoints",
    "webhook.endpoint_active": "told as the end of an alert",
    "webhook.endpoint_disabled": "told as an alert, to other endpoints",
    "webhook.endpoint_full": "told as an alert, to other endpoints",
    "webhook.endpoint_drained": "told as the end of an alert",
}
"""Events of the bus that no endpoint is told, each with the reason."""
SUBSCRIBABLE = (*CATALOGUE, ALL)


def is_subscribed(events: list[str], event_type: str) -> bool:
    """Whether an endpoint with these subscriptions gets the type; ``*`` is all but the opt-in."""
    return event_type in events or (ALL in events and event_type != OPT_IN)
