"""``docs/runbooks/doctor.md``: written from the questions, so that it says what they ask."""

from __future__ import annotations

from config.doctor.check import Check
from config.doctor.examine import questions

_HEAD = """\
# What the doctor finds

`manage.py worker_doctor` asks every question below, in this order, each within a bounded time. It
changes nothing. Exit code 0: all is well; 1: something to look at today (`warn`); 2: jobs stand
still, or a guarantee does not hold (`fail`). `--json` prints one line for machines:
`{"level", "findings": [{"code", "level", "sentence", "command", "rows"}]}`; `rows` names at most
five of what it is about. A question that makes no sense here is left out: those about broker and
workers in inline mode, and those whose ground is broken already.

Run it where a worker runs, with its environment; `worker_doctor jobs.uncertain events` asks only
what begins so. Written by
`manage.py worker_doctor --page > docs/runbooks/doctor.md`; a test refuses a difference.
"""


def page() -> str:
    """The runbook."""
    listed = [f"- [`{each.code}`](#{_anchor(each)}) {each.question}" for each in questions()]
    return "\n".join([_HEAD, *listed, *map(_section, questions())]) + "\n"


def _anchor(check: Check) -> str:
    return check.code.replace(".", "")


def _section(check: Check) -> str:
    return f"\n## {check.code}\n\n{check.question}\n\n{check.meaning}\n\n```\n{check.command}\n```"
