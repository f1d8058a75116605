"""What is wrong with the words of a command line, before any service sees them."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from typing import Any

from django.core.management.base import CommandError


def check_text(options: Mapping[str, Any]) -> None:
    """Raise CommandError (exit code 2) for a word that is no text: bytes that are not UTF-8, NUL.

    A shell hands on any bytes, and Python hides them in halves of surrogate pairs.
    """
    for name, value in options.items():
        if isinstance(value, str) and not _is_text(value):
            raise CommandError(
                f"Nothing was done: {name.replace('_', '-')} is not text in UTF-8.", returncode=2
            )


def whole(least: int, most: int) -> Callable[[str], int]:
    """A type for argparse: a whole number from ``least`` to ``most``."""

    def number(text: str) -> int:
        if not text.isdecimal() or len(text) > 20 or not least <= int(text) <= most:
            raise ArgumentTypeError(f"{text[:20]!r} is no whole number from {least} to {most}")
        return int(text)

    return number


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value
