"""The page of all codes, where the ``type`` of every problem leads, and its copy in ``docs/``.

``python -m config.problems`` prints ``docs/problems.md``; a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.views.decorators.http import require_safe

from workspaces.errors import FiredoorError
from workspaces.http.problems import catalogue, meaning_of, retry_hint

RETRY = {
    "same_key": "send the same request again, later, with the same Idempotency-Key",
    "new_key": "this answer is kept under its Idempotency-Key; a new try needs a new key",
    "none": "change the request, or what it is about, first; the key is not used up",
}
_BEGINNING = """\
# Problems

Every refusal over HTTP is `application/problem+json` (RFC 9457) with a stable `code`. Branch on the
code and on `retry`, never on the sentence in `detail`, which is for people. This page is written by
`python -m config.problems`.

| `retry` | what to do |
|---|---|
"""
_CODES = """
A kind's own rules may refuse a deed on its jobs with further codes (409); their sentence says what
to do.

| code | status | `retry` | what happened |
|---|---|---|---|
"""


@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """All codes of this installation, those of its own apps included. Open to everybody."""
    rows = [
        {
            "code": error.code,
            "status": error.status,
            "retry": retry_hint(error),
            "meaning": meaning_of(error),
        }
        for error in catalogue()
    ]
    return TemplateResponse(request, "console/problems.html", {"rows": rows, "retry": RETRY})


def text(errors: Iterable[type[FiredoorError]]) -> str:
    """The page in ``docs/``."""
    hints = "".join(f"| `{word}` | {meaning} |\n" for word, meaning in RETRY.items())
    codes = "".join(
        f"| `{error.code}` | {error.status} | `{retry_hint(error)}` | {meaning_of(error)} |\n"
        for error in errors
    )
    return f"{_BEGINNING}{hints}{_CODES}{codes}"


def main() -> None:
    """Print the page."""
    import os
    import sys
    from importlib import import_module

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    import_module("config.urls")  # every part of the API, and so every error
    sys.stdout.write(text(catalogue()))


if __name__ == "__main__":
    main()
