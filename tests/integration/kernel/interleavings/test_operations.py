"""Bulk deeds in every order with everything else: no item twice, none while it is held."""

from __future__ import annotations

import pytest

from tests.integration.kernel.interleavings.effort import PATIENCE, play
from tests.integration.kernel.interleavings.machine import InterleavingsWithOperations
from tests.integration.kernel.interleavings.stage import stage

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.sqlite,
    pytest.mark.timeout(PATIENCE),
]


def test_operations_stay_true_in_every_order(monkeypatch: pytest.MonkeyPatch) -> None:
    with stage(monkeypatch) as here:

        def scene() -> InterleavingsWithOperations:
            return InterleavingsWithOperations(here)

        play(scene)
