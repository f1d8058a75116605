"""The console's site: who may come in, what is on every page, and the first page.

Memberships decide, not Django's model permissions: an active staff user with any membership comes
in, sees the rows of those workspaces, and is refused by the services what their roles do not
allow. ``is_superuser`` opens nothing by itself except Django's own pages of users.

The apps' ``admin`` packages register with this class while they are imported, so it imports from
them inside its methods only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.forms import AdminAuthenticationForm
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from alerts.models import Alert
from config import health
from jobs.models import DeadLetter, Job
from workspaces.actors import as_actor
from workspaces.models import AuditEvent, ServiceAccount

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.contrib.auth.models import User
    from django.db.models import Model


class ConsoleLogin(AdminAuthenticationForm):
    """Lets in whom the console would let in, and says why not to whom it would not."""

    def confirm_login_allowed(self, user: User) -> None:
        super().confirm_login_allowed(user)
        if not as_actor(user).roles:
            raise ValidationError(
                "This account is a member of no workspace. Ask an admin of one to add it.",
                code="no_membership",
            )


@dataclass(frozen=True)
class Place:
    """One entry of the navigation."""

    name: str
    url: str
    here: bool


PLACES: tuple[tuple[str, type[Model]], ...] = (
    ("Dead letters", DeadLetter),
    ("Jobs", Job),
    ("Alerts", Alert),
    ("Audit", AuditEvent),
    ("Accounts", ServiceAccount),
)


class ConsoleSite(admin.AdminSite):
    """Firedoor's admin site."""

    site_header = "Firedoor"
    site_title = "Firedoor"
    index_title = "Overview"
    site_url = None
    enable_nav_sidebar = False  # it needs JavaScript; the navigation here does not
    login_form = ConsoleLogin
    index_template = "console/index.html"

    def has_permission(self, request: HttpRequest) -> bool:
        """Whether the reader is active staff and a member of anything."""
        from workspaces.admin.reader import reader

        user = request.user
        return user.is_active and user.is_staff and bool(reader(request).roles)

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """What every page shows: where one is, and whether anybody looks after the jobs."""
        context = {**super().each_context(request), "environment": settings.FIREDOOR_ENVIRONMENT}
        if context["has_permission"]:
            answer = health.upkeep()
            context["upkeep_warning"] = "" if answer == health.OK else answer
            context["places"] = tuple(self._places(request))
        return context

    def index(self, request: HttpRequest, extra_context: Any = None) -> TemplateResponse:
        """What needs a person now."""
        from config.console.overview import needs_you, tiles
        from workspaces.admin.reader import reader

        now = timezone.now()
        shown = tiles(reader(request), now)
        context = {"tiles": shown, "needs_you": needs_you(shown), "now": now}
        return super().index(request, {**context, **(extra_context or {})})

    def _places(self, request: HttpRequest) -> Iterator[Place]:
        index = reverse("admin:index")
        yield Place("Overview", index, request.path == index)
        for name, model in PLACES:
            if self.get_model_admin(model).has_view_permission(request):
                meta = model._meta
                url = reverse(f"admin:{meta.app_label}_{meta.model_name}_changelist")
                yield Place(name, url, request.path.startswith(url))
