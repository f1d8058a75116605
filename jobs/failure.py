"""What is kept of an exception: scrubbed, bounded, and grouped with others of its cause."""

from __future__ import annotations

import hashlib
import re
import traceback
from dataclasses import dataclass
from types import TracebackType

from workspaces.redaction import scrub

MESSAGE_LIMIT = 2 * 1024
TRACEBACK_LIMIT = 16 * 1024

# What differs between two occurrences of one fault: ids, numbers, quoted values, addresses.
_VARYING = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.I), "<id>"),
    (re.compile(r"'[^']*'|\"[^\"]*\""), "<text>"),
    (re.compile(r"\b(0x)?[0-9a-f]{8,}\b", re.I), "<hex>"),
    (re.compile(r"\d+"), "<n>"),
)


@dataclass(frozen=True)
class Evidence:
    """An exception as it may be stored and shown."""

    error_class: str
    message: str
    traceback: str
    fingerprint: str
    step: str = ""


def evidence_of(error: BaseException, *, kind: str, step: str) -> Evidence:
    """Scrub and cut an exception: message at most 2 kB, traceback 16 kB, in bytes of UTF-8."""
    name = class_name(error)
    message = cut(scrub(_text(error)), MESSAGE_LIMIT)
    trace = cut(scrub(_trace(error, error.__traceback__)), TRACEBACK_LIMIT, keep_end=True)
    return Evidence(name, message, trace, fingerprint(kind, step, name, message), step)


def fingerprint(kind: str, step: str, error_class: str, message: str) -> str:
    """One word for failures of one cause: kind, step, class and the message without its values."""
    plain = message
    for pattern, word in _VARYING:
        plain = pattern.sub(word, plain)
    return hashlib.sha256("\n".join((kind, step, error_class, plain)).encode()).hexdigest()[:32]


def class_name(error: BaseException) -> str:
    cls = type(error)
    name = (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )
    return name[:200]


def cut(text: str, limit: int, *, keep_end: bool = False) -> str:
    """``text`` within ``limit`` bytes of UTF-8, saying so where something was left out."""
    raw = text.encode(errors="replace")
    if len(raw) <= limit:
        return raw.decode()
    room = limit - 24
    part = raw[-room:] if keep_end else raw[:room]
    kept = part.decode(errors="ignore")
    return f"[… cut]\n{kept}" if keep_end else f"{kept}\n[… cut]"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  an exception's own __str__ is the author's code
        return "(its message could not be made)"


def _trace(error: BaseException, trace: TracebackType | None) -> str:
    try:
        return "".join(traceback.format_exception(type(error), error, trace, limit=-40))
    except Exception:  # noqa: BLE001  the same
        return "(its traceback could not be made)"
