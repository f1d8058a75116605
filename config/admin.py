"""Celery's own failures in the console: envelopes that failed, and faults of upkeep.

Evidence for whoever mends workers, never the truth about a job: nothing reads these rows, and
wiping them changes nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from django.contrib import admin
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django_celery_results import admin as _theirs  # noqa: F401  first: its pages can delete
from django_celery_results.models import GroupResult, TaskResult

from workspaces.admin.reader import reader
from workspaces.admin.readonly import ReadOnlyAdmin
from workspaces.permissions import allowed
from workspaces.redaction import scrub

if TYPE_CHECKING:
    from django.http import HttpRequest

admin.site.unregister([TaskResult, GroupResult])


@admin.register(TaskResult)
class FailedEnvelopeAdmin(ReadOnlyAdmin):
    """A message that failed before or outside its job, or a fault of an upkeep pass.

    Its texts may be about any workspace, so only members of all of them read it.
    """

    workspace_field = None
    list_display = ("date_done", "what", "status", "failure", "worker")
    ordering = ("-date_done",)
    search_fields = ("=task_id", "=task_name")
    search_help_text = "The exact message id or kind"
    fields = readonly_fields = (
        "what",
        "task_id",
        "status",
        "failure",
        "woke",
        "worker",
        "date_created",
        "date_done",
        "shown_traceback",
    )

    def has_view_permission(self, request: HttpRequest, obj: TaskResult | None = None) -> bool:
        """Whether the reader's rights hold in all workspaces."""
        return allowed(reader(request), self.right, None)

    @admin.display(description="kind")
    def what(self, row: TaskResult) -> str:
        return scrub(row.task_name or "unknown to the worker")

    @admin.display(description="failure")
    def failure(self, row: TaskResult) -> str:
        """The exception, without the module it came from."""
        try:
            told = json.loads(row.result or "{}")
            words = told["exc_message"]
        except (ValueError, KeyError, TypeError):
            return scrub(row.result or "")
        text = "; ".join(map(str, words)) if isinstance(words, list) else str(words)
        return scrub(f"{told.get('exc_type', '')}: {text}")

    @admin.display(description="was to wake job")
    def woke(self, row: TaskResult) -> str:
        """The job's id, or a few: the arguments of our messages."""
        return scrub(row.task_args or "").replace("'", "").strip('"(),')

    @admin.display(description="traceback")
    def shown_traceback(self, row: TaskResult) -> SafeString:
        return format_html("<pre>{}</pre>", scrub(row.traceback or ""))
