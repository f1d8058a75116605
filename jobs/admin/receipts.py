"""What was done, by whom, when and why: where a confirmed deed leads."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from jobs.admin.deeds import in_words
from jobs.admin.marks import exact, state_badge
from jobs.admin.visible import job_or_404
from jobs.curtain import Curtain
from jobs.models import Job
from jobs.states import State, Verb
from workspaces import audit
from workspaces.admin.reader import reader
from workspaces.errors import FiredoorError
from workspaces.models import AuditEvent
from workspaces.permissions import require

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin


def receipt_url(event: AuditEvent) -> str:
    """Where the receipt of a deed on a job is; it can be shared and looked at again."""
    return reverse("admin:jobs_job_receipt", args=[event.object_id, event.pk])


def receipt(
    request: HttpRequest, job_id: uuid.UUID, event_id: int, model_admin: ModelAdmin[Job]
) -> HttpResponse:
    """One deed on one job. It is part of the audit trail and needs the right to read that."""
    job = job_or_404(request, job_id)
    try:
        require(reader(request), "audit.view", job.workspace_id)
    except FiredoorError as error:
        raise PermissionDenied(error.sentence) from error
    done = AuditEvent.objects.filter(object_type="job", object_id=str(job.pk), result=audit.DONE)
    event = done.filter(pk=event_id).first()
    if event is None:
        raise Http404
    after: dict[str, Any] = event.after if isinstance(event.after, dict) else {}
    successor = Job.objects.filter(retry_of_id=job.pk).first() if "successor" in after else None
    context = {
        **model_admin.admin_site.each_context(request),
        "opts": model_admin.opts,
        "title": _accepted(event, after),
        "subtitle": f"{job.kind} {job.key}",
        "job": job,
        "mark": state_badge(job),
        "deed": in_words(event, Curtain.of(job)),
        "at": exact(event.created_at),
        "kept": after.get("kept", []),
        "successor": successor,
        "successor_mark": state_badge(successor) if successor else "",
    }
    return TemplateResponse(request, "console/receipt.html", context)


def _accepted(event: AuditEvent, after: dict[str, Any]) -> str:
    """What was accepted, not what is hoped."""
    verb = event.action.removeprefix("job.")
    if verb == Verb.CANCEL:
        return "Asked to stop" if after.get("state") == State.RUNNING else "Cancelled"
    return {
        Verb.RESUME.value: "Queued a retry from the failed step",
        Verb.RESTART.value: "Queued a rerun from the start",
        Verb.RESOLVE.value: "Resolved",
        Verb.RECONCILE.value: "Recorded what was seen",
    }.get(verb, verb)
