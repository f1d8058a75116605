"""What every kind must withstand: duplicates, a crash at any point of any step, resume, restart.

Each scenario runs fresh intents of the kind through real rows and moves and its real handler.
*Hole:* one process and one thread; real signals and races are the acceptance tests' business.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args

from jobs import registry, runner
from jobs.enqueue import enqueue
from jobs.errors import Refused
from jobs.kinds import Kind
from jobs.models import Attempt, Job
from jobs.outcomes import Terminal
from jobs.recovery.reconcile import reconcile
from jobs.recovery.retry import retry
from jobs.registry import KindSpec
from jobs.states import Cause, Effect, State, StepState
from jobs.testing.leaks import leaked, listening
from jobs.testing.points import Moment, When, at_step, crash_at
from jobs.testing.running import drain
from jobs.testing.witness import Witness
from workspaces.actors import SYSTEM
from workspaces.models import Workspace
from workspaces.redaction import secrets_in

Params = Mapping[str, Any]
Effects = Callable[[Params], Mapping[str, int]]

_HOUR = 3600.0
_MOST_RETRIES = 3


@dataclass(frozen=True)
class Scenario:
    """One thing a kind must withstand, at one of its ``step``s or as a whole.

    ``check`` raises AssertionError, naming the scenario, where it does not.
    """

    name: str
    step: str
    run: Callable[[], None]

    def check(self) -> None:
        try:
            self.run()
        except AssertionError as error:
            raise AssertionError(f"{self.name}: {error}") from error


def assert_conformant(
    kind: Kind[..., Any] | str,
    params: Callable[[], Params],
    *,
    workspace: Workspace,
    effects: Effects | None = None,
    secrets: tuple[str, ...] = (),
) -> None:
    """Run every scenario; see ``scenarios``. Raises AssertionError naming the first that fails."""
    for scenario in scenarios(kind, params, workspace=workspace, effects=effects, secrets=secrets):
        scenario.check()


def scenarios(
    kind: Kind[..., Any] | str,
    params: Callable[[], Params],
    *,
    workspace: Workspace,
    effects: Effects | None = None,
    secrets: tuple[str, ...] = (),
) -> list[Scenario]:
    """Every scenario of a kind, to be run in any order.

    ``params`` makes the params of a new intent, whose effects are apart from those of all others
    and which succeeds and calls every declared step if nothing disturbs it. ``effects(params)``
    says how often the effect of each step happened in the world, by step name, for instance by
    asking a test provider. ``secrets`` are texts that come up in outputs and must not show,
    besides those that the kind's ``redact`` and the names of fields already hide.
    """
    spec = registry.named(kind) if isinstance(kind, str) else kind.spec
    suite = _Suite(spec, params, workspace, effects, secrets)
    whole = {
        "runs every step once": suite.runs_every_step_once,
        "delivered twice": suite.delivered_twice,
        "hides its secrets": suite.hides_its_secrets,
    }
    found = [Scenario(name, "", check) for name, check in whole.items()]
    points: tuple[When, ...] = get_args(When)
    for name in (step.name for step in spec.steps):
        at = {f"crash {when} {name}": partial(suite.crash, name, when) for when in points}
        at[f"delivered during {name}"] = partial(suite.delivered_during, name)
        at[f"resume at {name}"] = partial(suite.resume, name)
        at[f"restart at {name}"] = partial(suite.restart, name)
        found += [Scenario(title, name, check) for title, check in at.items()]
    return found


@dataclass(frozen=True)
class _Intent:
    """One fresh intent: its job, its params, and who watched its steps run."""

    job: Job
    params: Params
    witness: Witness


class _Suite:
    def __init__(
        self,
        spec: KindSpec,
        params: Callable[[], Params],
        workspace: Workspace,
        effects: Effects | None,
        secrets: tuple[str, ...],
    ) -> None:
        self.spec = spec
        self._params = params
        self._workspace = workspace
        self._effects = effects
        self._secrets = secrets

    # --- scenarios -------------------------------------------------------------------------------

    def runs_every_step_once(self) -> None:
        intent = self._intent()
        _run(intent)
        self._succeeded(intent)
        missed = {s.name for s in self.spec.steps} - {_base(name) for name in intent.witness.calls}
        _expect(not missed, f"the params never lead to step {', '.join(sorted(missed))}")
        self._called(intent)

    def delivered_twice(self) -> None:
        intent = self._intent()
        _run(intent)
        attempts = Attempt.objects.filter(job_id=intent.job.pk).count()
        _expect(not self._deliver(intent), "a second delivery of a finished job was claimed")
        after = Attempt.objects.filter(job_id=intent.job.pk).count()
        _expect(attempts == after, "a second delivery left an attempt")
        self._called(intent)

    def delivered_during(self, step: str) -> None:
        """The same message again while the step runs: it must find nothing to claim."""
        intent = self._intent()
        claimed: list[bool] = []
        with at_step(step, "during", lambda _: claimed.append(self._deliver(intent))):
            _run(intent)
        _expect(claimed == [False], "a running job was claimed a second time")
        self._succeeded(intent)
        self._called(intent)

    def crash(self, step: str, when: When) -> None:
        intent = self._intent()
        with crash_at(step, when) as crash, intent.witness.watching():
            drain()
        _run(intent)
        newest = self._brought_to_success(intent)
        again = when == "during" and crash.step.effect is not Effect.ONCE
        twice = {crash.step.name} if again else set()
        self._called(intent, twice=twice, resumed=newest.pk != intent.job.pk)

    def resume(self, step: str) -> None:
        """Dead at the step, then resumed: what is finished stays, keys stay."""
        intent = self._intent()
        done = self._die_at(intent, step)
        successor = self._retried(intent.job, "resume", intent.witness)
        if successor is None:
            return
        _run(intent)
        self._succeeded(intent)
        kept = {s.name for s in successor.steps.filter(carried_from__isnull=False)}
        _expect(done <= kept, f"these finished steps were not kept: {sorted(done - kept)}")
        _expect(successor.epoch == intent.job.epoch, "a resume counts as the same intent")
        self._called(intent, resumed=True)

    def restart(self, step: str) -> None:
        """Dead at the step, then rerun from start: a new intent, under new keys."""
        intent = self._intent()
        self._die_at(intent, step)
        anew = replace(intent, witness=Witness())
        successor = self._retried(intent.job, "restart", anew.witness)
        if successor is None:
            return
        _run(anew)
        self._succeeded(anew)
        _expect(successor.epoch == intent.job.epoch + 1, "a restart is a new epoch")
        missed = set(intent.witness.calls) - set(anew.witness.calls)
        _expect(not missed, f"a restart left out {sorted(missed)}")
        for name, keys in intent.witness.keys.items():
            both = keys & anew.witness.keys.get(name, set())
            _expect(not both, f"step {name} was sent under its old key")

    def hides_its_secrets(self) -> None:
        """Each step fails with everything it knows in its message: none of it may show."""
        for step in self.spec.steps:
            intent = self._intent()
            with listening() as logged, at_step(step, "during", _blurt), intent.witness.watching():
                drain()
            hidden = self._hidden(intent)
            _expect(
                not (found := leaked(hidden, logged, intent.job)),
                f"a secret of step {step.name} shows in {', '.join(found)}",
            )

    # --- what they are made of -------------------------------------------------------------------

    def _intent(self) -> _Intent:
        """A job that waits an hour, so that nothing but the scenario runs it."""
        params = self._params()
        job = enqueue(
            self.spec,
            workspace=self._workspace,
            key=f"conformance-{uuid.uuid4()}",
            params=params,
            countdown=_HOUR,
        )
        return _Intent(job, params, Witness())

    def _deliver(self, intent: _Intent) -> bool:
        return runner.execute(self.spec.name, intent.job.pk)

    def _die_at(self, intent: _Intent, step: str) -> set[str]:
        """Let the step refuse for good; answers the steps that were finished and are carried."""
        with at_step(step, "started", _refuse), intent.witness.watching():
            drain()
        intent.job.refresh_from_db()
        _expect(intent.job.state == State.DEAD, f"refused for good, it is {intent.job.state}")
        done = intent.job.steps.filter(state=StepState.DONE).values_list("name", flat=True)
        return {name for name in done if self._step(name).carry}

    def _retried(self, job: Job, mode: str, witness: Witness) -> Job | None:
        """The successor, which inline mode runs at once; None where the kind's hook refuses."""
        try:
            with witness.watching():
                return retry(job.pk, mode=mode, actor=SYSTEM, reason="conformance")
        except Refused:
            return None

    def _brought_to_success(self, intent: _Intent) -> Job:
        """Do what an operator would: reconcile what is open, resume, until it has succeeded."""
        for _ in range(_MOST_RETRIES):
            newest = _newest(intent.job)
            if newest.state != State.DEAD:
                break
            if newest.cause == Cause.UNCERTAIN:
                self._observe(newest, intent.witness)
            successor = self._retried(newest, "resume", intent.witness)
            _expect(successor is not None, "its hook refuses to resume it")
            _run(intent)
        return self._succeeded(intent)

    def _observe(self, job: Job, witness: Witness) -> None:
        """Record what really happened, which the witness saw."""
        for row in job.steps.filter(state=StepState.STARTED):
            happened = row.name in witness.outputs
            reconcile(
                job.pk,
                step=row.name,
                outcome="happened" if happened else "did_not_happen",
                output=witness.outputs.get(row.name),
                actor=SYSTEM,
                reason="conformance",
            )

    def _succeeded(self, intent: _Intent) -> Job:
        newest = _newest(intent.job)
        last = newest.attempts.order_by("-number").first()
        told = f" ({last.reason}: {last.message})" if last else ""
        _expect(newest.state == State.SUCCEEDED, f"it ended {newest.state} {newest.cause}{told}")
        return newest

    def _called(
        self, intent: _Intent, *, twice: set[str] | None = None, resumed: bool = False
    ) -> None:
        """Every step's function ran once, but for what a crash or a resume makes run again."""
        done = _newest(intent.job).steps.filter(state=StepState.DONE).values_list("name", flat=True)
        for name in done:
            _expect(name in intent.witness.calls, f"step {name} never ran, and counts as done")
        for name, calls in intent.witness.calls.items():
            step = self._step(name)
            most = 2 if name in (twice or ()) or (resumed and not step.carry) else 1
            least = 2 if name in (twice or ()) and not resumed else 1
            _expect(least <= calls <= most, f"step {name} ran {calls} times, not {most}")
            keys = intent.witness.keys.get(name, set())
            _expect(len(keys) <= 1, f"step {name} was sent under {len(keys)} keys")
        self._happened_once(intent)

    def _happened_once(self, intent: _Intent) -> None:
        if self._effects is None:
            return
        for name, count in self._effects(intent.params).items():
            if self._step(name).effect is Effect.REPEATABLE:
                _expect(count >= 1, f"the effect of step {name} did not happen")
            else:
                _expect(count == 1, f"the effect of step {name} happened {count} times")

    def _hidden(self, intent: _Intent) -> frozenset[str]:
        rows = Job.objects.get(pk=intent.job.pk).steps.values_list("output", flat=True)
        values = [dict(intent.params), *rows, *intent.witness.outputs.values()]
        texts = [secrets_in(value, self.spec.redact) for value in values]
        return frozenset(self._secrets).union(*texts)

    def _step(self, name: str) -> Any:
        step = self.spec.step_named(name)
        _expect(step is not None, f"step {name} is not declared")
        return step


def _run(intent: _Intent) -> None:
    with intent.witness.watching():
        drain()


def _newest(job: Job) -> Job:
    return Job.objects.get(root_id=job.root_id, successor__isnull=True)


def _base(name: str) -> str:
    return name.split(":", 1)[0]


def _refuse(_moment: Moment) -> None:
    raise Terminal("refused by the conformance suite", happened=False)


def _blurt(moment: Moment) -> None:
    raise RuntimeError(
        f"{moment.step.name} got {moment.args!r} {moment.kwargs!r} {moment.output!r}"
    )


def _expect(held: object, otherwise: str) -> None:
    if not held:
        raise AssertionError(otherwise)
