"""What an operation can do to its items: a registry, so that other parts add verbs of their own.

A verb brings five functions. Backfill does it to occurrences and webhook recovery to deliveries
as retry does it to jobs; the engine, its canary, rate, stop rule and ledger know none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jobs.errors import OperationInvalid
from workspaces.actors import Actor


@dataclass(frozen=True)
class Judgement:
    """Whether the verb may be done to one object now. ``code`` is empty when it may.

    ``outward`` names the effect of each call that it would make to the outside.
    """

    object_id: str
    code: str = ""
    sentence: str = ""
    outward: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mandate:
    """In whose name, where and why an item is done."""

    workspace_id: int
    actor: Actor
    reason: str
    request_id: str


def _as_it_is(text: str, _workspace_id: int, _ids: Sequence[str]) -> str:
    return text


@dataclass(frozen=True)
class ItemVerb:
    """One verb of operations, on objects that are named by text.

    ``select(workspace_id, criteria, limit)`` answers ids of that workspace in the order in which
    they are to be done, and ``judge(workspace_id, ids, actor)`` one judgement for each id, in a
    bounded number of queries. ``act(object_id, mandate)`` does it inside the caller's
    transaction, authorised and judged again under the object's lock, and answers the id of what
    came of it; what it raises as a FiredoorError is why it was not done. ``fates(result_ids)``
    says which of these ended well (True) or badly (False); one that has not ended is left out.
    ``without_secrets(text, workspace_id, ids)`` takes out of a reason what these objects hide.
    """

    name: str
    select: Callable[[int, Mapping[str, str], int], list[str]]
    judge: Callable[[int, Sequence[str], Actor], list[Judgement]]
    act: Callable[[str, Mandate], str]
    fates: Callable[[Sequence[str]], dict[str, bool]]
    rate_per_minute: int | None = None
    without_secrets: Callable[[str, int, Sequence[str]], str] = _as_it_is


_verbs: dict[str, ItemVerb] = {}


def register(verb: ItemVerb) -> None:
    """Add a verb. Raises ValueError for a taken name."""
    if verb.name in _verbs:
        raise ValueError(f"operations have a verb {verb.name!r} already")
    _verbs[verb.name] = verb


def verb_named(name: str) -> ItemVerb:
    """The verb. Raises OperationInvalid."""
    verb = _verbs.get(name)
    if verb is None:
        raise OperationInvalid(
            f"Nothing was done: no operation can {name!r}. It can: {', '.join(sorted(_verbs))}."
        )
    return verb


def criteria_in(text: str) -> dict[str, str]:
    """Read ``state=dead,kind=payments.charge``. Raises OperationInvalid."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not (name and equals and value) or name in found:
            raise OperationInvalid(
                f"Nothing was selected: {part!r} is no criterion, or is given twice. "
                "A filter is name=value,name=value."
            )
        found[name] = value
    if not found:
        raise OperationInvalid("Nothing was selected: the filter is empty.")
    return found
