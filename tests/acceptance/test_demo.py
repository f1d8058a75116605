"""``manage.py demo`` as a reader runs it: from an empty folder, and on a whole stack."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from config.env import ROOT
from tests.acceptance.stack import Stack
from tests.support.terraform import real_tool
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(300)


@dataclass
class Machine:
    """One person's machine: nothing but Python, a PATH and an empty FIREDOOR_VAR."""

    var: Path
    path: str

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": self.path, "FIREDOOR_VAR": str(self.var)}

    def manage(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """What ``manage.py`` does with these words; nothing is asserted of it."""
        return subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), *words],
            env=self.environment | more,
            cwd=self.var,
            capture_output=True,
            text=True,
            check=False,
        )

    def does(self, *words: str) -> str:
        """What it prints; fails with its errors when it fails."""
        done = self.manage(*words)
        assert done.returncode == 0, f"{words}:\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def serving(self) -> Iterator[None]:
        """``manage.py serve`` beside it, once its registry answers."""
        command = [sys.executable, str(ROOT / "manage.py"), "serve", "--bind", "127.0.0.1:0"]
        with subprocess.Popen(
            command, env=self.environment, cwd=self.var, stderr=subprocess.DEVNULL
        ) as process:
            try:
                wait_until(lambda: _answers(self.var / "registry.url"), 60, "a registry is there")
                yield
            finally:
                process.terminate()


def _answers(note: Path) -> bool:
    try:
        return httpx2.get(f"{note.read_text().strip()}/requests", trust_env=False).is_success
    except (OSError, httpx2.HTTPError):
        return False


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path / "var", os.environ["PATH"])
    machine.var.mkdir()
    machine.does("migrate", "--verbosity", "0")
    return machine


@pytest.fixture
def bare(machine: Machine, tmp_path: Path) -> Machine:
    """A machine without OpenTofu and Terraform."""
    return Machine(machine.var, str(tmp_path / "no programs here"))


def told_once(line: str, name: str) -> dict[str, Any]:
    """What ``--json`` printed: one line, with both jobs of one chain in it."""
    assert line.count("\n") == 1
    told: dict[str, Any] = json.loads(line)
    assert set(told) == {"first", "retry", "kept", "ran", "effects", "seconds"}
    first, again = told["first"], told["retry"]
    assert (first["state"], first["cause"], first["kind"]) == ("dead", "exhausted", name)
    assert (again["state"], again["retry_of"], first["successor"]) == (
        "succeeded",
        first["id"],
        again["id"],
    )
    assert again["actor"].startswith("user:")
    assert set(told["effects"].values()) == {1}
    return told


def test_the_story_is_told_and_told_again_and_leaves_a_dead_job_to_retry(machine: Machine) -> None:
    real_tool()
    told = machine.manage("demo")
    again = told_once(machine.does("demo", "--json"), "provisioning.provision")

    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stderr == ""
    assert "network 1, database 1, app 1, registration 1" in " ".join(told.stdout.split())
    assert "workspace acme is ready; the alert is resolved" in told.stdout
    assert not re.search(r"\[(info|warning|error) ", told.stdout)
    assert again["kept"] == ["apply"]
    assert again["ran"] == ["plan", "verify", "register", "ready"]
    assert set(again["effects"]) == {"network", "database", "app", "registration"}
    assert again["first"]["workspace"] == "acme-2"
    left = re.search(r"job retry (\S+) --reason", told.stdout)
    assert left is not None
    assert retried_while_serving(machine, left[1]) == ("succeeded", ["apply"])
    effects = (machine.var / "provisioning/effects").read_text().splitlines()
    assert len(effects) == len(set(effects)) == 12


def retried_while_serving(machine: Machine, job: str) -> tuple[str, list[str]]:
    """The state of the job's successor, and the steps that it kept."""
    dead = json.loads(machine.does("job", "show", job, "--json"))
    assert dead["state"] == "dead"
    with machine.serving():
        words = ("--reason", "the registry is back", "--json")
        successor = json.loads(machine.does("job", "retry", job, *words))
        machine.does("job", "wait", successor["id"])
        ended = json.loads(machine.does("job", "show", successor["id"], "--json"))
    return ended["state"], [step["name"] for step in ended["steps"] if step["carried_from"]]


def test_without_terraform_the_same_story_is_told_with_payments(bare: Machine) -> None:
    silent = bare.manage("demo", "--json")
    words = bare.does("demo")

    told = told_once(silent.stdout, "payments.charge")
    assert told["kept"] == ["reserve", "charge", "book"]
    assert told["ran"] == ["receipt"]
    assert set(told["effects"]) == {"hold", "charge", "receipt", "booking"}
    assert "5. No effect happened twice" in silent.stderr
    assert "password" not in silent.stdout + silent.stderr
    assert "Neither OpenTofu nor Terraform is installed here" in words
    assert "order acme-2-1 is paid; the alert is resolved" in words
    password = re.search(r"^  password +(\S{16})$", words, re.MULTILINE)
    assert password is not None
    assert password[1] not in (bare.var / "demo.log").read_text()


def test_ctrl_c_stops_it_with_a_sentence(bare: Machine) -> None:
    with subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), "demo"],
        env=bare.environment,
        cwd=bare.var,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        while "1. Something breaks" not in demo.stdout.readline():
            assert demo.poll() is None
        demo.send_signal(signal.SIGINT)
        errors = demo.communicate(timeout=100)[1]
    assert (demo.returncode, "Traceback" in errors) == (130, False)
    assert errors.startswith("Stopped. ")


def test_it_says_when_the_tables_are_missing(tmp_path: Path) -> None:
    told = Machine(tmp_path, os.environ["PATH"]).manage("demo")

    assert told.returncode == 1
    assert "manage.py migrate" in told.stderr


def test_it_is_refused_in_a_deployment(machine: Machine) -> None:
    told = machine.manage(
        "demo",
        FIREDOOR_ENVIRONMENT="production",
        DATABASE_URL="postgresql://db.invalid/firedoor",
        SECRET_KEY="only-for-this-test-" * 4,
        WEBHOOK_SEALING_KEYS="MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA=",
        ALLOWED_HOSTS="ops.example.com",
    )

    assert told.returncode == 1
    assert "is for a machine of your own" in told.stderr


def test_the_story_on_a_whole_stack(stack: Stack) -> None:
    real_tool()
    told = told_once(stack.manage("demo", "--json"), "provisioning.provision")

    assert told["kept"] == ["apply"]
    assert [attempt["outcome"] for attempt in told["first"]["attempts"]] == ["failed"] * 4
    workers = {attempt["worker"] for attempt in told["first"]["attempts"]}
    assert all("/" in worker for worker in workers)
