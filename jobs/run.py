"""The run a handler holds: it calls steps, and stops at their boundaries."""

from __future__ import annotations

import logging
import math
import threading
import time
from functools import cached_property
from typing import Any, ParamSpec, TypeVar

from django.utils import timezone

from jobs import locks, transactions
from jobs.effects import Call, perform
from jobs.fence import Along, Claim
from jobs.journal import Journal
from jobs.outcomes import EffectSeen, Meaning, classify
from jobs.params import canonical
from jobs.registry import KindSpec
from jobs.states import WaitReason
from jobs.steps import Step
from jobs.stops import Defer
from workspaces.models import Workspace
from workspaces.redaction import scrub, tells_a_secret

P = ParamSpec("P")
R = TypeVar("R")

STEPS_LIMIT = 10_000
LOCK_SECONDS = 5.0
_SHOWN = "redact hides: names are stored, and shown"
_LINKS = 20  # how far an exception's causes are followed


class Run:
    """One attempt of one job, as its handler sees it. Belongs to the handler's thread.

    Code between steps runs again on every attempt; finished steps never do.
    """

    def __init__(self, spec: KindSpec, claim: Claim) -> None:
        self.spec = spec
        self.claim = claim
        self.journal = Journal(claim, spec.redact, spec.can_call, spec.read_back)
        self.job_id = claim.fence.job_id
        self.key = claim.key
        self.root_id = claim.root_id
        self.request_id = claim.request_id
        self.traceparent = claim.traceparent
        self.attempt = claim.fence.attempt
        self.log = logging.getLogger(f"jobs.run.{spec.name}")
        self.cost: dict[str, Any] | None = None
        self.provider_request_id = ""
        self.along: Along | None = None
        self._started = time.monotonic()
        self._inside = ""
        self._raised: tuple[BaseException | None, str] = None, ""
        self._thread = threading.get_ident()

    def __call__(self, step: Step[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The step's output: the stored one if it is done, or else that of running it now.

        Always the JSON round trip of what the function returned. Raises what the function
        raises; LookupError, TypeError or RuntimeError for a step that is not this kind's, lacks
        its ``.at(i)``, is called inside another step, from another thread, or inside a
        transaction (TransactionOpen): what is recorded must outlive the author's rollback. A fork
        of the process ends here: the job is its parent's. ValueError for a turn whose name holds
        what the kind's ``redact`` hides.
        """
        self._check_call(step)
        transactions.refuse(f"step {step.name!r}")
        self._inside = step.name
        try:
            output: Any = perform(Call(self.journal, step, args, kwargs, self._effect_of))
        except BaseException as error:
            self._raised = error, step.name
            raise
        finally:
            self._inside = ""
        return output  # type: ignore[no-any-return]

    def lock(self, name: str, keep: bool = False) -> None:  # noqa: FBT001, FBT002
        """Hold ``name`` in this workspace until the attempt ends; see ``jobs.locks``.

        Where another job holds it, this one is deferred and uses no budget. ``keep=True`` holds
        it beyond the job, until the chain's next job takes it over or it is forced open. Raises
        ValueError for a name that holds what the kind's ``redact`` hides: names are shown.
        """
        if not 0 < len(name) <= locks.NAME_LIMIT:
            raise ValueError(f"a lock's name has 1 to {locks.NAME_LIMIT} characters")
        if tells_a_secret(name):
            raise ValueError(f"a lock's name holds a value that {_SHOWN}")
        transactions.refuse(f"the lock {name!r}")
        self.journal.boundary()
        if not self.journal.lock(name, keep=keep):
            raise Defer(LOCK_SECONDS, f"the lock {name!r} is held", wait=WaitReason.LOCK)

    @cached_property
    def workspace(self) -> Workspace:
        """The workspace the job belongs to (one query, the first time)."""
        return Workspace.objects.get(pk=self.claim.workspace_id)

    @property
    def seconds(self) -> float:
        """How long this attempt has run."""
        return time.monotonic() - self._started

    def check(self) -> None:
        """Stop here if the run is to stop: for long code between steps. Costs no query."""
        self.journal.boundary()

    def progress(self, fraction: float, text: str = "") -> None:
        """Show how far the job is: ``fraction`` from 0 to 1, and a sentence."""
        shown = {"fraction": min(1.0, max(0.0, fraction)), "text": scrub(text)[:500]}
        self.journal.progress(canonical(shown))

    def record_cost(self, amount: float, currency: str, provider_request_id: str = "") -> None:
        """Keep with this attempt what it cost. Adds up over several calls in one currency.

        An amount that is no finite number is logged and left out: evidence must never stand in
        the way of the job.
        """
        if provider_request_id:
            self.provider_request_id = scrub(provider_request_id)[:200]
        try:
            number, name = float(amount), scrub(currency)
        except (TypeError, ValueError):
            number, name = math.nan, ""
        if not math.isfinite(number):
            self.log.warning("job.cost_left_out", extra={"type": type(amount).__name__})
            return
        earlier = self.cost["amount"] if self.cost and self.cost["currency"] == name else 0.0
        self.cost = {"amount": earlier + number, "currency": name}

    def step_of(self, error: BaseException) -> str:
        """The step that an exception came out of, however it was wrapped since; else empty."""
        raised, name = self._raised
        link: BaseException | None = error
        for _ in range(_LINKS):
            if link is None or link is raised:
                break
            link = link.__cause__ or link.__context__
        return name if link is not None and link is raised else ""

    def meaning_of(self, error: BaseException) -> Meaning:
        """What an exception means for this kind."""
        return classify(
            error,
            now=timezone.now(),
            autoretry_for=self.spec.autoretry_for,
            dont_autoretry_for=self.spec.dont_autoretry_for,
        )

    def _effect_of(self, error: Exception) -> EffectSeen:
        return self.meaning_of(error).effect

    def _check_call(self, step: Step[..., Any]) -> None:
        self.journal.end_if_forked()
        if threading.get_ident() != self._thread:
            raise RuntimeError(f"step {step.name!r} was called from another thread than its run's")
        if self._inside:
            raise RuntimeError(f"step {step.name!r} was called inside step {self._inside!r}")
        if step.many:
            raise TypeError(f"step {step.name!r} has many=True: call run({step.name}.at(i), …)")
        declared = self.spec.step_named(step.name)
        same = declared is not None and declared.function is step.function
        if declared is None or not same or declared.effect is not step.effect:
            raise LookupError(f"step {step.name!r} is not declared by kind {self.spec.name}")
        known = self.journal.checkpoints
        if step.name not in known and tells_a_secret(step.name.partition(":")[2]):
            raise ValueError(f"a turn of step {declared.name!r} holds a value that {_SHOWN}")
        if len(known) >= STEPS_LIMIT and step.name not in known:
            raise RuntimeError(f"a job may have {STEPS_LIMIT} steps; split this one")
