"""``manage.py job …``: the console's services from a shell, done as the system."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from jobs import registry
from jobs.enqueue import enqueue
from jobs.errors import ParamsInvalid
from jobs.management.bulk import (
    add_bulk_options,
    add_operation_command,
    is_bulk,
    run_bulk,
    run_operation,
)
from jobs.models import Job
from jobs.params import read_json
from jobs.recovery.cancel import cancel
from jobs.recovery.incident import bundle, page
from jobs.recovery.preflight import visible_job
from jobs.recovery.reconcile import reconcile
from jobs.recovery.resolve import resolve
from jobs.recovery.retry import retry
from jobs.shown import shown
from jobs.states import Observation, State
from jobs.sweep import sweep
from workspaces.actors import SYSTEM
from workspaces.errors import FiredoorError
from workspaces.management.typed import check_text, whole

EXIT_BY_STATE = {State.SUCCEEDED: 0, State.DEAD: 3, State.CANCELLED: 4}
STILL_WAITING = 5
POLL_SECONDS = 0.2
LISTED = 10_000
"""The longest list that is printed."""


class Command(BaseCommand):
    help = (
        "Enqueue, look at and recover jobs. Exit codes: 0 done, 1 refused, 2 wrong usage; of "
        "`wait`: 0 succeeded, 3 dead, 4 cancelled, 5 not ended within the timeout."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)

        def verb(name: str, about: str) -> ArgumentParser:
            made: ArgumentParser = verbs.add_parser(name, help=about)
            made.add_argument("--json", action="store_true", help="print JSON")
            return made

        add = verb("enqueue", "record one intent")
        add.add_argument("kind")
        add.add_argument("--workspace", required=True, metavar="SLUG")
        add.add_argument("--key", required=True)
        add.add_argument("--params", default="{}", metavar="JSON")
        verb("kinds", "list the registered kinds")
        _add_looks(verb)
        again = verb("retry", "retry a dead or cancelled job, or many")
        again.add_argument("--restart", action="store_true", help="rerun from the start")
        for bulk in (
            again,
            verb("cancel", "cancel a job, or many"),
            verb("resolve", "close a dead letter without running it, or many"),
        ):
            add_bulk_options(bulk)
        add_operation_command(verb("operation", "look at, start, hold and end bulk deeds"))
        seen = verb("reconcile", "record what was observed about an open step")
        seen.add_argument("id")
        seen.add_argument("--reason", required=True, metavar="TEXT", help="why; it is audited")
        seen.add_argument("--step", required=True)
        seen.add_argument("--outcome", required=True, choices=[o.value for o in Observation])
        seen.add_argument("--output", default="null", metavar="JSON", help="what it returned")

    def handle(self, *_args: Any, **options: Any) -> None:
        check_text(options)
        verb: Callable[[dict[str, Any]], None] = getattr(self, f"_{options['verb']}")
        try:
            verb(options)
        except FiredoorError as error:
            if options["json"]:
                self.stdout.write(json.dumps({"code": error.code, "sentence": error.sentence}))
                sys.exit(1)
            raise CommandError(f"{error.sentence} [{error.code}]", returncode=1) from error

    def _enqueue(self, options: dict[str, Any]) -> None:
        params = _json("--params", options["params"])
        if not isinstance(params, dict):
            raise ParamsInvalid("Nothing was enqueued: --params is not a JSON object.")
        job = enqueue(
            options["kind"], workspace=options["workspace"], key=options["key"], params=params
        )
        self._print(job, options, {"created": job.created})

    def _kinds(self, options: dict[str, Any]) -> None:
        names = sorted(registry.KINDS)
        self.stdout.write(json.dumps(names) if options["json"] else "\n".join(names))

    def _list(self, options: dict[str, Any]) -> None:
        jobs = Job.objects.select_related("workspace").order_by("-id")
        wanted = {"state": "state", "kind": "kind", "workspace": "workspace__slug"}
        jobs = jobs.filter(**{field: options[o] for o, field in wanted.items() if options[o]})
        for job in jobs[: options["limit"]]:
            if options["json"]:
                self.stdout.write(json.dumps(_line(job)))
            else:
                self.stdout.write("  ".join(str(word) for word in _line(job).values()))

    def _show(self, options: dict[str, Any]) -> None:
        self._print(visible_job(options["id"], SYSTEM), options)

    def _evidence(self, options: dict[str, Any]) -> None:
        job = visible_job(options["id"], SYSTEM)
        self.stdout.write(json.dumps(bundle(job, SYSTEM)) if options["json"] else page(job, SYSTEM))

    def _wait(self, options: dict[str, Any]) -> None:
        job = visible_job(options["id"], SYSTEM)
        until = time.monotonic() + options["timeout"]
        while not job.final and time.monotonic() < until:
            if settings.FIREDOOR_INLINE:
                sweep()
            time.sleep(POLL_SECONDS)  # noqa: TID251  bounded by --timeout
            job.refresh_from_db()
        self._print(job, options)
        sys.exit(EXIT_BY_STATE.get(State(job.state), STILL_WAITING))

    def _retry(self, options: dict[str, Any]) -> None:
        mode = "restart" if options["restart"] else "resume"
        if is_bulk(options):
            run_bulk(mode, options, self.stdout.write)
            return
        job = retry(options["id"], mode=mode, actor=SYSTEM, reason=options["reason"])
        self._print(job, options, {"created": job.created})

    def _cancel(self, options: dict[str, Any]) -> None:
        self._done("cancel", cancel, options)

    def _resolve(self, options: dict[str, Any]) -> None:
        self._done("resolve", resolve, options)

    def _done(self, verb: str, service: Callable[..., Job], options: dict[str, Any]) -> None:
        if is_bulk(options):
            run_bulk(verb, options, self.stdout.write)
        else:
            job = service(options["id"], actor=SYSTEM, reason=options["reason"])
            self._print(job, options)

    def _operation(self, options: dict[str, Any]) -> None:
        run_operation(options, self.stdout.write)

    def _reconcile(self, options: dict[str, Any]) -> None:
        job = reconcile(
            options["id"],
            step=options["step"],
            outcome=options["outcome"],
            output=_json("--output", options["output"]),
            actor=SYSTEM,
            reason=options["reason"],
        )
        self._print(job, options)

    def _print(self, job: Job, options: dict[str, Any], more: dict[str, Any] | None = None) -> None:
        job.refresh_from_db()
        told = {**shown(job), **(more or {})}
        if options["json"]:
            self.stdout.write(json.dumps(told))
            return
        self.stdout.write("  ".join(str(word) for word in _line(job).values()))
        for attempt in told["attempts"]:
            words = (attempt["outcome"], attempt["reason"], attempt["message"].partition("\n")[0])
            self.stdout.write(f"  attempt {attempt['number']}: " + "; ".join(filter(None, words)))
        for step in told["steps"]:
            kept = f", kept from job {step['carried_from']}" if step["carried_from"] else ""
            seen = (
                f", observed: it {step['observed']}".replace("_", " ") if step["observed"] else ""
            )
            told_of = f"{step['state']}{seen}{kept}"
            self.stdout.write(f"  step {step['name']} ({step['effect']}): {told_of}")


def _add_looks(verb: Callable[[str, str], ArgumentParser]) -> None:
    """What only looks."""
    some = verb("list", "newest jobs first")
    some.add_argument("--state", choices=[state.value for state in State])
    some.add_argument("--kind")
    some.add_argument("--workspace", metavar="SLUG")
    some.add_argument("--limit", type=whole(1, LISTED), default=20, metavar="N")
    one = verb("show", "one job with its attempts and steps")
    one.add_argument("id")
    all_of_it = verb("evidence", "the incident bundle of a job, as Markdown or JSON")
    all_of_it.add_argument("id")
    wait = verb("wait", "wait until a job has ended")
    wait.add_argument("id")
    wait.add_argument("--timeout", type=float, default=60.0, metavar="S", help="seconds")


def _json(option: str, text: str) -> Any:
    try:
        return read_json(text)
    except ValueError as error:
        raise ParamsInvalid(f"Nothing was done: {option} is not JSON ({error}).") from error


def _line(job: Job) -> dict[str, Any]:
    return {
        "id": str(job.pk),
        "state": f"{job.state}({job.cause})" if job.cause else job.state,
        "kind": job.kind,
        "workspace": job.workspace.slug,
        "key": job.key,
        "attempt": job.attempt,
    }
