"""*Reconcile…*: saying what was seen at the provider about a step in doubt."""

from __future__ import annotations

from typing import Any

from django import forms

from jobs.admin.confirm import Confirm, ConfirmForm
from jobs.admin.offers import OBSERVABLE
from jobs.models import Job
from jobs.models import Step as StepRow
from jobs.params import read_json
from jobs.recovery.plan import Plan
from jobs.recovery.reconcile import reconcile
from jobs.states import Observation, Verb

STEPS_OFFERED = 50

_SAID = (
    (Observation.HAPPENED.value, "It happened: it will be kept, with the output below."),
    (Observation.DID_NOT_HAPPEN.value, "It did not happen: a retry will run it."),
)


class Output(forms.CharField):
    """JSON, where nothing typed means null. What is refused is shown again as it was typed."""

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        try:
            return read_json(text) if text else None
        except ValueError as fault:
            raise forms.ValidationError(f"This is no JSON that can be kept: {fault}.") from fault


class ReconcileForm(ConfirmForm):
    """Which step, what was seen, and what the step would have returned."""

    field_order = ("step", "outcome", "output", "reason", "read")

    outcome = forms.ChoiceField(label="What was seen", choices=_SAID, widget=forms.RadioSelect)
    output = Output(
        label="Output",
        required=False,
        help_text="JSON, if it happened: what the step would have returned. Later steps read it.",
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "code"}),
    )

    def __init__(self, job: Job, data: Any = None, **options: Any) -> None:
        super().__init__(job, data, **options)
        rows = StepRow.objects.filter(OBSERVABLE, job_id=job.pk).order_by("pk")
        steps = list(rows[:STEPS_OFFERED])
        one = steps[0].name if len(steps) == 1 else None
        self.fields["step"] = forms.ChoiceField(
            label="Step",
            widget=forms.RadioSelect,
            choices=[(step.name, _in_words(step)) for step in steps],
            initial=one,
        )
        self.order_fields(self.field_order)


def _in_words(step: StepRow) -> str:
    """The step, when it was begun and by which attempt: what to look for at the provider."""
    if step.intent_at is None:
        return step.name
    whose = " of an earlier job" if step.carried_from else ""
    when = f"{step.intent_at:%Y-%m-%d %H:%M:%S} UTC"
    return f"{step.name} (begun {when} by attempt {step.attempt}{whose})"


class Reconcile(Confirm):
    """Records one observation of one step. Nothing is sent anywhere."""

    verb = Verb.RECONCILE
    form_class = ReconcileForm

    def button(self, job: Job, plan: Plan) -> str:
        return "Record what was seen"

    def promise(self, job: Job, plan: Plan) -> str:
        return (
            "Look at the provider first. What you record is believed as it is given, is written "
            "once, and decides whether a retry keeps the step or runs it."
        )

    def act(self, job: Job, typed: dict[str, Any], digest: str, **signed: Any) -> None:
        happened = typed["outcome"] == Observation.HAPPENED
        output = typed["output"] if happened else None
        reconcile(job.pk, step=typed["step"], outcome=typed["outcome"], output=output, **signed)
