"""The story: half-way through something breaks, an operator retries, and nothing is repeated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError

from alerts.models import Alert
from config.demo.narrator import Narrator
from config.demo.plot import Plot
from jobs.models import Job
from jobs.recovery.plan import Plan
from jobs.recovery.preflight import preflight
from jobs.recovery.retry import retry
from jobs.registry import named
from jobs.shown import shown
from jobs.states import State, Verb
from workspaces.actors import as_actor
from workspaces.models import Workspace

NAMES = ("Acme", "Globex")


@dataclass(frozen=True)
class Outcome:
    """What the story leaves: a job and its retry, a second dead job, and what really happened."""

    first: Job
    retry: Job
    second: Job
    effects: dict[str, int]
    seconds: float

    @property
    def steps(self) -> list[str]:
        """Every step of the kind, in its order."""
        return [step.name for step in named(self.first.kind).steps]

    @property
    def kept(self) -> list[str]:
        """The steps that the retry did not run."""
        carried = {s["name"] for s in shown(self.retry)["steps"] if s["carried_from"]}
        return [name for name in self.steps if name in carried]

    @property
    def ran(self) -> list[str]:
        """The steps that it did run."""
        return [name for name in self.steps if name not in self.kept]

    def as_json(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        return {
            "first": shown(self.first),
            "retry": shown(self.retry),
            "kept": self.kept,
            "ran": self.ran,
            "effects": self.effects,
            "seconds": round(self.seconds, 1),
        }


def tell(plot: Plot, operator: User, narrator: Narrator) -> Outcome:
    """Tell it. Raises CommandError where a job does not end as the story says."""
    first, second = _begin(plot, operator, narrator)
    try:
        narrator.watch(first, second)
    finally:
        plot.mend()
    _is(first, State.DEAD)
    _is(second, State.DEAD)
    alert = _look_at(first, narrator)
    plan = _preflight(first, operator, narrator)
    successor = _retry(first, plan, plot, operator, narrator)
    narrator.watch(successor)
    _is(successor, State.SUCCEEDED)
    alert.refresh_from_db()
    narrator.line(f"{plot.ending(successor)}; the alert is {alert.state}: {alert.resolution}")
    return Outcome(first, successor, second, plot.effects(successor), narrator.seconds)


def _begin(plot: Plot, operator: User, narrator: Narrator) -> tuple[Job, Job]:
    narrator.heading("1. Something breaks half-way")
    narrator.plain(plot.opening)
    narrator.plain(
        f"{plot.broken} Each failure is classified before it is retried; retries are few and never"
        " immediate."
    )
    plot.let_it_fail()
    first, second = (plot.begin(_workspace(name), as_actor(operator)) for name in NAMES)
    return first, second


def _workspace(name: str) -> Workspace:
    """A new workspace of that name; of the second demo on, with a number behind."""
    slug, number = name.lower(), 1
    while Workspace.objects.filter(slug=slug).exists():
        number += 1
        slug = f"{name.lower()}-{number}"
    return Workspace.objects.create(slug=slug, name=name if number == 1 else f"{name} {number}")


def _look_at(job: Job, narrator: Narrator) -> Alert:
    narrator.heading("2. Dead letters and alerts, not lost work")
    alert = Alert.objects.get(members__job_id=job.pk)
    narrator.plain(f"Alert ({alert.severity}): {alert.title}.")
    narrator.plain(alert.summary)
    return alert


def _preflight(job: Job, operator: User, narrator: Narrator) -> Plan:
    narrator.heading("3. What would a retry do? The preflight says it before anything is done")
    plan = preflight(job, Verb.RESUME, operator)
    rows = [(step.name, step.word.value, step.why) for step in plan.steps]
    narrator.table(("step", "will be", "why"), rows)
    return plan


def _retry(job: Job, plan: Plan, plot: Plot, operator: User, narrator: Narrator) -> Job:
    narrator.heading(f"4. {operator.username} retries from the failed step: “{plot.mended}”")
    return retry(
        job.pk, mode=Verb.RESUME.value, actor=operator, reason=plot.mended, digest=plan.digest
    )


def _is(job: Job, state: State) -> None:
    if job.state == state:
        return
    last = job.attempts.order_by("-number").first()
    told = f": {last.message}" if last else "."
    raise CommandError(
        f"The story ended early: job {job.pk} is {job.state} and should be {state}{told}"
        f" See `manage.py job show {job.pk}`."
    )
