"""Pytest plugin that starts the servers before Django reads its settings.

Loaded by ``-p tests.launcher`` in pyproject.toml, since pytest-django imports the settings before
any conftest. DATABASE_URL and REDIS_URL that are set already are used as they are. When no server
can be had the run stops: it never falls back to SQLite. ``FIREDOOR_TEST_DB=sqlite`` asks for
SQLite and no broker, for the tests marked ``sqlite``.
"""

import atexit
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.servers import NoServer, postgres, valkey

stack = ExitStack()
atexit.register(stack.close)  # also when Django's setup fails, where pytest says no goodbye


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Start what is missing; the workers of pytest-xdist share their parent's servers."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is not None:
        _part_of_worker(int(worker.removeprefix("gw")))
        return
    os.environ["FIREDOOR_ENVIRONMENT"] = "test"
    os.environ.setdefault("FIREDOOR_EXTRA_APPS", "tests.drills")
    os.environ["FIREDOOR_VAR"] = stack.enter_context(
        tempfile.TemporaryDirectory(prefix="firedoor-var-")
    )
    if os.environ.get("FIREDOOR_TEST_DB") == "sqlite":
        os.environ.pop("DATABASE_URL", None)
        os.environ.pop("REDIS_URL", None)
        return
    try:
        if "DATABASE_URL" not in os.environ:
            os.environ["DATABASE_URL"] = stack.enter_context(postgres()).url
        if "REDIS_URL" not in os.environ:
            os.environ["REDIS_URL"] = stack.enter_context(valkey()).url
    except NoServer as error:
        raise pytest.UsageError(str(error)) from error


def _part_of_worker(number: int) -> None:
    """Give each xdist worker its own folder and, of our own Valkey, its own database."""
    var = Path(os.environ["FIREDOOR_VAR"]) / f"gw{number}"
    var.mkdir(exist_ok=True)
    os.environ["FIREDOOR_VAR"] = str(var)
    url = os.environ.get("REDIS_URL", "")
    if url.startswith("redis+socket://") and "virtual_host" not in url:
        os.environ["REDIS_URL"] = f"{url}?virtual_host={number + 1}"
