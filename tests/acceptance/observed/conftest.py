"""A stack as a deployment should be, durable and reporting to a Sentry of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.acceptance.stack import Stack
from tests.servers import postgres, valkey
from tests.support.sentry import Sentry, sentry


@dataclass
class Observed(Stack):
    """A stack whose every process reports to ``dsn``."""

    dsn: str = ""

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "SENTRY_DSN": self.dsn}


@pytest.fixture(scope="package")
def reports() -> Iterator[Sentry]:
    """What every process of the stack has reported."""
    with sentry() as told:
        yield told


@pytest.fixture(scope="package")
def whole_stack(reports: Sentry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    folder = tmp_path_factory.mktemp("observed")
    with (
        postgres(durable=True) as database,
        valkey(durable=True) as broker,
        ExitStack() as processes,
    ):
        yield Observed(database, broker, folder, processes, dsn=reports.dsn)
