"""The benchmark runs from end to end and prints what programs read. No time decides here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.page import BEGIN, END, NOT_MEASURED, TARGETS

pytestmark = pytest.mark.timeout(500)

ROOT = Path(__file__).parents[2]
MODES = ("compare", "recovery", "memory", "scale", "api", "webhooks")
RATES = {
    "raw",
    "raw_unacked",
    "results",
    "procrastinate",
    "firedoor",
    "firedoor_1_step",
    "firedoor_3_steps",
}
RATIOS = {"ratio_raw", "ratio_raw_unacked", "ratio_results", "ratio_procrastinate"}
API = ("per_s", "p50_ms", "p95_ms", "statements")
OTHERS = {
    *("enqueue_many_per_s", "delay_per_s", "ratio_enqueue", "statements_per_job"),
    *("recovery_s", "recovery_longest_s", "lease_s", "recovered_in_time"),
    *("child_growth", "parent_growth", "memory_jobs"),
    *("webhooks_p95_calm_s", "webhooks_p95_storm_s", "ratio_webhooks_storm", "webhooks_lost"),
    *("webhooks_per_s", "webhooks_bare_per_s", "ratio_webhooks_bare"),
    *("webhooks_celery_per_s", "ratio_webhooks_celery"),
    *("ratio_claim", "ratio_pass", "claim_ms_large", "pass_ms_large"),
    *(f"api_{what}_{figure}" for what in ("bare", "post", "replay") for figure in API),
    *("ratio_api", "ratio_api_replay"),
}

FEW = ("--rounds", "1", "--share", "0.002", "--warm-up", "4")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the page, to have its figures written."""
    copy = tmp_path_factory.mktemp("page") / "benchmarks.md"
    copy.write_text((ROOT / "docs/benchmarks.md").read_text())
    return copy


@pytest.fixture(scope="module")
def found(written: Path) -> dict[str, Any]:
    """The line of a run of every mode with very few jobs."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *MODES, *FEW, "--page", str(written)],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    line: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return line


def test_the_last_line_has_every_figure(found: dict[str, Any]) -> None:
    assert found.keys() >= RATES | RATIOS | OTHERS
    assert all(found[name] > 0 for name in RATES | RATIOS)


def test_a_job_costs_its_worker_two_statements_and_one_for_each_step(
    found: dict[str, Any],
) -> None:
    """Rounded: on a machine that is slow enough some leases are renewed meanwhile."""
    by_steps: dict[str, float] = found["statements_per_job_by_steps"]
    assert {name: round(count) for name, count in by_steps.items()} == {
        "firedoor": 2,
        "firedoor_1_step": 3,
        "firedoor_3_steps": 5,
    }
    assert round(found["statements_per_job"]) == 3


def test_a_webhook_costs_its_worker_three_statements(found: dict[str, Any]) -> None:
    assert (found["webhooks_statements"], found["webhooks_lost"]) == (3, 0)


def test_the_page_gets_every_figure_that_is_wanted_and_keeps_the_rest(
    found: dict[str, Any], written: Path
) -> None:
    text, before = written.read_text(), (ROOT / "docs/benchmarks.md").read_text()
    assert json.dumps(found) in text
    assert [target.figure for target in TARGETS if f"| `{target.figure}` |" not in text] == []
    assert NOT_MEASURED not in text
    assert text.partition(BEGIN)[0] == before.partition(BEGIN)[0]
    assert text.partition(END)[2] == before.partition(END)[2]
