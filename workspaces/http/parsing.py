"""JSON that has one meaning: no duplicate names, no NaN, and digits kept as they came."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

from rest_framework.parsers import BaseParser

from workspaces.http.errors import Malformed

VERSION = "fp1"


class StrictJSONParser(BaseParser):
    """The body as JSON. Raises Malformed; an empty body is an empty object."""

    media_type = "application/json"

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        request = (parser_context or {})["request"]
        return parsed(request.body)


def parsed(body: bytes, number: Any = None) -> Any:
    """What the body says. `number` makes something of a number with a point or an exponent."""
    if not body.strip():
        return {}
    try:
        tree = json.loads(
            body.decode(),
            object_pairs_hook=_unique,
            parse_constant=_refuse,
            parse_float=number or _finite,
        )
        if b"\\ud" in body.lower():
            json.dumps(tree, ensure_ascii=False).encode()  # half a surrogate pair is no text
        return tree
    except (ValueError, RecursionError) as error:
        raise Malformed(f"Nothing was done: the body is not JSON: {str(error)[:200]}") from None


def fingerprint(method: str, path: str, query: str, media_type: str, body: bytes) -> str:
    """A digest by which two requests are the same; of JSON, whatever its spaces and order.

    Every part goes in with its length, so that no two lists of parts read alike. ``1`` and
    ``1.0`` differ, and so do large integers.
    """
    content = body
    if media_type == "application/json" and body.strip():
        tree = parsed(body, number=lambda digits: {"\0number": digits})
        content = json.dumps(tree, sort_keys=True, separators=(",", ":")).encode()
    query = "&".join(sorted(query.split("&")))
    digest = hashlib.sha256()
    for part in (method.encode(), path.encode(), query.encode(), media_type.encode(), content):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return f"{VERSION}:{digest.hexdigest()}"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice[:50]!r} comes twice in one object")
    return found


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits)


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")
