"""What is hidden before anything is displayed, logged or sent.

Two tools: ``redact`` hides fields of structured values by name (a kind's ``redact`` paths, and
field names that always mean a secret); ``scrub`` hides secrets inside free text, by shape and by
value (the secrets of the job that is running in this thread).
*Hole:* a secret in a field that no rule names, and of no known shape, is not recognised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from urllib.parse import quote

HIDDEN = "[hidden]"
_SHORTEST_SECRET = 4

_SENSITIVE_NAME = re.compile(
    r"(^|[_\-.])(pass(word|wd|phrase)?|secret|token|api[_\-]?key|access[_\-]?key|private[_\-]?key"
    r"|authorization|cookie|credentials?|session[_\-]?id)($|[_\-.])",
    re.IGNORECASE,
)
# Every shape is matched in time linear in the text: a run of letters is entered at its first letter
# only, and what may repeat is bounded. A message may well be a megabyte of base64.
_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S
        ),
        HIDDEN,
    ),
    (re.compile(r"(?i)\b(bearer|basic|token)\s{1,20}[A-Za-z0-9._~+/\-]{8,}=*"), rf"\1 {HIDDEN}"),
    (re.compile(r"(\b\w[\w+.\-]{0,30}://)[^\s/@:'\"]*:[^\s/@'\"]+@"), rf"\1{HIDDEN}@"),
    (
        re.compile(r"(?<![A-Za-z0-9_\-])eyJ[A-Za-z0-9_\-]+\.[A-Za-z0-9_\-]+\.[A-Za-z0-9_\-]*"),
        HIDDEN,
    ),
    (re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{16}\b"), HIDDEN),
    (
        re.compile(
            r"\b(fdr_|gh[pousr]_|github_pat_|xox[abprs]-|sk_live_|sk-|whsec_|glpat-)"
            r"[A-Za-z0-9_\-]{10,}"
        ),
        HIDDEN,
    ),
    (
        re.compile(
            r"(?i)((?:password|passwd|passphrase|secret|token|api[_\-]?key|access[_\-]?key"
            r"|authorization|cookie)[\w\-]{0,40}[\"']?\s{0,20}[:=]\s{0,20})(?!\[hidden\])"
            r"(\"[^\"]*\"|'[^']*'|[^\s,;&)}\]]+)"
        ),
        rf"\1{HIDDEN}",
    ),
)

# Most texts hold no secret, which one search shows: no shape matches where none of these words is
# in the text, cases folded. (Of shapes in any case no word has an i: its Turkish forms fold apart.)
_HINT = re.compile(
    r"-----begin|bearer|bas|token|://|eyj|akia|asia|fdr_|gh[pousr]_|github_pat_|xox|sk_live_|sk-"
    r"|whsec_|glpat-|passw|passphrase|secret|key|author|cook"
)

_current: ContextVar[frozenset[str]] = ContextVar("firedoor_secrets", default=frozenset())


def redact(value: object, paths: Sequence[str] = ()) -> object:
    """A copy of a JSON value with secret fields hidden.

    ``paths`` are dotted, with ``*`` for any one name or index (``cards.*.number``). Fields whose
    name says that they hold a secret (``password``, ``api_key``, …) are hidden as well.
    """
    return _redacted(value, [tuple(path.split(".")) for path in paths])


def _redacted(value: object, paths: list[tuple[str, ...]]) -> object:
    if paths and any(not path for path in paths):
        return HIDDEN
    if isinstance(value, dict):
        return {name: _field(str(name), inner, paths) for name, inner in value.items()}
    if isinstance(value, list):
        return [_redacted(inner, _below(str(index), paths)) for index, inner in enumerate(value)]
    return value


def _field(name: str, value: object, paths: list[tuple[str, ...]]) -> object:
    if _means_a_secret(name) and value is not None and not isinstance(value, bool):
        return HIDDEN
    return _redacted(value, _below(name, paths))


@lru_cache(maxsize=1024)
def _means_a_secret(name: str) -> bool:
    return _SENSITIVE_NAME.search(name) is not None


def _below(name: str, paths: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [path[1:] for path in paths if path and path[0] in (name, "*")]


def secrets_in(value: object, paths: Sequence[str] = ()) -> frozenset[str]:
    """The texts that ``redact`` would hide, so that they can be recognised elsewhere."""
    return frozenset(_hidden(value, redact(value, paths)))


def _hidden(before: object, after: object) -> Iterator[str]:
    if after == HIDDEN:
        yield from _texts(before)
    elif isinstance(before, dict) and isinstance(after, dict):
        for name, inner in before.items():
            yield from _hidden(inner, after[name])
    elif isinstance(before, list) and isinstance(after, list):
        for inner, shown in zip(before, after, strict=True):
            yield from _hidden(inner, shown)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        text = str(value)
        if len(text) >= _SHORTEST_SECRET and text != HIDDEN:
            yield text


def forms(secret: str) -> frozenset[str]:
    """How a secret may be written: as it is, escaped as Python or JSON do, or in an address."""
    escaped = (repr(secret), json.dumps(secret), json.dumps(secret, ensure_ascii=False))
    quoted = (quote(secret), quote(secret, safe=""))
    return frozenset((secret, *(text[1:-1] for text in escaped), *quoted))


def scrub(text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` without NUL bytes and without anything recognised as a secret."""
    clean = text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    written = {form for secret in {*secrets, *_current.get()} for form in forms(secret)}
    for form in sorted(written, key=len, reverse=True):
        clean = clean.replace(form, HIDDEN)
    if _HINT.search(clean.casefold()):
        for shape, shown in _SHAPES:
            clean = shape.sub(shown, clean)
    return clean


def scrub_within(value: object) -> object:
    """A JSON value with every text in it scrubbed; names are kept."""
    match value:
        case str():
            return scrub(value)
        case dict():
            return {name: scrub_within(inner) for name, inner in value.items()}
        case list():
            return [scrub_within(inner) for inner in value]
        case _:
            return value


def is_harmless(fields: Mapping[str, object]) -> bool:
    """Whether ``redact`` and ``scrub`` would surely change nothing in these fields.

    One look at all of them together, for what is asked often. False says nothing: look closer.
    """
    if _current.get():
        return False
    texts = []
    for name, value in fields.items():
        if _means_a_secret(name):
            return False
        if isinstance(value, str):
            texts.append(value)
        elif value is not None and not isinstance(value, (bool, int, float)):
            return False
    whole = "\n".join(texts)
    return "\x00" not in whole and _HINT.search(whole.casefold()) is None


@contextmanager
def knowing(secrets: frozenset[str]) -> Iterator[None]:
    """Let ``scrub`` recognise ``secrets`` in this thread while the block lasts."""
    token = _current.set(_current.get() | secrets)
    try:
        yield
    finally:
        _current.reset(token)


def tells_a_secret(text: str) -> bool:
    """Whether ``text`` holds, in some form, a secret that is known in this thread."""
    secrets = _current.get() if text else ()
    return any(form in text for secret in secrets for form in forms(secret))


def learn(secrets: frozenset[str]) -> None:
    """Add secrets that came up inside a ``knowing`` block, such as a step's output."""
    if secrets:
        _current.set(_current.get() | secrets)
