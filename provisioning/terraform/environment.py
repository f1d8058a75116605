"""What does the tool see of our environment? A short allow-list, and what the caller passes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from provisioning.terraform.errors import VariableRefused

BASE: Mapping[str, str] = {
    "TF_IN_AUTOMATION": "1",
    "TF_INPUT": "0",
    "CHECKPOINT_DISABLE": "1",
}
_PASSED_ON = ("PATH", "HOME", "TMPDIR")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def environment(*added: Mapping[str, str]) -> dict[str, str]:
    """Return the tool's whole environment: PATH, HOME, TMPDIR, then what is added.

    Our own secrets (DATABASE_URL and the like) stay out, because provisioners inherit this.
    """
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    for some in added:
        passed.update(some)
    return passed


def as_environment(variables: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables as TF_VAR_…: text as it is, everything else as an HCL value.

    None means "not given", so that the module's default holds. Raises VariableRefused for a
    name that is none, for NUL, and for a value that is not JSON.
    """
    return {
        f"TF_VAR_{_checked(name)}": _plain(name, value)
        for name, value in variables.items()
        if value is not None
    }


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise VariableRefused(
            f"Nothing was started: {name!r} is not the name of a variable. Correct the name."
        )
    return name


def _plain(name: str, value: Any) -> str:
    text = value if isinstance(value, str) else _hcl(name, value)
    if "\0" in text:
        raise VariableRefused(
            f"Nothing was started: the variable {name!r} holds a NUL character, which no "
            "environment can carry. Remove it."
        )
    return text


def _hcl(name: str, value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return _quoted(value)
        case list() | tuple():
            return "[" + ", ".join(_hcl(name, item) for item in value) + "]"
        case dict():
            pairs = (f"{_quoted(str(key))} = {_hcl(name, item)}" for key, item in value.items())
            return "{" + ", ".join(pairs) + "}"
    raise VariableRefused(
        f"Nothing was started: the variable {name!r} holds a {type(value).__name__}. "
        "Pass text, numbers, booleans, lists and mappings."
    )


def _quoted(text: str) -> str:
    # "${" and "%{" begin a template; doubling the first character makes them plain text.
    plain = "".join(_ESCAPES.get(character, character) for character in text)
    return '"' + plain.replace("${", "$${").replace("%{", "%%{") + '"'
