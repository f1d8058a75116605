"""Which address leads where. ``/healthz/*`` is answered earlier, by ``config.health``."""

from django.contrib import admin
from django.urls import include, path

from config import openapi, problems

WORKSPACE = "api/v1/workspaces/<slug:slug>/"

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/schema/", openapi.SchemaView.as_view(), name="api-schema"),
    path("api/docs/", openapi.page, name="api-docs"),
    path("api/problems/", problems.page, name="api-problems"),
    path("api/v1/workspaces/", include("workspaces.api.urls")),
    path(WORKSPACE, include("jobs.api.urls")),
    path(WORKSPACE, include("webhooks.api.urls")),
]
handler400 = "config.refusals.bad_request"
handler403 = "config.refusals.forbidden"
handler404 = "config.refusals.no_such_page"
handler500 = "config.refusals.failed"
