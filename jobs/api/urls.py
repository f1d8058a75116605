"""Addresses under `/api/v1/workspaces/{slug}/jobs/`."""

from django.urls import path

from jobs.api.deeds import Cancel, Reconcile, Resolve
from jobs.api.events import Events
from jobs.api.jobs import JobDetail, JobList
from jobs.api.retry import Retry

urlpatterns = [
    path("", JobList.as_view(), name="api-jobs"),
    path("<uuid:job_id>/", JobDetail.as_view(), name="api-job"),
    path("<uuid:job_id>/retry/", Retry.as_view(), name="api-job-retry"),
    path("<uuid:job_id>/cancel/", Cancel.as_view(), name="api-job-cancel"),
    path("<uuid:job_id>/resolve/", Resolve.as_view(), name="api-job-resolve"),
    path("<uuid:job_id>/reconcile/", Reconcile.as_view(), name="api-job-reconcile"),
    path("<uuid:job_id>/events/", Events.as_view(), name="api-job-events"),
]
