"""JSON that has one meaning: no duplicate names, no NaN, and digits kept as they came."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from rest_framework.parsers import BaseParser

from workspaces.http.errors import Malformed

if TYPE_CHECKING:
    from rest_framework.request import Request

VERSION = "fp1"
"""How fingerprints are made now."""

DEEPEST = 64
"""Levels of lists and objects within each other, as in a job's params."""


class _Digits(str):
    """A number as it was written. No text is like it: none that is accepted holds NUL."""

    def __new__(cls, digits: str) -> _Digits:
        _finite(digits)
        return super().__new__(cls, f"\0{digits}")


class StrictJSONParser(BaseParser):
    """The body as JSON. Raises Malformed; an empty body is an empty object."""

    media_type = "application/json"

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        context = parser_context or {}
        sent: Sent | None = getattr(context.get("view"), "sent", None)
        if sent is not None and "read" in vars(sent) and sent.read.is_plain:
            return sent.read.tree  # it was read for the fingerprint, and once is enough
        return parsed(whole_body(context["request"]))


def whole_body(request: Request) -> bytes:
    """The body, as long as it was told to be. Raises Malformed: it ended early.

    What is missing might have been anything, and so might what was meant.
    """
    try:
        told = int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        told = 0  # as Django reads it
    body: bytes = request.body
    if len(body) < told:
        raise Malformed("Nothing was done: the body ended early.")
    return body


def parsed(body: bytes, number: Callable[[str], Any] | None = None) -> Any:
    """What the body says. `number` makes something of a number with a point or an exponent.

    Raises Malformed: no JSON, one name twice in an object, NaN or a number without end, more
    than 64 levels, NUL or half a surrogate pair, which no database keeps as text.
    """
    if not body.strip():
        return {}
    try:
        tree = json.loads(
            body.decode(),
            object_pairs_hook=_unique,
            parse_constant=_refuse,
            parse_float=number or _finite,
        )
        _check_depth(tree)
        _check_text(body, tree)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"Nothing was done: the body is not JSON: {str(error)[:200]}") from None
    return tree


@dataclass(frozen=True)
class _Read:
    """``is_plain``: no number in it has a point or an exponent, so it is what was meant, too."""

    tree: Any
    is_plain: bool


@dataclass(frozen=True)
class Sent:
    """What a request said, as far as it makes it this request and no other."""

    method: str
    path: str
    query: str
    media_type: str
    body: bytes

    @cached_property
    def read(self) -> _Read:
        """The body as JSON, with numbers as they were written. Raises Malformed."""
        numbers: list[_Digits] = []

        def kept(digits: str) -> _Digits:
            numbers.append(_Digits(digits))
            return numbers[-1]

        return _Read(parsed(self.body, number=kept), is_plain=not numbers)

    def fingerprint(self, version: str = VERSION) -> str:
        """A digest by which two requests are the same. Raises Malformed for JSON that is none.

        A version that ever was in use stays here for a day longer, since records hold it; one
        that a newer process uses is a KeyError.
        """
        return f"{version}:{_ALGORITHMS[version](self)}"


def _fp1(sent: Sent) -> str:
    """Of JSON whatever its spaces and order; ``1`` and ``1.0`` differ, so do large integers.

    Every part goes in with its length, so that no two lists of parts read alike.
    """
    content = sent.body
    if sent.media_type == StrictJSONParser.media_type and content.strip():
        content = json.dumps(sent.read.tree, sort_keys=True, separators=(",", ":")).encode()
    query = "&".join(sorted(sent.query.split("&")))
    digest = hashlib.sha256()
    for text in (sent.method, sent.path, query, sent.media_type):
        _add(digest, text.encode())
    _add(digest, content)
    return digest.hexdigest()


def _add(digest: hashlib._Hash, part: bytes) -> None:
    digest.update(len(part).to_bytes(8, "big"))
    digest.update(part)


_ALGORITHMS: dict[str, Callable[[Sent], str]] = {"fp1": _fp1}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        ((twice, _count),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the name {twice[:50]!r} comes twice in one object")
    return found


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits)


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word[:50]} is no JSON number")


def _check_depth(tree: Any) -> None:
    """Level by level, so that no depth of the body is a depth of ours."""
    level, depth = [tree], 0
    while level := [inner for each in level for inner in _inside(each)]:
        depth += 1
        if depth > DEEPEST:
            raise ValueError(f"lists and objects are nested deeper than {DEEPEST} levels")


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _check_text(body: bytes, tree: Any) -> None:
    """Only an escape can bring in what is no text: UTF-8 has neither, and raw NUL is no JSON."""
    lowered = body.lower()
    if b"\\ud" in lowered:
        json.dumps(tree, ensure_ascii=False).encode()
    if b"\\u0000" in lowered and _has_nul(tree):
        raise ValueError("text holds a NUL character")


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value and not isinstance(value, _Digits)
    if isinstance(value, dict):
        return any("\0" in name for name in value) or any(map(_has_nul, value.values()))
    return isinstance(value, list) and any(map(_has_nul, value))
