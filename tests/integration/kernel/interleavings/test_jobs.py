"""Workers, sweepers and operators in every order: what DESIGN promises holds after each move."""

from __future__ import annotations

import pytest

from tests.integration.kernel.interleavings.effort import PATIENCE, play
from tests.integration.kernel.interleavings.machine import Interleavings
from tests.integration.kernel.interleavings.stage import stage

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.sqlite,
    pytest.mark.timeout(PATIENCE),
]


def test_jobs_stay_true_in_every_order(monkeypatch: pytest.MonkeyPatch) -> None:
    with stage(monkeypatch) as here:

        def scene() -> Interleavings:
            return Interleavings(here)

        play(scene)
