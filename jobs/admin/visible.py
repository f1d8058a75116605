"""The job a page is about, for a reader who may see it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from django.http import Http404

from jobs.errors import JobNotFound
from jobs.models import Job
from jobs.recovery.preflight import visible_job
from workspaces.admin.reader import reader

if TYPE_CHECKING:
    from django.http import HttpRequest


def job_or_404(request: HttpRequest, job_id: uuid.UUID | str) -> Job:
    """The job. 404 says the same for one that does not exist and one of another workspace."""
    try:
        return visible_job(uuid.UUID(str(job_id)), reader(request))
    except (JobNotFound, ValueError) as missing:
        raise Http404 from missing
