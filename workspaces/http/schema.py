"""How a view is told in the OpenAPI schema: by what it declares, and by what all views share.

A view declares `filters` (its query), `takes` (its bodies, by method) and `gives` (its answers,
by method and status). Refusals are the same everywhere and are added here.
"""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from django_filters import (
    BooleanFilter,
    ChoiceFilter,
    IsoDateTimeFilter,
    NumberFilter,
    UUIDFilter,
)
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse
from rest_framework import serializers

from workspaces.http.examples import example_of
from workspaces.http.idempotency import HEADER, SAFE
from workspaces.http.problems import MEDIA_TYPE

_REFUSALS = (400, 401, 403, 404, 405, 406, 413, 422, 429, 500, 503)
_OF_BODIES = (409, 411, 415)


class Problem(serializers.Serializer):
    """A refusal (RFC 9457). Branch on `code` and `retry`; `detail` is for people."""

    type = serializers.URLField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    instance = serializers.CharField()
    code = serializers.CharField()
    retry = serializers.ChoiceField(choices=["same_key", "new_key", "none"])
    request_id = serializers.CharField()
    errors = serializers.JSONField(  # type: ignore[assignment]
        required=False, help_text="What is wrong, by its name."
    )


class ApiSchema(AutoSchema):
    """Reads the declarations of an `ApiView`."""

    def get_operation_id(self) -> str:
        return f"{self.method.lower()}{type(self.view).__name__}"

    def get_tags(self) -> list[str]:
        parts = self.path.strip("/").split("/")
        return [parts[4] if len(parts) > 4 else "workspaces"]

    def get_request_serializer(self) -> Any:
        return self._declared("takes").get(self.method)

    def get_response_serializers(self) -> Any:
        return {**self._declared("gives").get(self.method, {}), **dict(self._refusals())}

    def get_examples(self) -> list[OpenApiExample]:
        return [*self._example_sent(), *self._examples_answered()]

    def get_override_parameters(self) -> list[Any]:
        parameters = [*self._of_key()]
        if self.method == "GET" and (filters := getattr(self.view, "filters", None)):
            parameters += _of_filters(filters)
        return parameters

    def _declared(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = getattr(self.view, name, {})
        return found

    def _example_sent(self) -> Iterator[OpenApiExample]:
        example = example_of(self._declared("takes").get(self.method))
        if example is not None:
            yield OpenApiExample("sent", example, request_only=True)

    def _examples_answered(self) -> Iterator[OpenApiExample]:
        for place, answer in self._declared("gives").get(self.method, {}).items():
            status = place[0] if isinstance(place, tuple) else place
            example = example_of(answer, status)
            if example is not None:
                name, codes = f"answered {status}", [str(status)]
                yield OpenApiExample(name, example, response_only=True, status_codes=codes)

    def _refusals(self) -> Iterator[tuple[tuple[int, str], Any]]:
        statuses = _REFUSALS if self.method in SAFE else (*_REFUSALS, *_OF_BODIES)
        for status in sorted(statuses):
            yield (status, MEDIA_TYPE), OpenApiResponse(Problem, HTTPStatus(status).phrase)

    def _of_key(self) -> Iterator[OpenApiParameter]:
        handler = getattr(self.view, self.method.lower(), None)
        if getattr(handler, "idempotent", False):
            yield OpenApiParameter(
                HEADER,
                {"type": "string", "minLength": 8, "maxLength": 255, "pattern": _KEY},
                OpenApiParameter.HEADER,
                required=getattr(self.view, "needs_key", False),
                description=(
                    "Send the same request again with the same key, and it is answered again, "
                    "not done again, for 24 hours."
                ),
            )


_KEY = "^[A-Za-z0-9._:~+/=-]{8,255}$"


def _of_filters(filters: Any) -> Iterator[OpenApiParameter]:
    for name, one in sorted(filters.base_filters.items()):
        choices = [str(value) for value, _ in one.extra.get("choices", ())]
        yield OpenApiParameter(
            name, _type_of(one), enum=choices or None, description=one.extra.get("help_text", "")
        )
    if "cursor" in filters.parameters:
        limit = {"type": "integer", "minimum": 1, "maximum": 200, "default": 50}
        yield OpenApiParameter("limit", limit, description="Rows of a page, at most.")
        yield OpenApiParameter("cursor", str, description="As `next` and `previous` give it.")


def _type_of(one: Any) -> Any:
    if isinstance(one, UUIDFilter):
        return OpenApiTypes.UUID
    if isinstance(one, IsoDateTimeFilter):
        return OpenApiTypes.DATETIME
    if isinstance(one, BooleanFilter):
        return OpenApiTypes.BOOL
    if isinstance(one, NumberFilter):
        bounds = {"minimum": one.extra["min_value"], "maximum": one.extra["max_value"]}
        return {"type": "integer", **bounds}
    longest = one.extra.get("max_length")
    if longest and not isinstance(one, ChoiceFilter):
        return {"type": "string", "minLength": 1, "maxLength": longest}
    return OpenApiTypes.STR


class _Bearer(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """`Authorization: Bearer <token>`."""

    target_class = "workspaces.http.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "`manage.py createtoken`"}
