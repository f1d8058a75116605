"""What of Celery is off, and so cannot go wrong here: `docs/drills.md` stands on it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import current_app
from celery.exceptions import QueueNotFound
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections

from config.broker import Channel
from jobs import registry, runner

ROOT = Path(__file__).parents[2]
PACKAGES = ("config", "jobs", "webhooks", "workspaces", "alerts", "provisioning", "examples")
CANVAS = {"chain", "chord", "chunks", "group", "xmap", "xstarmap", "signature", "shared_task"}
KINDS = sorted(registry.KINDS)


def test_a_message_is_acked_when_it_is_taken_and_noted_nowhere() -> None:
    assert current_app.conf.task_acks_late is False
    assert not current_app.conf.task_reject_on_worker_lost
    assert Channel.ack_emulation is False
    assert current_app.conf.worker_prefetch_multiplier == 1


def test_messages_are_json_and_nothing_else_is_read() -> None:
    assert set(current_app.conf.accept_content) == {"json"}
    assert set(current_app.conf.result_accept_content) == {"json"}


def test_a_misspelt_queue_fails_at_the_publish() -> None:
    with pytest.raises(QueueNotFound):
        current_app.tasks[KINDS[0]].apply_async(("an id",), queue="defualt")


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_bounded_in_tries_time_and_memory(kind: str) -> None:
    task: Any = current_app.tasks[kind]
    assert task.max_retries == 5
    assert task.autoretry_for == (runner.ClaimUnavailable,)
    assert 0 < task.soft_time_limit < task.time_limit
    assert getattr(task, "expires", None) is None
    assert current_app.conf.worker_max_memory_per_child > 0
    assert current_app.conf.worker_max_tasks_per_child > 0


def test_one_message_that_gave_up_takes_no_try_from_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Celery keeps a ``max_retries`` that a run was given for all later runs of its process."""
    tries: list[str] = []

    def away(kind: str, job_id: Any) -> bool:
        tries.append(str(job_id))
        raise runner.ClaimUnavailable("the database is away")

    monkeypatch.setattr(runner, "execute", away)
    ids = [f"00000000-0000-7000-8000-00000000000{n}" for n in range(3)]
    task = current_app.tasks[KINDS[0]]
    for job_id in ids:
        assert task.apply((job_id,)).state == "FAILURE"
    assert tries == [job_id for job_id in ids for _ in range(6)]


def test_no_code_of_ours_retries_a_message_or_builds_a_canvas() -> None:
    """``retry(max_retries=)`` leaks into other runs; a chord loses its body by one duplicate."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for node in _calls_and_imports(path)
        if _is_canvas(node) or _is_retry_of_a_message(node)
    ]
    assert found == []


def _calls_and_imports(path: Path) -> Iterator[ast.Call | ast.ImportFrom]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call | ast.ImportFrom):
            yield node


def _is_canvas(node: ast.AST) -> bool:
    module = getattr(node, "module", None) or ""
    return (
        isinstance(node, ast.ImportFrom)
        and module.startswith("celery")
        and bool(CANVAS & {alias.name for alias in node.names})
    )


def _is_retry_of_a_message(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "retry"
        and any(word.arg in ("max_retries", "exc", "countdown") for word in node.keywords)
    )


def test_schedules_and_results_are_ours() -> None:
    assert current_app.conf.beat_scheduler == "jobs.beat:UpkeepScheduler"
    assert "django_celery_beat" not in settings.INSTALLED_APPS
    assert not current_app.conf.beat_schedule
    assert current_app.conf.result_backend == "config.results:FailedEnvelopes"
    assert current_app.conf.task_ignore_result is True


def test_time_is_utc_and_nothing_runs_eagerly() -> None:
    assert (str(current_app.conf.timezone), current_app.conf.enable_utc) == ("UTC", True)
    assert (settings.TIME_ZONE, settings.USE_TZ) == ("UTC", True)
    assert current_app.conf.task_always_eager is False


def test_a_worker_keeps_one_connection_and_no_pool_of_them() -> None:
    assert "pool" not in connections[DEFAULT_DB_ALIAS].settings_dict["OPTIONS"]
    assert current_app.conf.db_reuse_max > current_app.conf.worker_max_tasks_per_child
