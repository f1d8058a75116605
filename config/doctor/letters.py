"""Is every dead letter known to somebody, and can it be dealt with?"""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from alerts.cause import RULE
from alerts.models import Alert, AlertMember, AlertState
from config.doctor.answer import Answer, Level, ok, warn
from config.doctor.check import check
from config.doctor.sight import Sight
from config.doctor.stuck import stuck
from jobs import registry
from jobs.models import Job
from jobs.models import Step as StepRow
from jobs.models.job import DEAD_LETTER
from jobs.models.step import OPEN
from jobs.states import Cause, State

PATIENCE = timedelta(minutes=1)


def _letters() -> QuerySet[Job]:
    return Job.objects.filter(DEAD_LETTER)


@check(
    "jobs.uncertain",
    needs="database.migrations",
    command="manage.py job reconcile ROW --step STEP --outcome happened --reason TEXT",
)
def uncertain(_sight: Sight) -> Answer:
    """Is every doubt settled?

    A step was started and nobody knows whether its effect happened; nothing runs again until
    somebody says. Look at the provider, record what you saw, then retry.
    """
    open_step = StepRow.objects.filter(OPEN, job_id=OuterRef("pk"))
    return stuck(
        _letters().filter(Exists(open_step), cause=Cause.UNCERTAIN),
        Level.WARN,
        "uncertain, and nobody has recorded what happened.",
        "Nothing is in doubt.",
    )


@check("jobs.version_changed", needs="database.migrations", command="manage.py job show ROW")
def version_changed(_sight: Sight) -> Answer:
    """Does this code have the version that each dead letter ran?

    A kind whose version changed cannot be resumed from the failed step: its finished steps may mean
    something else now. Rerun from the start, or resolve.
    """
    same = Q()
    for spec in registry.KINDS.values():
        same |= Q(kind=spec.name, version=spec.version)
    return stuck(
        _letters().filter(kind__in=list(registry.KINDS)).exclude(same),
        Level.WARN,
        "of an older version of its kind, which cannot be resumed.",
        "Every dead letter can be resumed by this code.",
    )


@check("alerts.missing", needs="database.migrations", command="manage.py sweep")
def missing(_sight: Sight) -> Answer:
    """Does every dead letter have its alert?

    An alert opens in the transaction of the death, or one upkeep pass later. A letter without one
    was announced to nobody: see events.exhausted for the error.
    """
    silent = [spec.name for spec in registry.KINDS.values() if spec.alert is None]
    told = AlertMember.objects.filter(job_id=OuterRef("pk"))
    rows = _letters().filter(finished_at__lt=Now() - PATIENCE).exclude(kind__in=silent)
    return stuck(
        rows.exclude(Exists(told)),
        Level.FAIL,
        "dead, and in no alert.",
        "Every dead letter has its alert.",
    )


@check(
    "alerts.undead",
    needs="database.migrations",
    command="manage.py shell -c \"from alerts.resolve import settle; settle('ROW')\"",
)
def undead(_sight: Sight) -> Answer:
    """Does an alert end with its last dead letter?

    Every chain in it has succeeded, was cancelled or resolved, and still it is open: somebody is
    kept awake for nothing. Row: a job of the alert; settling it closes the alert.
    """
    newest = Job.objects.filter(root_id=OuterRef("root_id"), successor__isnull=True)
    over = Q(state__in=(State.SUCCEEDED, State.CANCELLED)) | Q(resolved_at__isnull=False)
    keeps = AlertMember.objects.filter(alert=OuterRef("pk"), closed_at__isnull=True)
    keeps = keeps.exclude(Exists(newest.filter(over)))
    alerts = Alert.objects.filter(rule=RULE, state=AlertState.OPEN, last_at__lt=Now() - PATIENCE)
    found = list(alerts.exclude(Exists(keeps)).order_by("pk")[:5])
    if not found:
        return ok("Every open alert has a dead letter.")
    rows = AlertMember.objects.filter(alert__in=found).values_list("job_id", flat=True)[:5]
    names = "; ".join(alert.title for alert in found)
    return warn(f"Open, though all their chains have ended: {names}.", rows)
