"""The figures in docs/benchmarks.md: what was wanted, what was found, and under which settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

BEGIN, END = "<!-- figures: make bench writes them -->", "<!-- end of figures -->"
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Target:
    """A figure that has to be at least, or at most, so much; with neither it is told only."""

    figure: str
    meaning: str
    least: float | None = None
    most: float | None = None

    def row(self, line: Mapping[str, object]) -> str:
        """What is wanted and what was found."""
        found = line.get(self.figure)
        return f"| `{self.figure}` | {self.meaning} | {self._wanted} | {self._said(found)} |"

    @property
    def _wanted(self) -> str:
        if self.least is not None:
            return f"≥ {self.least}"
        return "—" if self.most is None else f"≤ {self.most}"

    def _said(self, found: object) -> str:
        if not isinstance(found, int | float):
            return NOT_MEASURED
        met = (self.least is None or found >= self.least) and (
            self.most is None or found <= self.most
        )
        return f"{found}" if met else f"**{found}**, missed"


TARGETS = (
    Target("ratio_raw", "a job without steps, in units of raw Celery", least=0.65),
    Target("ratio_raw_1_step", "with one step", least=0.5),
    Target("ratio_raw_3_steps", "with three", least=0.4),
    Target("ratio_results", "without steps, of Celery with django-celery-results", least=3.0),
    Target("ratio_procrastinate", "of Procrastinate", least=1.1),
    Target("statements_per_job", "a worker's statements for a job with one step", most=3),
    Target("ratio_enqueue", "`enqueue_many` in units of a loop of raw `delay()`", least=2.0),
    Target("recovery_longest_s", "seconds after SIGKILL, with a lease of 6 s", most=8.0),
    Target("child_growth", "a child's memory over 20,000 jobs", most=1.05),
    Target("parent_growth", "the main process' memory over 20,000 jobs", most=1.05),
    Target("ratio_claim", "a claim among a million jobs, of one among 10,000", most=1.3),
    Target("ratio_pass", "an upkeep pass likewise", most=1.3),
    Target("ratio_api", "`POST jobs/` with a key, of a bare view", least=0.6),
    Target(
        "ratio_webhooks_celery",
        "deliveries a second, of a Celery task that signs and sends and keeps no records",
        least=0.5,
    ),
    Target("ratio_webhooks_bare", "of four processes that sign and send in a loop, without queue"),
    Target(
        "ratio_webhooks_storm",
        "p95 of well endpoints beside dead and slow ones, of that without",
        most=2.0,
    ),
    Target("webhooks_lost", "deliveries that should be there and are not", most=0),
    Target("webhooks_statements", "a worker's statements for a delivery that is taken", most=3),
)


def written(page: str, told: list[str], line: Mapping[str, object]) -> str:
    """The page with these figures in place of those between its marks. Raises ValueError."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for figures, from {BEGIN} to {END}")
    rows = ["| figure | meaning | wanted | found |", "|---|---|---|---|"]
    rows += [target.row(line) for target in TARGETS]
    when = f"Measured on {datetime.now(UTC):%Y-%m-%d}. What was printed:"
    printed = ["```text", *told, "```", "", "```json", json.dumps(line), "```"]
    return "\n".join([before + BEGIN, "", *rows, "", when, "", *printed, "", END + after])
