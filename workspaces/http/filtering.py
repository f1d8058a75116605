"""Filters that refuse what they do not understand, so that no list says more than was asked."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django_filters import ChoiceFilter, FilterSet, IsoDateTimeFilter, NumberFilter

from workspaces.http.bodies import one_of
from workspaces.http.errors import InputInvalid
from workspaces.http.keyset import PARAMETERS

if TYPE_CHECKING:
    from rest_framework.request import Request


class StrictFilters(FilterSet):  # type: ignore[misc]  # django-filter has no types
    """What a query may say. A name that is unknown or comes twice, and a wrong value, are 422."""

    parameters: ClassVar[tuple[str, ...]] = PARAMETERS
    """Names that are somebody else's to read."""

    @classmethod
    def asked(cls, request: Request) -> dict[str, Any]:
        """What the request filters by, each value checked and converted. Raises InputInvalid."""
        query = request.query_params
        names = [name for name in query if name not in cls.parameters]
        faults = {name: [fault] for name in query if (fault := cls._fault(query, name))}
        filters = cls(query, queryset=cls._meta.model._default_manager.none(), request=request)
        for field in filters.form.fields.values():
            _tell_choices(field)
        if faults or not filters.is_valid():
            raise InputInvalid({**filters.errors, **faults})
        given: dict[str, Any] = filters.form.cleaned_data
        return {name: given[name] for name in names}

    @classmethod
    def _fault(cls, query: Any, name: str) -> str:
        known = {*cls.base_filters, *cls.parameters}
        if name not in known:
            return f"There is no such parameter. There are: {', '.join(sorted(known))}."
        if len(query.getlist(name)) > 1:
            return "It comes twice."
        return "" if query[name] else "It is empty; leave it out."


def _tell_choices(field: Any) -> None:
    """Have a wrong choice answered with the right ones, and not with what was sent."""
    if isinstance(field, forms.ChoiceField):
        choices: Any = field.choices
        field.error_messages["invalid_choice"] = one_of(value for value, _ in choices if value)


class OnlyTrue(ChoiceFilter):  # type: ignore[misc]
    """A condition that is asked for with `true`, and otherwise left out."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(choices=[("true", "true")], **kwargs)


class WholeField(forms.IntegerField):
    """A whole number in digits: `int` would read `1_0` and the digits of other scripts, too."""

    def to_python(self, value: Any) -> int | None:
        if value not in self.empty_values and not (value.isascii() and value.isdecimal()):
            raise forms.ValidationError(self.error_messages["invalid"], "invalid")
        return super().to_python(value)


class Whole(NumberFilter):  # type: ignore[misc]
    """A whole number from `min_value` to `max_value`."""

    field_class = WholeField


class MomentField(forms.DateTimeField):
    """A moment in ISO 8601 with its offset; between the years 1970 and 9000."""

    default_error_messages = {
        "invalid": "A moment such as 2026-11-30T09:00:00Z; of an offset, write the + as %2B."
    }

    def to_python(self, value: Any) -> datetime | None:
        if value in self.empty_values:
            return None
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise forms.ValidationError(self.error_messages["invalid"], "invalid") from None
        if moment.tzinfo is None or not 1970 <= moment.year <= 9000:
            raise forms.ValidationError(self.error_messages["invalid"], "invalid")
        return moment.astimezone(UTC)  # PostgreSQL reads no offset from 16 hours on


class Moment(IsoDateTimeFilter):  # type: ignore[misc]
    """One end of a range of time."""

    field_class = MomentField
