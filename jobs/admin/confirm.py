"""The page before a deed: GET says what would happen, POST does it. One view for every verb.

The service authorises, plans again under the lock and decides; this page only asks. Whatever the
service refuses, the same page comes back with the sentence on top and everything typed kept.
The form carries the digest of the plan that was read, and a one-time operation id: a second POST
of one form does nothing more and answers the receipt of the first.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, ClassVar, cast

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.views import View

from jobs.admin.deeds import deeds_on
from jobs.admin.marks import badge, state_badge
from jobs.admin.offers import NAMES
from jobs.admin.receipts import receipt_url
from jobs.admin.visible import job_or_404
from jobs.curtain import Curtain, without_secrets
from jobs.errors import JobNotFound
from jobs.models import Job
from jobs.recovery.plan import Plan
from jobs.recovery.preflight import Governing, preflight
from jobs.states import Verb
from workspaces import audit
from workspaces.admin.deed import MARKS, FormIncomplete, SeeOther, fit_to_show
from workspaces.admin.reader import reader
from workspaces.errors import FiredoorError
from workspaces.models import AuditEvent
from workspaces.permissions import RISKY

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

STEPS_SHOWN = 200
_TONES = {"pass": "good", "warn": "doubt", "block": "bad"}


class ConfirmForm(forms.Form):
    """What a person types. Whether the reason is good enough is the service's to say."""

    reason = forms.CharField(
        label="Reason (required)",
        required=False,
        help_text="Kept in the audit trail: why now, what was mended, which ticket.",
        widget=forms.Textarea(attrs={"rows": 3, "maxlength": audit.REASON_MAX}),
    )
    read = forms.BooleanField(
        label="I have read the record and the audit trail of this job.",
        error_messages={"required": "This deed can destroy or replace something: read them first."},
    )

    def __init__(self, job: Job, data: Any = None, **options: Any) -> None:
        shown = fit_to_show(data, lambda reason: without_secrets(reason, [job]))
        super().__init__(shown, use_required_attribute=False, **options)
        self.job = job
        if Governing(job).risk < RISKY:
            del self.fields["read"]


class Confirm(View):
    """Asks before one verb. A subclass names the verb, its button and the service."""

    verb: ClassVar[Verb]
    form_class: ClassVar[type[ConfirmForm]] = ConfirmForm
    model_admin: ModelAdmin[Job] = cast("ModelAdmin[Job]", None)  # given to as_view()
    http_method_names = ("get", "head", "post")

    def button(self, job: Job, plan: Plan) -> str:
        """What the button says: the deed, not "OK"."""
        raise NotImplementedError

    def promise(self, job: Job, plan: Plan) -> str:
        """What will happen, in a sentence or two."""
        raise NotImplementedError

    def act(self, job: Job, typed: dict[str, Any], digest: str, **signed: Any) -> None:
        """Call the service. ``signed`` is actor, reason, operation_id and request_id."""
        raise NotImplementedError

    def get(self, request: HttpRequest, job_id: uuid.UUID) -> HttpResponse:
        job = job_or_404(request, job_id)
        return self.page(request, job, self.form_class(job), uuid.uuid4())

    def post(self, request: HttpRequest, job_id: uuid.UUID) -> HttpResponse:
        job = job_or_404(request, job_id)
        operation_id = _uuid(request.POST.get("operation_id", ""))
        before = audit.earlier(operation_id)
        if before and (before.object_id, before.action) == (str(job.pk), f"job.{self.verb.value}"):
            return SeeOther(receipt_url(before))
        form = self.form_class(job, request.POST)
        try:
            if operation_id is None:
                raise FormIncomplete(
                    "Nothing was done: the form came back incomplete. Read the page again and "
                    "confirm it."
                )
            if not form.is_valid():
                raise FormIncomplete("Nothing was done: see what is marked below.")
            event = self.done(request, job, form.cleaned_data, operation_id)
        except JobNotFound as gone:
            raise Http404 from gone
        except FiredoorError as error:
            if isinstance(error, audit.ReasonRequired):
                form.add_error("reason", MARKS[error.code])
            return self.page(request, job, form, operation_id or uuid.uuid4(), error)
        return SeeOther(receipt_url(event))

    def done(
        self, request: HttpRequest, job: Job, typed: dict[str, Any], operation_id: uuid.UUID
    ) -> AuditEvent:
        """Do it, or find that it was done; the audit event tells of either."""
        self.act(
            job,
            typed,
            request.POST.get("digest", ""),
            actor=reader(request),
            reason=typed["reason"],
            operation_id=operation_id,
            request_id=request.headers.get("X-Request-ID", ""),
        )
        return self.recorded(request, job, operation_id)

    def recorded(self, request: HttpRequest, job: Job, operation_id: uuid.UUID) -> AuditEvent:
        """The audit event of this very operation on this very job."""
        event = audit.earlier(operation_id)
        if event is None or event.object_id != str(job.pk):
            raise audit.OperationRepeated(operation_id)
        return event

    def page(
        self,
        request: HttpRequest,
        job: Job,
        form: ConfirmForm,
        operation_id: uuid.UUID,
        error: FiredoorError | None = None,
    ) -> HttpResponse:
        """The page with the plan as it is now; after a refusal with its sentence and status."""
        if error is not None:
            job.refresh_from_db()
        actor = reader(request)
        plan = preflight(job, self.verb, actor)
        read_digest = request.POST.get("digest", plan.digest)
        context = {
            **self.model_admin.admin_site.each_context(request),
            "opts": self.model_admin.opts,
            "title": NAMES[self.verb],
            "subtitle": f"{job.kind} {job.key}",
            "job": job,
            "mark": state_badge(job),
            "form": form,
            "error": error,
            "changed": read_digest != plan.digest,
            "plan": plan,
            "checks": [(check, badge(check.level, _TONES[check.level])) for check in plan.checks],
            "steps": [(step, badge(step.word)) for step in plan.steps[:STEPS_SHOWN]],
            "steps_left": len(plan.steps) - STEPS_SHOWN,
            "successor": Job.objects.filter(retry_of_id=job.pk).only("pk").first(),
            "promise": self.promise(job, plan),
            "button": self.button(job, plan),
            "operation_id": operation_id,
            **self._read_first(job, form, actor),
        }
        status = error.status if error is not None else _status_of(plan)
        return TemplateResponse(request, "console/confirm.html", context, status=status)

    def _read_first(self, job: Job, form: ConfirmForm, actor: Any) -> dict[str, Any]:
        """The record and the audit trail, where the risk is such that they must be read."""
        if "read" not in form.fields:
            return {}
        curtain = Curtain.of(job)
        deeds = deeds_on([job.pk, job.root_id], job.workspace_id, actor, curtain)
        trail = [deed for some in deeds.values() for deed in some]
        return {"risky": True, "params": curtain.json(job.params), "trail": trail}


def _status_of(plan: Plan) -> int:
    """Looking is for whoever sees the job; still a reader without the right is told by status."""
    refusal = plan.refusal
    return 403 if refusal is not None and refusal.code == "not_allowed" else 200


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
