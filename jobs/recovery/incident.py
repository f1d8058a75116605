"""The incident bundle: facts and the six steps, as JSON for programs and Markdown for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jobs.models import Job
from jobs.recovery.checklist import checklist, code
from jobs.recovery.evidence import Evidence, facts_of, gathered
from workspaces.actors import Actor

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def bundle(job: Job, actor: Actor | User) -> dict[str, Any]:
    """The bundle as JSON."""
    evidence = gathered(job, actor)
    return {**facts_of(evidence), "recovery": [asdict(each) for each in checklist(evidence)]}


def page(job: Job, actor: Actor | User) -> str:
    """The bundle as Markdown, to be pasted where the incident is talked about."""
    return "\n".join(_lines(gathered(job, actor)))


def _lines(evidence: Evidence) -> Iterator[str]:
    job = evidence.job
    yield f"# Incident: {code(job['kind'])} {code(job['key'])}"
    yield ""
    yield f"As of {evidence.made_at}. Secrets are hidden."
    for section in checklist(evidence):
        yield from ("", f"## {section.number}. {section.title}", "")
        yield from (f"- {line}" for line in section.says)
        if section.next:
            yield from ("", *_fenced("\n".join(section.next)))
    yield from ("", "## Values", "", "Params:", "", *_fenced(_json(job["params"])))
    for step in evidence.steps:
        if step["output"] is not None:
            output = _fenced(_json(step["output"]))
            yield from ("", f"Output of step {code(step['name'])}:", "", *output)
    if job["result"] is not None:
        yield from ("", "Result:", "", *_fenced(_json(job["result"])))
    yield ""


def _json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def _fenced(text: str) -> Iterator[str]:
    """Foreign text in a fence that it cannot close."""
    fence = "```"
    while fence in text:
        fence += "`"
    yield from (fence, *text.splitlines(), fence)
