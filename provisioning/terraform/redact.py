"""What must not be shown, and how is it taken out of a text?

Terraform leaks where it says it does not: `show -json` prints sensitive values in clear, and a
failing local-exec prints them in its diagnostic. So every text that leaves this package goes
through `Secrets.scrub`.

Not promised: a secret that the tool or a script has transformed (encoded, hashed, cut) is not
recognised. One shorter than four characters is hidden only where it stands as a whole word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

HIDDEN = "[hidden]"
_SHORT = 4
# Go's JSON writes these three as escapes.
_GO_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


@dataclass(frozen=True)
class Secrets:
    """A set of texts that must never be shown. Its own repr shows none."""

    _values: frozenset[str]

    @classmethod
    def of(cls, values: Iterable[Any]) -> Secrets:
        """Collect the texts in JSON values of any depth. Booleans and null are no secrets."""
        return cls(frozenset(text for value in values for text in _leaves(value, mask=True)))

    def __or__(self, other: Secrets) -> Secrets:
        """Return both together."""
        return Secrets(self._values | other._values)

    def __repr__(self) -> str:
        """Say how many there are, and nothing else."""
        return f"Secrets({len(self._values)})"

    def scrub(self, text: str) -> str:
        """Return the text without the secrets, in all the ways the tool writes them, and NUL."""
        clean = text.replace("\0", "")
        forms = {form for value in self._values for form in _forms(value)}
        if not forms:
            return clean
        longest_first = sorted(forms, key=len, reverse=True)
        return re.sub("|".join(map(_pattern, longest_first)), HIDDEN, clean)


def secrets_of(shown: dict[str, Any]) -> Secrets:
    """Collect every value that `show -json` of a plan or state marks as sensitive."""
    found = frozenset(text for part in _parts(shown) for text in part if text)
    return Secrets(found)


def _parts(shown: dict[str, Any]) -> Iterator[Iterable[str]]:
    yield _variables(shown)
    for name in ("resource_changes", "resource_drift"):
        for one in shown.get(name, ()):
            yield _change(one.get("change", {}))
    for change in shown.get("output_changes", {}).values():
        yield _change(change)
    for values in (
        shown.get("planned_values", {}),
        shown.get("prior_state", {}).get("values", {}),
        shown.get("values", {}),
    ):
        yield _outputs(values)
        yield _module(values.get("root_module", {}))


def _variables(shown: dict[str, Any]) -> Iterator[str]:
    root = shown.get("configuration", {}).get("root_module", {})
    given = shown.get("variables", {})
    for name, declared in root.get("variables", {}).items():
        if declared.get("sensitive"):
            yield from _leaves(given.get(name, {}).get("value"), mask=True)
    yield from _defaults(root)


def _defaults(module: dict[str, Any]) -> Iterator[str]:
    for declared in module.get("variables", {}).values():
        if declared.get("sensitive"):
            yield from _leaves(declared.get("default"), mask=True)
    for call in module.get("module_calls", {}).values():
        yield from _defaults(call.get("module", {}))


def _change(change: dict[str, Any]) -> Iterator[str]:
    for side in ("before", "after"):
        yield from _leaves(change.get(side), change.get(f"{side}_sensitive"))


def _outputs(values: dict[str, Any]) -> Iterator[str]:
    for output in values.get("outputs", {}).values():
        yield from _leaves(output.get("value"), bool(output.get("sensitive")))


def _module(module: dict[str, Any]) -> Iterator[str]:
    for resource in module.get("resources", ()):
        yield from _leaves(resource.get("values"), resource.get("sensitive_values"))
    for child in module.get("child_modules", ()):
        yield from _module(child)


def _leaves(value: Any, mask: Any) -> Iterator[str]:
    """Yield the texts and numbers that the mask (true, or the same shape) covers."""
    if mask is True:
        yield from _texts(value)
    elif isinstance(value, dict) and isinstance(mask, dict):
        for key, inner in mask.items():
            yield from _leaves(value.get(key), inner)
    elif isinstance(value, list) and isinstance(mask, list):
        for one, inner in zip(value, mask, strict=False):
            yield from _leaves(one, inner)


def _texts(value: Any) -> Iterator[str]:
    match value:
        case bool() | None:
            return
        case str() | int() | float():
            yield str(value).replace("\0", "")  # as it is in the texts that are scrubbed
        case dict():
            for inner in value.values():
                yield from _texts(inner)
        case list() | tuple():
            for inner in value:
                yield from _texts(inner)


def _forms(value: str) -> Iterator[str]:
    """Yield how a value can look: plain, inside JSON, on one line, and line by line."""
    if not value.strip():
        return
    for text in {value, value.strip(), " ".join(value.split())}:
        escaped = json.dumps(text, ensure_ascii=False)[1:-1]
        yield from (text, escaped, escaped.translate(_GO_ESCAPES))
    lines = [line.strip() for line in value.splitlines()]
    yield from (line for line in lines if len(lines) > 1 and len(line) >= _SHORT)


def _pattern(form: str) -> str:
    plain = re.escape(form)
    return plain if len(form) >= _SHORT else rf"(?<!\w){plain}(?!\w)"
