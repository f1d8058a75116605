"""Addresses under `/api/v1/workspaces/`."""

from django.urls import path

from workspaces.api.audit import AuditTrail
from workspaces.api.workspaces import Close, WorkspaceDetail, WorkspaceList

urlpatterns = [
    path("", WorkspaceList.as_view(), name="api-workspaces"),
    path("<slug:slug>/", WorkspaceDetail.as_view(), name="api-workspace"),
    path("<slug:slug>/close/", Close.as_view(), name="api-workspace-close"),
    path("<slug:slug>/audit/", AuditTrail.as_view(), name="api-audit"),
]
