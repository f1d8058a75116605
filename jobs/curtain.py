"""What of a job's values may be seen.

Everything stored passes here before it reaches a page or an answer: hidden by the kind's rule and
by telling names, then scrubbed of what was hidden elsewhere in the same job, so that a card
number hidden in the params does not show in an output that repeats it.
*Hole:* a secret in a field that no rule names, and of no known shape, is not recognised.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from jobs import registry
from jobs.models import Job
from jobs.models import Step as StepRow
from workspaces.redaction import HIDDEN, forms, redact, scrub, secrets_in

VALUE_SHOWN = 4 * 1024
TEXT_SHOWN = 16 * 1024
"""Characters of one value, and of one message or traceback, on a page."""


class Curtain:
    """Hides the secrets of one job. Of a kind unknown here, which has no rule, it hides all."""

    def __init__(self, kind: str, values: Iterable[object] = ()) -> None:
        spec = registry.find(kind)
        self._paths = spec.redact if spec else None
        found = (secrets_in(value, self._paths or ()) for value in values)
        plain = frozenset[str]().union(*found)
        self._secrets = plain | {json.dumps(each, ensure_ascii=False)[1:-1] for each in plain}

    @classmethod
    def of(cls, job: Job, steps: Iterable[StepRow] = ()) -> Curtain:
        values = [job.params, job.result]
        for row in steps:
            values += [row.output, row.late_output, row.observed_output]
        return cls(job.kind, values)

    def value(self, value: object) -> object:
        """A stored JSON value with everything hidden that must be."""
        if value is None:
            return None
        return HIDDEN if self._paths is None else self.scrubbed(redact(value, self._paths))

    def scrubbed(self, value: object) -> object:
        """A JSON value that our own parts made, such as an event's: its texts without secrets."""
        if isinstance(value, str):
            return scrub(value, self._secrets)
        if isinstance(value, dict):
            return {name: self.scrubbed(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.scrubbed(inner) for inner in value]
        return value

    def json(self, value: object) -> str:
        """A stored JSON value as indented text; empty for null."""
        if value is None:
            return ""
        if self._paths is None:
            return f"{HIDDEN} (no code here knows what this kind hides)"
        text = json.dumps(redact(value, self._paths), indent=2, ensure_ascii=False)
        return self.text(text, most=VALUE_SHOWN)

    def text(self, text: str, *, most: int = TEXT_SHOWN) -> str:
        """A free text: a message, a traceback, a reason."""
        # Cut after scrubbing: a secret cut in half would not be recognised.
        shown = scrub(text, self._secrets)
        return shown if len(shown) <= most else f"{shown[:most]}\n[… cut]"


def without_secrets(text: str, jobs: Sequence[Job]) -> str:
    """What somebody typed about some jobs, as it may be stored: without what these jobs hide.

    Looks at params, results and the outputs of every step, one at a time; one query. Of a kind
    unknown here every value counts as a secret. *Hole:* what a job comes to hide later.
    """
    return scrub(text, {secret for secret in _hidden_by(jobs) if _is_in(text, secret)})


def _hidden_by(jobs: Sequence[Job]) -> Iterator[str]:
    kinds = {job.pk: job.kind for job in jobs}
    for job in jobs:
        yield from _secrets(job.kind, job.params, job.result)
    outputs = StepRow.objects.filter(job_id__in=kinds).values_list(
        "job_id", "output", "late_output", "observed_output"
    )
    for job_id, *values in outputs.iterator(chunk_size=100):
        yield from _secrets(kinds[job_id], *values)


def _secrets(kind: str, *values: object) -> Iterator[str]:
    spec = registry.find(kind)
    for value in values:
        if value is not None:
            yield from secrets_in(value, spec.redact) if spec else secrets_in([value], ("*",))


def _is_in(text: str, secret: str) -> bool:
    return any(form in text for form in forms(secret))
