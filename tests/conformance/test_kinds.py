"""Every registered kind withstands duplicates, crashes at any point, resume, restart and leaks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pytest_django import Settings

from jobs import registry
from jobs.testing import Scenario, scenarios
from tests.conformance.samples import EXEMPT, SAMPLES, WORTH_THE_TIME, sample_of
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


def world(kind: str) -> list[Scenario]:
    """The scenarios of a kind that are tried, not yet tied to the world that running them needs."""
    found = scenarios(kind, dict, workspace=Workspace())
    if kind not in WORTH_THE_TIME or os.environ.get("CONFORMANCE") == "all":
        return found
    assert {scenario.name for scenario in found} >= WORTH_THE_TIME[kind]
    return [scenario for scenario in found if scenario.name in WORTH_THE_TIME[kind]]


CASES = [
    pytest.param(kind, step, id=f"{kind} at {step}" if step else kind)
    for kind in sorted(SAMPLES)
    for step in sorted({scenario.step for scenario in world(kind)})
]


def test_every_registered_kind_has_a_sample_or_a_reason_why_not() -> None:
    tried = set(SAMPLES) | set(EXEMPT)
    shipped = {name for name in registry.KINDS if not name.startswith(("drills.", "scene."))}
    assert shipped <= tried <= set(registry.KINDS)


@pytest.mark.parametrize(("kind", "step"), CASES)
def test_a_kind_withstands(kind: str, step: str, tmp_path: Path, settings: Settings) -> None:
    acme = Workspace.objects.create(slug="acme", name="Acme")
    wanted = {scenario.name for scenario in world(kind) if scenario.step == step}
    with sample_of(kind, tmp_path, settings) as sample:
        found = scenarios(
            kind,
            sample.params,
            workspace=acme,
            effects=sample.effects,
            secrets=sample.secrets,
        )
        for scenario in found:
            if scenario.name in wanted:
                scenario.check()
