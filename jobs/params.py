"""Which params a job may carry, and how they and its outputs become JSON."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import pydantic

from jobs.errors import ParamsInvalid, ParamsTooLarge

PARAMS_LIMIT = 64 * 1024
OUTPUT_LIMIT = 64 * 1024


class OutputRejected(Exception):
    """A step's or handler's output cannot be stored. The effect itself has happened."""


def canonical(value: object) -> str:
    """One text for equal JSON values. Raises ``ValueError`` or ``TypeError`` for anything else."""
    return json.dumps(
        _plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def _plain(value: object, depth: int = 0) -> object:
    """``value`` itself, if it is made of JSON types only; what JSON would bend is refused."""
    if depth > 64:
        raise ValueError("nested deeper than 64 levels")
    if isinstance(value, str):
        if "\x00" in value:
            raise ValueError("text holds a NUL character, which PostgreSQL cannot store")
        value.encode()  # a lone surrogate is no text either
        return value
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise TypeError("a field name is not text")
        return {_plain(name): _plain(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner, depth + 1) for inner in value]
    raise TypeError(f"{type(value).__name__} is not a JSON type")


def read_json(text: str) -> object:
    """The value of JSON that a person typed. Raises ValueError, saying what is wrong with it.

    Refused is what could not be kept: too deep, a number without end, half a surrogate pair, NUL.
    """
    try:
        value: object = json.loads(text)
        canonical(value)
    except RecursionError:
        raise ValueError("nested deeper than 64 levels") from None
    return value


def encode_params(kind: str, params: Mapping[str, object]) -> tuple[str, str]:
    """The stored text of ``params`` and its digest. Raises ParamsInvalid, ParamsTooLarge."""
    try:
        text = canonical(params)
    except (TypeError, ValueError) as error:
        raise ParamsInvalid(
            f"Nothing was enqueued: the params of {kind} are not plain JSON ({error}). "
            "Pass text, numbers, true, false, null, lists and objects only."
        ) from error
    size = len(text.encode())
    if size > PARAMS_LIMIT:
        raise ParamsTooLarge(
            f"Nothing was enqueued: the params of {kind} take {size} bytes and may take "
            f"{PARAMS_LIMIT}. Store the bulk elsewhere and pass its address."
        )
    return text, hashlib.sha256(text.encode()).hexdigest()


def encode_output(value: object) -> str:
    """The stored text of an output. Raises OutputRejected, saying why."""
    try:
        text = canonical(value)
    except (TypeError, ValueError) as error:
        raise OutputRejected(f"the output is not plain JSON ({error})") from error
    size = len(text.encode())
    if size > OUTPUT_LIMIT:
        raise OutputRejected(f"the output takes {size} bytes and may take {OUTPUT_LIMIT}")
    return text


def model_of(name: str, handler: Callable[..., object]) -> type[pydantic.BaseModel]:
    """A strict pydantic model of the handler's params, all but its first (the run)."""
    hints = get_type_hints(handler, include_extras=True)
    fields: dict[str, Any] = {}
    for param in list(inspect.signature(handler).parameters.values())[1:]:
        if param.kind in (param.VAR_POSITIONAL, param.VAR_KEYWORD):
            raise TypeError(f"{name}: a handler takes named params only, not *{param.name}")
        if param.name not in hints:
            raise TypeError(f"{name}: the param {param.name!r} has no annotation")
        default = ... if param.default is param.empty else param.default
        # Under an alias, since a model has attributes of its own: ``json``, ``copy``, ``schema``.
        field = pydantic.Field(default, alias=param.name)
        fields[f"param_{param.name}"] = (hints[param.name], field)
    config = pydantic.ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)
    return pydantic.create_model(f"Params of {name}", __config__=config, **fields)


def decode(kind: str, model: type[pydantic.BaseModel], text: str) -> dict[str, Any]:
    """The handler's arguments from stored params. Raises ParamsInvalid naming each field.

    Values are not repeated in the error, since they may be secret.
    """
    try:
        checked = model.model_validate_json(text)
    except pydantic.ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'params'}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_input=False, include_context=False)
        )
        raise ParamsInvalid(
            f"Nothing was enqueued: {kind} refuses its params ({faults}). "
            "Correct them and enqueue again with the same key."
        ) from error
    return {str(f.alias): getattr(checked, name) for name, f in model.model_fields.items()}
