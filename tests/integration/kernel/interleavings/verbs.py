"""What an operator's verb must do to the model, and when it must be refused."""

from __future__ import annotations

from copy import copy

from tests.integration.kernel.interleavings.model import Checkpoint, Model, Record, can_be_asked
from tests.integration.kernel.interleavings.weave import NOT_CARRIED


class Refusal(Exception):
    """The verb must be refused, whatever the words."""


def cancel(model: Model, record: Record) -> None:
    """A queued job ends at once; a running one is asked to."""
    if record.final:
        raise Refusal
    record.cancel = True
    if record.state == "queued":
        model.ended(record, "cancelled")


def resolve(record: Record) -> None:
    if record.state != "dead" or record.resolved or record.successor is not None:
        raise Refusal
    record.resolved = True


def reconcile(record: Record, step: str, outcome: str, output: object, now: float) -> None:
    """Written once, about a step that is open, or is done without its output."""
    each = record.checkpoints.get(step)
    if not record.final or record.successor is not None or each is None or each.observed:
        raise Refusal
    lacks_output = each.state == "done" and each.fault and outcome == "happened"
    if not each.is_open(now) and not lacks_output:
        raise Refusal
    each.observed, each.observed_output = outcome, output


def retry(model: Model, record: Record, mode: str, name: str) -> tuple[Record, bool]:
    """The one successor, and whether it is new."""
    if record.successor is not None:
        if record.successor.mode != mode:
            raise Refusal
        return record.successor, False
    if record.state not in ("dead", "cancelled") or model.closed:
        raise Refusal
    carried = _restarted(model, record) if mode == "restart" else _resumed(model, record)
    made = model.enqueued(name, record.kind, record.steps, record.account)
    made.parent, made.mode = record, mode
    made.epoch = record.epoch + (mode == "restart")
    made.checkpoints = carried
    record.successor = made
    return made, True


def _restarted(model: Model, record: Record) -> dict[str, Checkpoint]:
    """Nothing is carried; refused while anything is open."""
    if record.has_open(model.now):
        raise Refusal
    return {}


def _resumed(model: Model, record: Record) -> dict[str, Checkpoint]:
    """What is done is kept, what is in doubt is asked about; refused where nobody can be asked."""
    carried: dict[str, Checkpoint] = {}
    for name, each in record.checkpoints.items():
        kept = _kept(name, each, model.now)
        if kept is not None:
            carried[name] = kept
    return carried


def _kept(name: str, each: Checkpoint, now: float) -> Checkpoint | None:
    if each.state == "done":
        if name in NOT_CARRIED:
            return None
        if each.observed:
            return _as_done(each, each.observed_output)
        return _as_done(each, each.output, fault=each.fault)
    if each.observed == "happened":
        return _as_done(each, each.observed_output)
    if each.late:
        return _as_done(each, each.late_output)
    if each.state == "not_done" or each.observed == "did_not_happen":
        return None
    if each.effect == "once" or each.is_open(now):
        if not can_be_asked(name):
            raise Refusal
    return _copied(each)


def _as_done(each: Checkpoint, output: object, *, fault: bool = False) -> Checkpoint:
    made = _copied(each)
    made.state, made.output, made.fault = "done", output, fault
    return made


def _copied(each: Checkpoint) -> Checkpoint:
    """Evidence of its worker goes with it, what an operator observed does not."""
    made = copy(each)
    made.observed, made.observed_output = "", None
    made.output, made.fault = None, False
    return made
