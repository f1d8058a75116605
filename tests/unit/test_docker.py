"""The image and the compose file agree with the code. No Docker engine runs them here."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from config import serving
from config.queues import QUEUES, Queue

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if service["image"] == "firedoor"]
DOCKERFILE = (ROOT / "docker/Dockerfile").read_text().replace("\\\n", "").splitlines()


def instructions(name: str) -> list[str]:
    return [
        line.strip().removeprefix(name).strip()
        for line in DOCKERFILE
        if line.strip().startswith(name + " ")
    ]


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


def seconds(duration: str) -> int:
    assert duration.endswith("s")
    return int(duration[:-1])


def test_the_services_are_web_beat_a_worker_per_queue_and_two_servers() -> None:
    workers = {f"worker-{queue.name}" for queue in QUEUES}
    assert set(SERVICES) == {"migrate", "web", "beat", "postgres", "redis"} | workers


@pytest.mark.parametrize("queue", QUEUES, ids=lambda queue: queue.name)
def test_each_worker_serves_its_queue_as_the_table_says(queue: Queue) -> None:
    worker = SERVICES[f"worker-{queue.name}"]
    assert worker["command"][:4] == ["celery", "-A", "config", "worker"]
    assert option(worker["command"], "--queues") == queue.name
    assert option(worker["command"], "--concurrency") == str(queue.concurrency)
    assert option(worker["command"], "--hostname") == f"{queue.name}@%h"
    assert worker["environment"]["FIREDOOR_QUEUE"] == queue.name
    assert seconds(worker["stop_grace_period"]) == queue.grace_seconds


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_runs_in_exec_form_and_is_probed(name: str) -> None:
    service = SERVICES[name]
    assert isinstance(service.get("command", []), list)  # a shell would swallow SIGTERM
    if name == "web":
        assert "healthcheck" not in service  # the image's own
    elif name == "migrate":
        assert service["healthcheck"] == {"disable": True}
    else:
        assert service["healthcheck"]["test"][0].startswith("CMD")


@pytest.mark.parametrize("name", OURS)
def test_our_services_have_no_privileges_and_the_same_settings(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "user" not in service  # the image's own user
    shared = SERVICES["migrate"]["environment"]
    assert shared.items() <= service["environment"].items()
    assert {"DATABASE_URL", "REDIS_URL", "SECRET_KEY", "ALLOWED_HOSTS"} <= shared.keys()


@pytest.mark.parametrize(
    "name", ["SECRET_KEY", "WEBHOOK_SEALING_KEYS", "POSTGRES_PASSWORD", "ALLOWED_HOSTS"]
)
def test_secrets_have_no_default(name: str) -> None:
    text = (ROOT / "docker/compose.yaml").read_text()
    assert f"${{{name}:?" in text
    assert f"${{{name}:-" not in text


def test_redis_refuses_to_forget() -> None:
    command = SERVICES["redis"]["command"]
    assert option(command, "--maxmemory-policy") == "noeviction"
    assert option(command, "--appendonly") == "yes"
    assert "redis:/data" in SERVICES["redis"]["volumes"]


def test_the_image_is_pinned_probed_and_not_root() -> None:
    bases = [line.split()[0] for line in instructions("FROM")]
    copied_from = [word for word in " ".join(instructions("COPY")).split() if "/terraform:" in word]
    assert bases
    assert copied_from
    for image in [*bases, *copied_from, SERVICES["postgres"]["image"], SERVICES["redis"]["image"]]:
        assert not image.endswith("latest")
        assert ":" in image
    assert instructions("USER") == ["firedoor"]
    assert json.loads(instructions("CMD")[-1])[:3] == ["gunicorn", "--config", "python:config.web"]
    assert instructions("HEALTHCHECK")


def test_serve_starts_the_web_server_as_the_image_does() -> None:
    assert option(serving.processes(0)["web"], "--config") == "python:config.web"


def test_the_image_contains_every_package_that_settings_load() -> None:
    copied = {line.split()[-1] for line in instructions("COPY")}
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "benchmarks"}
    assert packages <= copied
    ignored = (ROOT / "docker/Dockerfile.dockerignore").read_text().splitlines()
    assert ignored[0] == "*"
    assert {f"!{package}" for package in packages} <= set(ignored)
