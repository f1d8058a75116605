"""People at the console, and jobs that the kernel itself brought where they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models.functions import Now
from django.http import HttpRequest
from django.test import Client
from django.urls import reverse

from config.console.door import open_door
from jobs import runner
from jobs.kinds import Intended
from jobs.models import Job
from jobs.states import State, Verb
from tests.drills.kinds import once, repeatable
from workspaces.models import Workspace
from workspaces.permissions import Role

PASSWORD = "only-for-this-test"
CANARY = "4111-canary-1111"
REASON = "the provider is back, see INC-42"


def person(
    name: str,
    role: Role = Role.OPERATOR,
    workspace: Workspace | None = None,
    *,
    password: str | None = None,
) -> User:
    """A user whom the console lets in."""
    user = User.objects.create_user(name, password=password)
    open_door(user, role=role, workspace=workspace)
    return user


def at_console(name: str, role: Role = Role.OPERATOR, workspace: Workspace | None = None) -> Client:
    """A browser, logged in, that is held to CSRF like a real one."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(person(name, role, workspace))
    return client


def ended(intended: Intended, workspace: Workspace, key: str) -> Job:
    """The job in its final state. Not due yet when enqueued, so that no wake runs it first."""
    return finished(intended.enqueue(workspace=workspace, key=key, countdown=3600))


def finished(job: Job) -> Job:
    """The job in its final state: every wait is passed by moving ``run_at``."""
    for _ in range(20):
        Job.objects.filter(pk=job.pk, state=State.QUEUED).update(run_at=Now())
        runner.execute(job.kind, job.pk)
        job.refresh_from_db()
        if job.final:
            return job
    raise AssertionError(f"{job} is still {job.state}")


def dead(workspace: Workspace, folder: Path, key: str = "order-1") -> Job:
    """Dead at its first step; a retry of it succeeds."""
    told = {"fault": "terminal", "once_file": str(folder / f"{key}.once")}
    return ended(repeatable.s(ledger=str(folder / key), **told), workspace, key)


def uncertain(workspace: Workspace, folder: Path, key: str = "order-2") -> Job:
    """Dead, and nobody knows whether it charged; a retry of it succeeds."""
    told = {"fault": "http_502", "once_file": str(folder / f"{key}.once")}
    return ended(once.s(ledger=str(folder / key), **told), workspace, key)


def page(job: Job) -> str:
    return reverse("admin:jobs_job_change", args=[job.pk])


def confirm(job: Job, verb: str) -> str:
    return reverse(f"admin:jobs_job_{verb}", args=[job.pk])


def form_on(client: Client, url: str, **typed: str) -> dict[str, str]:
    """What a browser would post from the form on a page: its hidden fields and what is typed."""
    response = client.get(url)
    assert response.status_code == 200, response.content.decode()
    token = client.cookies["csrftoken"].value
    context: Any = response.context
    hidden = {
        "digest": context["plan"].digest,
        "operation_id": str(context["operation_id"]),
        "csrfmiddlewaretoken": token,
    }
    return {**hidden, "reason": REASON, **typed}


def every_page(request: HttpRequest, jobs: list[Job]) -> Iterator[str]:
    """The addresses of all pages: the site's own, every list, every record, every verb."""
    for name in ("index", "password_change"):
        yield reverse(f"admin:{name}")
    for model, model_admin in admin.site._registry.items():
        if not model_admin.has_view_permission(request):
            continue
        names = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        yield reverse(f"{names}_changelist")
        for row in model_admin.get_queryset(request):
            yield reverse(f"{names}_change", args=[row.pk])
            yield reverse(f"{names}_history", args=[row.pk])
    for app in ("jobs", "workspaces", "alerts"):
        yield reverse("admin:app_list", args=[app])
    for job in jobs:
        yield from (confirm(job, verb.value) for verb in Verb)


def pages_of(client: Client) -> list[str]:
    request: HttpRequest = client.get(reverse("admin:index")).wsgi_request
    return list(every_page(request, list(Job.objects.all())))
