"""The page before a deed on an account: GET says what it does, POST calls the service.

The service authorises and decides; what it refuses brings the same page back, with the sentence
on top and what was typed kept. The form carries a one-time id: sent twice it is done once.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, cast

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.views import View

from workspaces import audit
from workspaces.admin.reader import reader
from workspaces.errors import FiredoorError
from workspaces.permissions import allowed
from workspaces.redaction import scrub

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

    from workspaces.models import ServiceAccount

MARKS = {audit.ReasonRequired.code: "Say why.", audit.ReasonTooLong.code: "This is too long."}
"""What is said beside a reason that is refused."""
FULL_REASON = "Kept in the audit trail: why now, and which ticket."


class FormIncomplete(FiredoorError):
    """A form came back without what its page had put in, or not filled in."""

    code = "form_incomplete"
    status = 422


class SeeOther(HttpResponseRedirect):
    """The answer to a POST that did something: look there, with GET."""

    status_code = 303


class DeedForm(forms.Form):
    """What a person types."""

    def __init__(self, data: Any = None, **options: Any) -> None:
        shown = fit_to_show(data, scrub)
        super().__init__(shown, use_required_attribute=False, label_suffix="", **options)


class ReasonForm(DeedForm):
    """Whether the reason is good enough is the service's to say."""

    reason = forms.CharField(
        label="Reason (required)",
        required=False,
        help_text=FULL_REASON,
        widget=forms.Textarea(attrs={"rows": 3, "maxlength": audit.REASON_MAX}),
    )


class DeedPage(View):
    """Asks before one deed. A subclass names its words, its form and the service."""

    title: ClassVar[str]
    button: ClassVar[str]
    promise: ClassVar[str]
    form_class: ClassVar[type[DeedForm]] = DeedForm
    model_admin: ModelAdmin[ServiceAccount] = cast("ModelAdmin[ServiceAccount]", None)
    http_method_names = ("get", "head", "post")

    def found(self, request: HttpRequest, **ids: Any) -> Any:
        """What it is done to, with its `workspace_id`. Raises a FiredoorError with 404."""
        raise NotImplementedError

    def back(self, subject: Any) -> str:
        """Where one came from."""
        raise NotImplementedError

    def act(self, subject: Any, typed: dict[str, Any], **signed: Any) -> HttpResponse:
        """Call the service. `signed` is actor, operation_id and request_id."""
        raise NotImplementedError

    def initial(self, request: HttpRequest) -> dict[str, Any]:
        return {}

    def get(self, request: HttpRequest, **ids: Any) -> HttpResponse:
        subject = self._found(request, **ids)
        if not self.may_ask(request, subject):
            raise PermissionDenied
        form = self.form_class(initial=self.initial(request))
        return self._page(request, subject, form, uuid.uuid4())

    def may_ask(self, request: HttpRequest, subject: Any) -> bool:
        """Whether the form is shown. The service asks again, and that is what counts."""
        return allowed(reader(request), "tokens.manage", subject.workspace_id)

    def post(self, request: HttpRequest, **ids: Any) -> HttpResponse:
        subject = self._found(request, **ids)
        form = self.form_class(request.POST)
        operation_id = _uuid(request.POST.get("operation_id", ""))
        try:
            if operation_id is None or not form.is_valid():
                raise FormIncomplete("Nothing was done: see what is marked below.")
            return self.act(
                subject,
                form.cleaned_data,
                actor=reader(request),
                operation_id=operation_id,
                request_id=request.headers.get("X-Request-ID", ""),
            )
        except audit.OperationRepeated as error:
            return self._page(request, subject, form, uuid.uuid4(), error)
        except FiredoorError as error:
            if isinstance(error, audit.ReasonRequired):
                form.add_error("reason", MARKS[error.code])
            return self._page(request, subject, form, operation_id or uuid.uuid4(), error)

    def _found(self, request: HttpRequest, **ids: Any) -> Any:
        try:
            return self.found(request, **ids)
        except FiredoorError as error:
            raise Http404 from error

    def _page(
        self,
        request: HttpRequest,
        subject: Any,
        form: DeedForm,
        operation_id: uuid.UUID,
        error: FiredoorError | None = None,
    ) -> HttpResponse:
        context = {
            **self.model_admin.admin_site.each_context(request),
            "opts": self.model_admin.opts,
            "title": self.title,
            "subject": subject,
            "back": self.back(subject),
            "promise": self.promise,
            "button": self.button,
            "form": form,
            "error": error,
            "operation_id": operation_id,
        }
        status = 200 if error is None else error.status
        return TemplateResponse(request, "console/deed.html", context, status=status)


def fit_to_show(data: Any, without_secrets: Callable[[str], str]) -> Any:
    """What was typed, where a refused page shows it again: its reason without secrets."""
    if data is None or "reason" not in data:
        return data
    shown = data.copy()
    shown["reason"] = without_secrets(data["reason"])
    return shown


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
