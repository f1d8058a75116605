"""A list and a page of records that nobody edits by form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from django.contrib import admin
from django.http import Http404
from django.utils.text import capfirst

from workspaces.admin.reader import may_anywhere, readable, reader

if TYPE_CHECKING:
    from django.contrib.admin.views.main import ChangeList
    from django.db.models import QuerySet
    from django.http import HttpRequest


class _Unwritable:
    """Nobody adds, changes or deletes here."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyAdmin(_Unwritable, admin.ModelAdmin):
    """Shows rows of the workspaces in which the reader holds ``right``; the rest is not found.

    Memberships decide, not Django's model permissions. A list can only be narrowed by its own
    filters: Django would take any field of the row, and a hidden value can be guessed through
    ``?params__card__startswith=4`` one digit at a time.
    """

    right = "jobs.view"
    workspace_field: str | None = "workspace_id"
    actions = None
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    sortable_by = ()
    change_form_template = "console/record.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """The rows that the reader may know of."""
        rows = super().get_queryset(request)
        if self.workspace_field is None:
            return rows
        return rows.filter(readable(reader(request), self.right, self.workspace_field))

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        """The row, or 404: the same for one that does not exist and one of another workspace."""
        found = super().get_object(request, object_id, from_field)
        return found if found is not None else self.not_found()

    def not_found(self) -> NoReturn:
        raise Http404

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        title = capfirst(self.opts.verbose_name_plural)
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """The list; of a whole one its search form offers no "Show all"."""
        shown = super().get_changelist_instance(request)
        if not shown.query and not shown.has_active_filters:
            shown.full_result_count = shown.result_count
        return shown

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Only what the list's own filters use."""
        names = {getattr(each, "parameter_name", each) for each in self.list_filter}
        return lookup.removesuffix("__exact") in names

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether the list opens. Which rows are in it is decided by ``get_queryset``."""
        return may_anywhere(reader(request), self.right)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)


class ReadOnlyInline(_Unwritable, admin.TabularInline):
    """Rows of the object on whose page they stand: nobody gets here without seeing that."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return True
