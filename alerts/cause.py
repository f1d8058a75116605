"""What a dead letter is an alert about. Pure: it words and weighs, it stores nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alerts.models import Severity
from jobs.states import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping

RULE = "dead_letter"


@dataclass(frozen=True, slots=True)
class Death:
    """How a job died, as its event tells. `message` is scrubbed by the kernel."""

    kind: str
    cause: Cause
    fingerprint: str
    step: str
    attempt: int
    error_class: str
    message: str


def death_in(data: Mapping[str, Any]) -> Death:
    """Read the data of a `job.dead` or `job.uncertain` event."""
    return Death(
        kind=data["kind"],
        cause=Cause(data["cause"]),
        fingerprint=data["fingerprint"] or "",
        step=data["step"] or "",
        attempt=data["attempt"],
        error_class=data["error_class"] or "",
        message=data["message"] or "",
    )


def cause_key(death: Death) -> str:
    """Name what deaths of one cause share; of the job itself nothing goes in."""
    return f"{RULE}/{death.kind}/{death.cause}/{death.fingerprint}"


def severity(death: Death) -> Severity:
    """Weigh a death: critical when nobody knows what happened, else an error."""
    return Severity.CRITICAL if death.cause is Cause.UNCERTAIN else Severity.ERROR


def title(death: Death) -> str:
    """Say in one line what is wrong, in words that need no page beside them."""
    at_step = f" at step {death.step!r}" if death.step else ""
    error = f": {death.error_class.rpartition('.')[2]}" if death.error_class else ""
    what = {
        Cause.UNCERTAIN: f"may or may not have carried out {_step(death)}",
        Cause.TERMINAL: f"failed{at_step}{error}",
        Cause.EXHAUSTED: f"used up its retries{at_step}{error}",
        Cause.DEADLINE: f"passed its deadline{at_step}{error}",
        Cause.LOST: f"lost its workers too often{at_step}",
        Cause.UNSTARTABLE: "cannot start",
    }
    return f"{death.kind} {what[death.cause]}"[:300]


def summary(death: Death) -> str:
    """Say what is known and what to do next."""
    return _SUMMARIES[death.cause].format(step=_step(death))


def _step(death: Death) -> str:
    return f"step {death.step!r}" if death.step else "a step"


_SUMMARIES = {
    Cause.UNCERTAIN: (
        "{step} was started and no outcome is recorded. Nothing runs again until somebody says "
        "what happened: look at the provider, reconcile the step, then retry."
    ),
    Cause.TERMINAL: (
        "No later try would mend this by itself. Mend the cause, then retry from the failed "
        "step: finished steps are kept. Or resolve it, saying why it need not run."
    ),
    Cause.EXHAUSTED: (
        "Every try of the budget failed in a way that a later one might not. See whether what "
        "it needs is back, then retry from the failed step: finished steps are kept."
    ),
    Cause.DEADLINE: (
        "No more tries are made: its time was over. See what it waited for, then retry, which "
        "sets a new deadline; or resolve it if it comes too late."
    ),
    Cause.LOST: (
        "Its worker processes ended without a word, most often out of memory or killed. Look at "
        "the workers, then retry from the failed step: finished steps are kept."
    ),
    Cause.UNSTARTABLE: (
        "No running worker knows its kind, or the code refuses its stored params. Deploy code "
        "that does, then retry; or resolve it."
    ),
}
