"""The schema of the API for programs, and the page of it for people.

``manage.py spectacular --file docs/openapi.yaml`` writes the copy in ``docs/``; a test compares.
"""

from __future__ import annotations

import json
from typing import Any

from django.contrib.admin.views.decorators import staff_member_required
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer
from drf_spectacular.views import SpectacularAPIView
from rest_framework.authentication import SessionAuthentication
from rest_framework.permissions import BasePermission

from workspaces.http import problems
from workspaces.http.authentication import TokenAuthentication

METHODS = ("get", "post", "put", "patch", "delete")


class TokenOrConsole(BasePermission):
    """Whoever has a token, or may open the console."""

    def has_permission(self, request: Any, view: Any) -> bool:
        return request.auth is not None or getattr(request.user, "is_staff", False)


class SchemaView(SpectacularAPIView):
    """The schema, to whoever has a token or is signed in to the console. JSON or YAML."""

    authentication_classes = (TokenAuthentication, SessionAuthentication)
    permission_classes = (TokenOrConsole,)
    renderer_classes = [OpenApiJsonRenderer, OpenApiYamlRenderer]

    def get_exception_handler(self) -> Any:
        return problems.handled


@staff_member_required
@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """Every operation on one page, without scripts and without anything from elsewhere."""
    generator: Any = SchemaGenerator
    schema = generator().get_schema(request=None, public=True)
    operations = [
        _told(path, method, one, schema)
        for path, methods in schema["paths"].items()
        for method, one in methods.items()
        if method in METHODS
    ]
    return TemplateResponse(request, "console/api.html", {"operations": operations})


def _told(path: str, method: str, one: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """One operation as the page shows it."""
    answers = [
        {
            "status": status,
            "meaning": answer.get("description", ""),
            "form": _form(answer, schema),
            "example": _example(answer),
        }
        for status, answer in one["responses"].items()
        if status < "300"
    ]
    return {
        "id": one["operationId"],
        "method": method.upper(),
        "path": path,
        "tag": one["tags"][0],
        "description": one.get("description", ""),
        "parameters": one.get("parameters", []),
        "body": _form(one.get("requestBody", {}), schema),
        "example": _example(one.get("requestBody", {})),
        "answers": answers,
        "refusals": [status for status in one["responses"] if status >= "300"],
    }


def _form(told: dict[str, Any], schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The fields of a body."""
    for content in told.get("content", {}).values():
        name = content["schema"].get("$ref", "").rpartition("/")[2]
        component = schema["components"]["schemas"].get(name, {})
        required = component.get("required", [])
        return [
            {"name": field, "type": _type(of), "required": field in required, **_said(of)}
            for field, of in component.get("properties", {}).items()
        ]
    return []


def _example(told: dict[str, Any]) -> str:
    """A body as it may be, written out; empty where there is none."""
    for content in told.get("content", {}).values():
        for example in content.get("examples", {}).values():
            return json.dumps(example["value"], indent=2, ensure_ascii=False)
    return ""


def _type(of: dict[str, Any]) -> str:
    if "$ref" in of:
        return str(of["$ref"].rpartition("/")[2])
    if of.get("allOf"):
        return _type(of["allOf"][0])
    if of.get("type") == "array":
        return f"list of {_type(of['items'])}"
    return str(of.get("format") or of.get("type") or "any JSON")


def _said(of: dict[str, Any]) -> dict[str, str]:
    return {"description": of.get("description", "")}
