"""A wake is best effort: whatever it meets, the caller has its job."""

from __future__ import annotations

import pytest
from django.db import transaction

from jobs import registry
from jobs.enqueue import enqueue
from jobs.models import Job
from jobs.params import model_of
from jobs.run import Run
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db(transaction=True)


def handler(run: Run) -> None:
    pass


def test_a_wake_that_raises_does_not_reach_the_caller(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spec = registry.KindSpec(
        name="drills.without_task", handler=handler, steps=(), params=model_of("x.y", handler)
    )
    monkeypatch.setitem(registry.KINDS, spec.name, spec)  # so Celery has no task for it
    workspace = Workspace.objects.create(slug="acme", name="Acme")
    with transaction.atomic():
        job = enqueue(spec, workspace=workspace, key="a", params={})
    assert Job.objects.get().pk == job.pk
    assert "NotRegistered" in caplog.text
