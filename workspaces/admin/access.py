"""*Create account…*, *Issue token…*, *Rotate…*, *Revoke…*, *Disable…*."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from workspaces import service_accounts, tokens
from workspaces.admin.deed import DeedForm, DeedPage, ReasonForm, SeeOther
from workspaces.admin.reader import may_anywhere, reader
from workspaces.models import ServiceAccount, Token
from workspaces.permissions import ROLES, Role
from workspaces.visibility import visible_workspace, visible_workspaces

ACCOUNTS = "admin:workspaces_serviceaccount_changelist"
ACCOUNT = "admin:workspaces_serviceaccount_change"


def page_of(account: ServiceAccount) -> str:
    return reverse(ACCOUNT, args=[account.pk])


class NewAccount(DeedForm):
    """Who it is, what it may do, and where."""

    name = forms.CharField(
        max_length=service_accounts.NAME_LIMIT,
        help_text="What calls: the service, not the person.",
    )
    role = forms.ChoiceField(choices=ROLES, initial=Role.OPERATOR.value)
    workspace = forms.CharField(required=False, max_length=63, help_text="Its slug.")
    everywhere = forms.BooleanField(
        required=False, label="All workspaces instead; only for the platform's own programs."
    )

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if bool(given.get("workspace")) == bool(given.get("everywhere")):
            self.add_error("workspace", "Name one workspace, or choose all of them.")
        return given


class Lifetime(DeedForm):
    """How long the new token works."""

    days = forms.IntegerField(
        label="Days until it expires",
        initial=tokens.LIFETIME.days,
        min_value=1,
        max_value=tokens.LONGEST.days,
    )


class Overlap(Lifetime):
    """And how long the old one does."""

    hours = forms.IntegerField(
        label="Hours that the old one goes on working",
        initial=tokens.OVERLAP // timedelta(hours=1),
        min_value=0,
        max_value=7 * 24,
        help_text="Long enough to bring the new one to wherever the old one is used.",
    )


@dataclass(frozen=True)
class Nowhere:
    """What an account is made in before anybody has said where."""

    workspace_id: int | None = None


class Create(DeedPage):
    """Makes an account, without a token."""

    title = "Create service account"
    button = "Create the account"
    promise = "It is one program's name, with one role. Its tokens are issued on its own page."
    form_class = NewAccount

    def found(self, request: HttpRequest, **ids: Any) -> Nowhere:
        return Nowhere()

    def back(self, subject: Nowhere) -> str:
        return reverse(ACCOUNTS)

    def may_ask(self, request: HttpRequest, subject: Nowhere) -> bool:
        return may_anywhere(reader(request), "tokens.manage")

    def initial(self, request: HttpRequest) -> dict[str, Any]:
        seen = list(visible_workspaces(reader(request)).values_list("slug", flat=True)[:2])
        return {"workspace": request.GET.get("workspace", seen[0] if len(seen) == 1 else "")}

    def act(self, subject: Nowhere, typed: dict[str, Any], **signed: Any) -> HttpResponse:
        slug = typed["workspace"]
        account = service_accounts.create(
            typed["name"],
            role=Role(typed["role"]),
            workspace=visible_workspace(signed["actor"], slug) if slug else None,
            **signed,
        )
        messages.success(self.request, f"Made: {account.name}. It has no token yet.")
        return SeeOther(page_of(account))


class OnAccount(DeedPage):
    """A deed on one account."""

    def found(self, request: HttpRequest, **ids: Any) -> ServiceAccount:
        return service_accounts.visible_account(ids["account_id"], reader(request))

    def back(self, subject: ServiceAccount) -> str:
        return page_of(subject)


class Issue(OnAccount):
    """Makes a token, and shows it this once."""

    title = "Issue token"
    button = "Issue the token"
    promise = "The token is shown once, on the next page, and kept nowhere."
    form_class = Lifetime

    def act(self, subject: ServiceAccount, typed: dict[str, Any], **signed: Any) -> HttpResponse:
        lifetime = timedelta(days=typed["days"])
        token, text = tokens.issue(subject, lifetime=lifetime, **signed)
        return shown_once(self, token, text)


class Disable(OnAccount):
    """Ends an account."""

    title = "Disable service account"
    button = "Disable it for good"
    promise = (
        "None of its tokens works from now on, and it gets no more. This cannot be undone; make "
        "another account instead. What it did stays on record under its name."
    )
    form_class = ReasonForm

    def act(self, subject: ServiceAccount, typed: dict[str, Any], **signed: Any) -> HttpResponse:
        service_accounts.disable(subject.pk, reason=typed["reason"], **signed)
        messages.success(self.request, f"Disabled: {subject.name}.")
        return SeeOther(page_of(subject))


class OnToken(DeedPage):
    """A deed on one token. Whoever may manage its account may do it."""

    def found(self, request: HttpRequest, **ids: Any) -> Token:
        return tokens.visible_token(ids["token_id"], reader(request))

    def back(self, subject: Token) -> str:
        return page_of(subject.account)

    def may_ask(self, request: HttpRequest, subject: Token) -> bool:
        return super().may_ask(request, subject.account)


class Rotate(OnToken):
    """Makes a successor; both work for a while."""

    title = "Rotate token"
    button = "Issue its successor"
    promise = (
        "A new token is shown once, on the next page. The old one goes on working for the hours "
        "below, so that you can bring the new one to where it is used."
    )
    form_class = Overlap

    def act(self, subject: Token, typed: dict[str, Any], **signed: Any) -> HttpResponse:
        token, text = tokens.rotate(
            subject.pk,
            lifetime=timedelta(days=typed["days"]),
            overlap=timedelta(hours=typed["hours"]),
            **signed,
        )
        return shown_once(self, token, text)


class Revoke(OnToken):
    """Ends a token at once."""

    title = "Revoke token"
    button = "Revoke it now"
    promise = "It works no longer, from this moment on. This cannot be undone."
    form_class = ReasonForm

    def act(self, subject: Token, typed: dict[str, Any], **signed: Any) -> HttpResponse:
        tokens.revoke(subject.pk, reason=typed["reason"], **signed)
        messages.success(self.request, f"Revoked: {subject}")
        return SeeOther(page_of(subject.account))


def shown_once(page: DeedPage, token: Token, text: str) -> HttpResponse:
    """The one page that has the token. Nothing may keep it."""
    context = {
        **page.model_admin.admin_site.each_context(page.request),
        "opts": page.model_admin.opts,
        "title": "Your token",
        "account": token.account,
        "token": token,
        "text": text,
        "back": page_of(token.account),
    }
    response = TemplateResponse(page.request, "console/token.html", context)
    response["Cache-Control"] = "no-store"
    return response
