"""Whether an answer has the fields that its class declares, no others, and of their types."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ValidationError


def faults(declared: Any, told: Any, at: str = "") -> list[str]:
    """What of ``told`` is not as declared, by its place."""
    if told is None:
        return [] if declared.allow_null else [f"{at} is null"]
    if isinstance(declared, serializers.ListSerializer):
        return [f for n, one in enumerate(told) for f in faults(declared.child, one, f"{at}[{n}]")]
    if isinstance(declared, serializers.Serializer):
        return _faults_of_object(declared, told, at)
    if isinstance(declared, serializers.URLField):  # Django's own check wants a top-level domain
        return [] if str(told).startswith("http://testserver/") else [f"{at} {told!r}"]
    try:
        declared.run_validation(told)
    except ValidationError as error:
        return [f"{at} {told!r}: {error.detail}"]
    return []


def _faults_of_object(declared: serializers.Serializer, told: Any, at: str) -> list[str]:
    names = set(declared.fields)
    found = [f"{at}.{name} is missing" for name in names - set(told)]
    found += [f"{at}.{name} is not declared" for name in set(told) - names]
    for name in names & set(told):
        found += faults(declared.fields[name], told[name], f"{at}.{name}")
    return found
