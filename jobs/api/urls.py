"""Addresses under `/api/v1/workspaces/{slug}/jobs/`."""

from django.urls import path

from jobs.api.jobs import JobDetail, JobList
from jobs.api.retry import Retry

urlpatterns = [
    path("", JobList.as_view(), name="api-jobs"),
    path("<uuid:job_id>/", JobDetail.as_view(), name="api-job"),
    path("<uuid:job_id>/retry/", Retry.as_view(), name="api-job-retry"),
]
