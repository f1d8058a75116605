"""The example services are found by whoever needs them, and started only where nobody else did."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from config import services
from examples.payments import client
from jobs.kinds import Terminal
from provisioning.lifecycle import registration

pytestmark = pytest.mark.sqlite


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, settings: Settings) -> Path:
    settings.FIREDOOR_EXAMPLES = tmp_path
    settings.FIREDOOR_REGISTRY_URL = None
    return tmp_path


def test_a_service_is_found_while_it_runs_and_not_after(folder: Path) -> None:
    with services.available("registry") as url:
        found, answered = registration.address(), services.answers(url)
    with pytest.raises(Terminal, match="REGISTRY_URL"):
        registration.address()

    assert (found, answered) == (url, True)
    assert not services.answers(url)


def test_the_payments_find_their_provider_likewise() -> None:
    with services.available("payments") as url:
        assert client.provider_url() == url
    with pytest.raises(ImproperlyConfigured):
        client.provider_url()


def test_the_one_that_answers_is_used_by_all() -> None:
    with services.available("registry") as first:
        with services.available("registry") as second:
            assert second == first
        assert services.answers(first)


def test_a_note_that_nobody_stands_behind_is_replaced(folder: Path) -> None:
    (folder / "registry.url").write_text("http://127.0.0.1:1\n")

    with services.available("registry") as url:
        assert registration.address() == url


def test_what_is_configured_comes_first(settings: Settings) -> None:
    with services.available("registry") as url:
        settings.FIREDOOR_REGISTRY_URL = url
        assert services.configured("registry") == url
        settings.FIREDOOR_REGISTRY_URL = "https://registry.example.com"
        assert registration.address() == "https://registry.example.com"


def test_a_deployment_looks_for_no_example(folder: Path, settings: Settings) -> None:
    (folder / "registry.url").write_text("http://127.0.0.1:1\n")
    settings.FIREDOOR_EXAMPLES = None

    services.start_all()

    with pytest.raises(Terminal, match="REGISTRY_URL"):
        registration.address()
