"""The web process as it is deployed: gunicorn, production settings, collected files."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.servers import postgres, valkey

ROOT = Path(__file__).parents[2]
GUNICORN = [
    *(sys.executable, "-m", "gunicorn", "--config", "python:config.web"),
    *("--preload", "--no-control-socket"),
]
OVER_TLS = {"Host": "ops.example.com", "X-Forwarded-Proto": "https"}


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with postgres() as database, valkey() as broker:
        environment = {
            "PATH": os.environ["PATH"],
            "FIREDOOR_ENVIRONMENT": "production",
            "FIREDOOR_VAR": str(tmp_path_factory.mktemp("var")),
            "STATIC_ROOT": str(tmp_path_factory.mktemp("static")),
            "DATABASE_URL": database.url,
            "REDIS_URL": broker.url,
            "SECRET_KEY": "only-for-this-test-" * 4,
            "WEBHOOK_SEALING_KEYS": "MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA=",
            "ALLOWED_HOSTS": "ops.example.com",
        }
        for command in ("migrate", "collectstatic"):
            manage = [sys.executable, "manage.py", command, "--noinput", "--verbosity", "0"]
            subprocess.run(manage, cwd=ROOT, env=environment, check=True)
        yield environment


@pytest.fixture(scope="module")
def web(deployed: dict[str, str]) -> Iterator[httpx2.Client]:
    with gunicorn(deployed) as address:
        with httpx2.Client(base_url=address, trust_env=False, timeout=30) as client:
            yield client


@contextmanager
def gunicorn(environment: dict[str, str]) -> Iterator[str]:
    with served(environment) as (address, _process):
        yield address


@contextmanager
def served(environment: dict[str, str]) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """Gunicorn as docker/Dockerfile starts it, on a port that is ours from the beginning."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        bind = f"fd://{listener.fileno()}"
        process = subprocess.Popen(
            [*GUNICORN, "--bind", bind, "config.wsgi"],
            cwd=ROOT,
            env=environment,
            pass_fds=[listener.fileno()],
            stderr=subprocess.DEVNULL,
        )
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        yield address, process
    finally:
        process.terminate()
        process.wait(30)


def test_a_probe_by_address_over_plain_http_is_answered(web: httpx2.Client) -> None:
    assert web.get("/healthz/live").json()["status"] == "ok"
    ready = web.get("/healthz/ready")
    # Whether a beat has just run here, another test decides.
    looked_after = ready.json()["checks"]["upkeep"] == "ok"
    assert ready.status_code == (200 if looked_after else 503)
    assert ready.json()["checks"]["database"] == "ok"
    assert ready.json()["checks"]["broker"] == "ok"


def test_plain_http_is_sent_to_tls(web: httpx2.Client) -> None:
    response = web.get("/admin/", headers={"Host": "ops.example.com"})
    assert response.status_code == 301
    assert response.headers["Location"] == "https://ops.example.com/admin/"


def test_a_foreign_host_name_is_refused(web: httpx2.Client) -> None:
    response = web.get("/admin/login/", headers=OVER_TLS | {"Host": "evil.example.com"})
    assert response.status_code == 400


def test_the_login_page_has_every_safety_header(web: httpx2.Client) -> None:
    response = web.get("/admin/login/", headers=OVER_TLS)
    assert response.status_code == 200
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "includeSubDomains" in response.headers["Strict-Transport-Security"]
    assert response.headers["X-Frame-Options"] == "DENY"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    cookie = response.headers["Set-Cookie"]
    assert all(word in cookie for word in ("Secure", "HttpOnly", "SameSite=Lax"))


def test_collected_styles_are_served_under_names_that_may_be_kept_for_ever(
    web: httpx2.Client,
) -> None:
    page = web.get("/admin/login/", headers=OVER_TLS).text
    styles = re.findall(r'href="(/static/[^"]+\.css)"', page)
    assert styles
    for style in styles:
        response = web.get(style, headers=OVER_TLS)
        assert response.status_code == 200
        assert "immutable" in response.headers["Cache-Control"]


def test_where_nothing_was_collected_the_error_page_says_so_much(
    deployed: dict[str, str], tmp_path: Path
) -> None:
    with gunicorn(deployed | {"STATIC_ROOT": str(tmp_path)}) as address:
        with httpx2.Client(base_url=address, trust_env=False, timeout=60) as client:
            answer = client.get("/admin/login/", headers=OVER_TLS)
    assert answer.status_code == 500
    assert "Something went wrong on our side" in answer.text
    assert answer.headers["X-Request-ID"]


@pytest.fixture(scope="module")
def inline(deployed: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a `manage.py serve` in a deployment without a broker."""
    static = tmp_path_factory.mktemp("served") / "static"
    environment = deployed | {"STATIC_ROOT": str(static), "REDIS_URL": ""}
    command = [sys.executable, "-u", "manage.py", "serve", "--bind", "127.0.0.1:0"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as serve:
        assert serve.stdout is not None
        said = re.search(r"http://[0-9.:]+", serve.stdout.readline().decode())
        assert said is not None
        try:
            yield said[0]
        finally:
            serve.terminate()


def test_serve_in_a_deployment_collects_what_it_serves(inline: str) -> None:
    with httpx2.Client(base_url=inline, trust_env=False, timeout=60) as client:
        page = client.get("/admin/login/", headers=OVER_TLS).text
        style = re.search(r'href="(/static/[^"]+\.css)"', page)
        assert style is not None
        assert client.get(style[1], headers=OVER_TLS).status_code == 200


def test_serve_refuses_and_believes_what_a_deployed_web_server_does(inline: str) -> None:
    with httpx2.Client(base_url=inline, trust_env=False, timeout=60) as client:
        moved = client.get("/api/problems/", headers=OVER_TLS | {"SCRIPT_NAME": "/elsewhere"})
        plain = client.get("/api/problems/", headers=OVER_TLS | {"X-Forwarded-Ssl": "off"})
        refused = client.get("/api/problems/", headers=OVER_TLS | {"Expect": "a-miracle"})
    assert (moved.status_code, plain.status_code) == (200, 200)
    assert refused.json()["code"] == "expectation_failed"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("req-0123456789", True), ("x", False), ("a" * 65, False), ("bad id\twith blanks", False)],
)
def test_a_request_id_is_kept_when_well_formed(web: httpx2.Client, sent: str, kept: bool) -> None:
    response = web.get("/admin/login/", headers=OVER_TLS | {"X-Request-ID": sent})
    answered = response.headers["X-Request-ID"]
    assert (answered == sent) is kept
    assert 8 <= len(answered) <= 64
