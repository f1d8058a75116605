"""Bulk deeds from a shell: ``job retry --filter …`` and ``job operation …``, as the system."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandError

from jobs.models import Operation
from jobs.recovery import operation as deeds
from jobs.recovery.account import account_of, items_of
from jobs.recovery.draft import Care, draft
from jobs.recovery.item_verbs import criteria_in
from workspaces.actors import SYSTEM
from workspaces.audit import reason_given

Write = Callable[[str], Any]

_DEEDS = {
    "start": deeds.start,
    "pause": deeds.pause,
    "go": deeds.resume_operation,
    "stop": deeds.stop,
    "resolve": deeds.resolve,
}


def add_bulk_options(parser: ArgumentParser) -> None:
    """Let a verb on one job be done to all that a filter matches."""
    parser.add_argument("id", nargs="?", help="one job; or else --filter")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; it is audited")
    many = parser.add_argument_group("many jobs of one workspace, as an operation")
    about = "state=dead,workspace=SLUG[,cause=…][,kind=…][,fingerprint=…]"
    many.add_argument("--filter", metavar="CRITERIA", help=about)
    many.add_argument("--preview", action="store_true", help="draft it, and start nothing")
    many.add_argument("--canary", type=int, default=0, metavar="N", help="how many go first")
    many.add_argument("--rate", type=int, metavar="N", help="items a minute")


def add_operation_command(parser: ArgumentParser) -> None:
    parser.add_argument("deed", choices=["list", "show", *_DEEDS])
    parser.add_argument("id", nargs="?")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; it is audited")
    parser.add_argument("--items", action="store_true", help="with every item")


def is_bulk(options: dict[str, Any]) -> bool:
    """Whether a verb is about many jobs. Raises CommandError where it says both or neither."""
    if (options["id"] is None) == (options["filter"] is None):
        raise CommandError("Give either the id of one job or --filter.", returncode=2)
    return options["filter"] is not None


def run_bulk(verb: str, options: dict[str, Any], write: Write) -> None:
    """Draft an operation and, unless only a preview is wanted, start it."""
    criteria = criteria_in(options["filter"])
    slug = criteria.pop("workspace", None)
    if slug is None:
        raise CommandError("Name one workspace in --filter: workspace=SLUG.", returncode=2)
    if not options["preview"]:
        reason_given(options["reason"])  # before anything is drafted
    operation = draft(
        slug,
        verb,
        actor=SYSTEM,
        matching=",".join(f"{name}={value}" for name, value in criteria.items()),
        care=Care(canary=options["canary"], rate_per_minute=options["rate"]),
    )
    if not options["preview"]:
        deeds.start(operation.pk, actor=SYSTEM, reason=options["reason"])
    _print(operation, options, write)


def run_operation(options: dict[str, Any], write: Write) -> None:
    """``job operation list|show|start|pause|go|stop|resolve``."""
    if options["deed"] == "list":
        for each in Operation.objects.select_related("workspace").order_by("-id")[:20]:
            _print(each, {**options, "items": False}, write, brief=True)
        return
    operation = deeds.visible_operation(options["id"] or "", SYSTEM)
    if options["deed"] != "show":
        _DEEDS[options["deed"]](operation.pk, actor=SYSTEM, reason=options["reason"])
    _print(operation, options, write)


def _print(
    operation: Operation, options: dict[str, Any], write: Write, *, brief: bool = False
) -> None:
    operation.refresh_from_db()
    told = account_of(operation)
    items = list(items_of(operation)) if options.get("items") else None
    if options["json"]:
        write(json.dumps(told if items is None else {**told, "items": items}))
        return
    counted = ", ".join(f"{count} {outcome}" for outcome, count in told["counts"].items() if count)
    write(f"{told['id']}  {told['verb']}  {told['state']}  {told['workspace']}  {counted}")
    for line in () if brief else _more(told):
        write(f"  {line}")
    for item in items or ():
        words = (item["outcome"], item["code"], item["sentence"], item["result_id"])
        write(f"  {item['position']}. {item['object_id']}: " + "  ".join(filter(None, words)))


def _more(told: dict[str, Any]) -> list[str]:
    lines = [f"selected {told['selected']} by {told['selection']}, frozen {told['frozen_at']}"]
    for outcome, reasons in told["not_done"].items():
        counted = ", ".join(f"{count} {code}" for code, count in reasons.items())
        lines.append(f"{outcome}: {counted}")
    if told["outward"]:
        calls = ", ".join(f"{count} {effect}" for effect, count in told["outward"].items())
        lines.append(f"steps that call outside: {calls}")
    if told["note"]:
        lines.append(told["note"])
    if told["state"] == "draft":
        lines.append(f"start it: manage.py job operation start {told['id']} --reason TEXT")
    if told["state"] == "paused":
        lines.append(f"go on: manage.py job operation go {told['id']} --reason TEXT")
    return lines
