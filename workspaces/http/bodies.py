"""Bodies that are taken as they are meant: no unknown names, no text where a number belongs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from rest_framework import serializers
from rest_framework.fields import empty

from workspaces.audit import REASON_MAX, reason_given
from workspaces.http.errors import InputInvalid

if TYPE_CHECKING:
    from rest_framework.request import Request

B = TypeVar("B", bound="Body")


class Body(serializers.Serializer):
    """What a request may say. A name that is not declared is refused, never passed over."""

    def to_internal_value(self, data: Any) -> Any:
        unknown = set(data) - set(self.fields) if isinstance(data, dict) else set()
        if unknown:
            names = ", ".join(sorted(self.fields))
            fault = f"There is no such field. There are: {names}."
            raise serializers.ValidationError({str(name): [fault] for name in sorted(unknown)})
        return super().to_internal_value(data)

    def get_fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().get_fields()
        for field in fields.values():
            _tell_choices(field)
        return fields

    @classmethod
    def given(cls: type[B], request: Request) -> dict[str, Any]:
        """What the request says, checked. Raises InputInvalid."""
        try:
            said: dict[str, Any] = _made_once(cls).run_validation(request.data)
        except serializers.ValidationError:
            body = cls(data=request.data)
            body.is_valid()
            raise InputInvalid(body.errors) from None
        return said


@cache
def _made_once(body: type[Body]) -> Body:
    """One object for all requests: checking changes nothing in it, and its fields are many."""
    return body()


def _tell_choices(field: Any) -> None:
    """Have a wrong choice answered with the right ones, and not with what was sent."""
    if isinstance(field, serializers.ListField):
        _tell_choices(field.child)
    if isinstance(field, serializers.ChoiceField):
        field.error_messages["invalid_choice"] = one_of(field.choices)


def one_of(choices: Iterable[Any]) -> str:
    """What there is to choose from."""
    return f"It is one of: {', '.join(map(str, choices))}."


class Text(serializers.CharField):
    """Text; numbers are none."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Reason(Text):
    """Why, in words that the next person understands; it is audited.

    One that says nothing or too much is refused with the codes that the services have for it:
    ReasonRequired, ReasonTooLong.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"max_length": REASON_MAX, **kwargs})

    def run_validation(self, data: Any = empty) -> Any:
        if isinstance(data, str):
            reason_given(data)
        return super().run_validation(data)


class Whole(serializers.IntegerField):
    """A whole number, not the text of one."""

    def to_internal_value(self, data: Any) -> int:
        if not isinstance(data, int) or isinstance(data, bool):
            self.fail("invalid")
        return super().to_internal_value(data)


class Number(serializers.FloatField):
    """A number, not the text of one."""

    def to_internal_value(self, data: Any) -> float:
        if not isinstance(data, int | float) or isinstance(data, bool) or abs(data) > 1e300:
            self.fail("invalid")
        return super().to_internal_value(data)


class Moment(serializers.DateTimeField):
    """A moment in ISO 8601 with its offset; between the years 1970 and 9000."""

    default_error_messages = {"invalid": "A moment such as 2026-11-30T09:00:00Z."}

    def to_internal_value(self, value: Any) -> datetime:
        try:
            moment = datetime.fromisoformat(value)
        except (TypeError, ValueError):
            self.fail("invalid")
        if moment.tzinfo is None or not 1970 <= moment.year <= 9000:
            self.fail("invalid")
        return moment.astimezone(UTC)  # PostgreSQL reads no offset from 16 hours on
