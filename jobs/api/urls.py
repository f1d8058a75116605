"""Addresses under `/api/v1/workspaces/{slug}/`: of jobs, and of operations."""

from django.urls import include, path

from jobs.api.deeds import Cancel, Reconcile, Resolve
from jobs.api.events import Events
from jobs.api.evidence import Evidence
from jobs.api.jobs import JobDetail, JobList
from jobs.api.operations import (
    GoOperation,
    OperationDetail,
    OperationItems,
    OperationList,
    PauseOperation,
    ResolveOperation,
    StartOperation,
    StopOperation,
)
from jobs.api.retry import Retry

jobs = [
    path("", JobList.as_view(), name="api-jobs"),
    path("<uuid:job_id>/", JobDetail.as_view(), name="api-job"),
    path("<uuid:job_id>/retry/", Retry.as_view(), name="api-job-retry"),
    path("<uuid:job_id>/cancel/", Cancel.as_view(), name="api-job-cancel"),
    path("<uuid:job_id>/resolve/", Resolve.as_view(), name="api-job-resolve"),
    path("<uuid:job_id>/reconcile/", Reconcile.as_view(), name="api-job-reconcile"),
    path("<uuid:job_id>/events/", Events.as_view(), name="api-job-events"),
    path("<uuid:job_id>/evidence/", Evidence.as_view(), name="api-job-evidence"),
]
operations = [
    path("", OperationList.as_view(), name="api-operations"),
    path("<uuid:operation_id>/", OperationDetail.as_view(), name="api-operation"),
    path("<uuid:operation_id>/items/", OperationItems.as_view(), name="api-operation-items"),
    path("<uuid:operation_id>/start/", StartOperation.as_view(), name="api-operation-start"),
    path("<uuid:operation_id>/pause/", PauseOperation.as_view(), name="api-operation-pause"),
    path("<uuid:operation_id>/go/", GoOperation.as_view(), name="api-operation-go"),
    path("<uuid:operation_id>/stop/", StopOperation.as_view(), name="api-operation-stop"),
    path("<uuid:operation_id>/resolve/", ResolveOperation.as_view(), name="api-operation-resolve"),
]
urlpatterns = [
    path("jobs/", include(jobs)),
    path("operations/", include(operations)),
]
