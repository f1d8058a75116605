"""The environment is read once, checked, and refused with a sentence that names the variable."""

import base64
import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import redis
from cryptography.fernet import Fernet

from config.checked import EnvError
from config.env import EXIT_CODE, ROOT, VARIABLES, cache_url, documentation, load

SECRET = "s" * 50
SEALING = base64.urlsafe_b64encode(b"k" * 32).decode()
DEPLOYED = {
    "FIREDOOR_ENVIRONMENT": "production",
    "DATABASE_URL": "postgresql://app:pass%2Fword@db.internal:5432/firedoor",
    "SECRET_KEY": SECRET,
    "WEBHOOK_SEALING_KEYS": SEALING,
    "ALLOWED_HOSTS": "ops.example.com, ops2.example.com",
}


def test_an_empty_environment_is_local_sqlite_inline(tmp_path: Path) -> None:
    env = load({"FIREDOOR_VAR": str(tmp_path / "odd #%?folder")})
    assert (env.environment, env.deployed, env.redis_url) == ("local", False, None)
    assert env.database["ENGINE"] == "django.db.backends.sqlite3"
    assert env.database["NAME"] == str(tmp_path / "odd #%?folder" / "firedoor.sqlite3")
    assert env.log_format == "console"


def test_a_deployment_is_read_whole(tmp_path: Path) -> None:
    env = load(DEPLOYED | {"FIREDOOR_VAR": str(tmp_path), "REDIS_URL": "rediss://broker/0"})
    assert env.deployed
    assert env.allowed_hosts == ("ops.example.com", "ops2.example.com")
    assert env.database["PASSWORD"] == "pass/word"
    assert env.redis_url == "rediss://broker/0"
    assert env.log_format == "json"


def test_a_database_url_alone_makes_it_a_deployment(tmp_path: Path) -> None:
    with pytest.raises(EnvError, match="SECRET_KEY"):
        load({"DATABASE_URL": "postgresql://db/firedoor", "FIREDOOR_VAR": str(tmp_path)})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("DATABASE_URL", "", "missing"),
        ("DATABASE_URL", "mysql://user:hunter22@db/firedoor", "supported"),
        ("DATABASE_URL", "postgresql://user:hunter22@db:not-a-port/firedoor", "read"),
        ("DATABASE_URL", "postgresql://user:hunter22@db", "supported"),
        ("DATABASE_URL", "sqlite:////tmp/hunter22", "PostgreSQL"),
        ("REDIS_URL", "amqp://user:hunter22@broker", "redis://"),
        ("SECRET_KEY", "", "missing"),
        ("SECRET_KEY", "hunter22", "shorter"),
        ("WEBHOOK_SEALING_KEYS", "", "missing"),
        ("WEBHOOK_SEALING_KEYS", "hunter22", "no key"),
        ("WEBHOOK_SEALING_KEYS", f"{SEALING},hunter22", "no key"),
        ("WEBHOOK_ALLOW_HTTP", "1", "deployment"),
        ("WEBHOOK_ALLOW_HTTP", "hunter22", "one of"),
        ("WEBHOOK_ALLOW_NETWORKS", "10.0.0.0/8,hunter22", "no network"),
        ("ALLOWED_HOSTS", "", "missing"),
        ("ALLOWED_HOSTS", "*", "missing or says"),
        ("ALLOWED_HOSTS", "https://hunter22.example.com", "without scheme"),
        ("ALLOWED_HOSTS", "hunter22.example.com:8000", "without scheme"),
        ("ALLOWED_HOSTS", "ok.example.com,hunter22.example.com/", "without scheme"),
        ("ALLOWED_HOSTS", "*.hunter22.com", ".example.com"),
        ("CSRF_TRUSTED_ORIGINS", "hunter22.example.com", "scheme"),
        ("CSRF_TRUSTED_ORIGINS", "//hunter22.example.com", "scheme"),
        ("CSRF_TRUSTED_ORIGINS", "https://hunter22.example.com/", "path"),
        ("CSRF_TRUSTED_ORIGINS", "ftp://hunter22.example.com", "scheme"),
        ("CSRF_TRUSTED_ORIGINS", "https://[hunter22", "scheme"),
        ("CSRF_TRUSTED_ORIGINS", "https://", "scheme"),
        ("REDIS_URL", "redis://:hunter22@broker:port/0", "read"),
        ("REDIS_URL", "redis://:hunter22@broker:70000/0", "read"),
        ("REDIS_URL", "redis://:hunter22@[broker/0", "read"),
        ("REDIS_URL", "redis://broker/hunter22", "read"),
        ("FIREDOOR_EXTRA_APPS", "hunter22", "number 1"),
        ("FIREDOOR_EXTRA_APPS", "tests.drills,tests.drills.hunter22", "number 2"),
        ("FIREDOOR_EXTRA_APPS", "tests.drills,tests.drills", "twice"),
        ("FIREDOOR_EXTRA_APPS", "..hunter22", "number 1"),
        ("FIREDOOR_EXTRA_APPS", "postgresql://hunter22@db/x", "number 1"),
        ("DEBUG", "1", "deployment"),
        ("DEBUG", "yes", "not one of"),
        ("FIREDOOR_VAR", "/dev/null/hunter22", "folder"),
        ("TOFU_BIN", "/hunter22", "program"),
        ("TOFU_BIN", "/tmp", "program"),
        ("TOFU_BIN", "manage.py", "absolute"),
        ("REGISTRY_URL", "hunter22", "http"),
        ("REGISTRY_URL", "http://[", "http"),
        ("REGISTRY_URL", "http://", "http"),
        ("REGISTRY_URL", "https://hunter22:port", "http"),
        ("PAYMENTS_URL", "hunter22", "http"),
        ("PAYMENTS_URL", "http://hunter22:0", "http"),
        ("SENTRY_DSN", "hunter22", "http"),
        ("SENTRY_DSN", "https://hunter22", "Sentry"),
        ("SENTRY_DSN", "https://hunter22@sentry.example.com/", "Sentry"),
        ("SENTRY_DSN", "https://hunter22@sentry.example.com:port/1", "Sentry"),
        ("LOG_LEVEL", "hunter22", "not one of"),
        ("LOG_FORMAT", "hunter22", "not one of"),
    ],
)
def test_what_is_wrong_is_named_and_never_echoed(
    tmp_path: Path, name: str, value: str, words: str
) -> None:
    with pytest.raises(EnvError) as refused:
        load({"FIREDOOR_VAR": str(tmp_path)} | DEPLOYED | {name: value})
    assert name in str(refused.value)
    assert words in str(refused.value)
    assert "hunter22" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ALLOWED_HOSTS", "ops.example.com,.example.org,localhost,[::1],10.0.0.1,under_score"),
        ("CSRF_TRUSTED_ORIGINS", "https://ops.example.com,http://[::1]:8000,https://*.example.com"),
        ("REDIS_URL", "redis://:p%2Fw@broker:6380/3"),
        ("REDIS_URL", "redis:///0"),
        ("REDIS_URL", "redis://broker"),
        ("REDIS_URL", "redis+socket:///run/valkey.sock?virtual_host=2"),
        ("REDIS_URL", "rediss://broker:6379/0?ssl_cert_reqs=required"),
        ("FIREDOOR_EXTRA_APPS", "tests.drills, workspaces.apps.WorkspacesConfig"),
        ("TOFU_BIN", sys.executable),
        ("REGISTRY_URL", "https://registry.example.com/v1/"),
        ("SENTRY_DSN", "https://key@o1.ingest.sentry.io/42"),
        ("SENTRY_DSN", "http://key:secret@sentry.internal:9000/sub/7"),
    ],
)
def test_what_is_right_is_taken(tmp_path: Path, name: str, value: str) -> None:
    load({"FIREDOOR_VAR": str(tmp_path)} | DEPLOYED | {name: value})


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite:///hunter22.sqlite3", "absolute"),
        ("sqlite://:memory:", "absolute"),
        ("sqlite:////no-such-folder/hunter22.sqlite3", "folder"),
        ("sqlite:////tmp", "file"),
    ],
)
def test_every_process_must_find_the_same_file(tmp_path: Path, url: str, words: str) -> None:
    local = {"FIREDOOR_ENVIRONMENT": "local", "FIREDOOR_VAR": str(tmp_path)}
    with pytest.raises(EnvError, match=words) as refused:
        load({**local, "DATABASE_URL": url})
    assert "DATABASE_URL" in str(refused.value)
    assert "hunter22" not in str(refused.value)
    load({**local, "DATABASE_URL": f"sqlite:///{tmp_path}/own.sqlite3"})


@pytest.mark.parametrize("left_out", ["DATABASE_URL", "SECRET_KEY", "ALLOWED_HOSTS"])
def test_who_did_not_ask_for_a_deployment_is_told_of_the_other_way(
    tmp_path: Path, left_out: str
) -> None:
    found = {"FIREDOOR_VAR": str(tmp_path)} | DEPLOYED
    del found[left_out]
    with pytest.raises(EnvError) as asked_for:
        load(found)
    assert "FIREDOOR_ENVIRONMENT=local" not in str(asked_for.value)
    if left_out != "DATABASE_URL":
        del found["FIREDOOR_ENVIRONMENT"]
        with pytest.raises(EnvError, match="FIREDOOR_ENVIRONMENT=local"):
            load(found)


def test_a_folder_that_takes_no_file_is_refused_with_a_sentence(tmp_path: Path) -> None:
    """As on a disk that is full: here no file may grow."""
    full = (
        # Python would keep what it compiled cut off at the limit, for everybody after it.
        "import resource, sys; sys.dont_write_bytecode = True;"
        " resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));"
        " sys.argv = ['manage.py', 'check']; import runpy;"
        " runpy.run_path('manage.py', None, '__main__')"
    )
    for command, var in ((["-c", full], str(tmp_path)), (["manage.py", "check"], "/proc/self")):
        done = run([sys.executable, *command], FIREDOOR_VAR=var)
        assert done.returncode == EXIT_CODE, done.stderr
        assert done.stderr.startswith("Firedoor did not start. FIREDOOR_VAR cannot be used")
        assert len(done.stderr.splitlines()) == 1
    load({"FIREDOOR_VAR": "/proc/self"} | DEPLOYED)  # which keeps its things elsewhere


def test_the_local_key_is_made_once_and_private(tmp_path: Path) -> None:
    first = load({"FIREDOOR_VAR": str(tmp_path)}).secret_key
    assert len(first) >= 50
    assert load({"FIREDOOR_VAR": str(tmp_path)}).secret_key == first
    assert stat.S_IMODE((tmp_path / "secret_key").stat().st_mode) == 0o600
    made = {path.name: path.stat().st_mode for path in tmp_path.iterdir()}
    assert set(made) == {"secret_key", "webhook_sealing_key"}
    assert {stat.S_IMODE(mode) for mode in made.values()} == {0o600}


def test_the_local_sealing_key_opens_what_it_sealed_before(tmp_path: Path) -> None:
    (key,) = load({"FIREDOOR_VAR": str(tmp_path)}).webhook_sealing_keys
    sealed = Fernet(key).encrypt(b"secret")
    (again,) = load({"FIREDOOR_VAR": str(tmp_path)}).webhook_sealing_keys
    assert Fernet(again).decrypt(sealed) == b"secret"


def test_networks_and_keys_are_read(tmp_path: Path) -> None:
    more = {"WEBHOOK_SEALING_KEYS": f"{SEALING}, {SEALING}"}
    networks = {"WEBHOOK_ALLOW_NETWORKS": "10.1.0.0/16, fd00::/8"}
    env = load(DEPLOYED | more | networks | {"FIREDOOR_VAR": str(tmp_path)})
    assert env.webhook_sealing_keys == (SEALING, SEALING)
    assert [str(network) for network in env.webhook_allow_networks] == ["10.1.0.0/16", "fd00::/8"]
    assert env.webhook_allow_http is False


def run(command: list[str], **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": os.environ["PATH"], **variables}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    "command",
    [
        ["manage.py", "check"],
        ["-m", "gunicorn", "--preload", "--no-control-socket", "--bind=127.0.0.1:0", "config.wsgi"],
    ],
    ids=["manage.py", "gunicorn"],
)
def test_start_up_stops_with_the_sentence_alone(tmp_path: Path, command: list[str]) -> None:
    done = run([sys.executable, *command], FIREDOOR_VAR=str(tmp_path), REDIS_URL="nonsense")
    assert done.returncode == EXIT_CODE
    lines = [line for line in done.stderr.splitlines() if "[INFO]" not in line]
    assert len(lines) == 1
    assert lines[0].startswith("Firedoor did not start. REDIS_URL does not begin with")
    assert done.stdout == ""


def test_two_processes_that_start_at_once_agree_on_the_local_key(tmp_path: Path) -> None:
    script = "from config.env import ENV; print(ENV.secret_key)"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env={"FIREDOOR_VAR": str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    assert len({process.communicate(timeout=60)[0] for process in processes}) == 1


def test_the_documentation_says_what_the_code_reads() -> None:
    assert (ROOT / "docs/configuration.md").read_text() == documentation()


def test_every_variable_that_is_read_is_listed() -> None:
    listed = {variable.name for variable in VARIABLES}
    seen: set[str] = set()

    class Watched(dict[str, str]):
        def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
            seen.add(name)
            return super().get(name, default)

    load(Watched(DEPLOYED | {"FIREDOOR_VAR": "/tmp"}))
    assert seen == listed


@pytest.mark.parametrize(
    ("broker", "cache"),
    [
        ("redis://host:6379/1", "redis://host:6379/1"),
        ("rediss://:word@host/0", "rediss://:word@host/0"),
        ("redis+socket:///run/a.sock", "unix:///run/a.sock?db=0"),
        ("redis+socket:///run/a.sock?virtual_host=3", "unix:///run/a.sock?db=3"),
        ("redis+socket://:word@/run/a.sock?virtual_host=3", "unix://:word@/run/a.sock?db=3"),
    ],
)
def test_the_cache_is_the_brokers_server_in_other_words(broker: str, cache: str) -> None:
    assert cache_url(broker) == cache
    if cache.startswith("unix"):
        assert redis.from_url(cache).get_connection_kwargs()["path"] == "/run/a.sock"


@pytest.mark.parametrize("url", ["//user:hunter22@db/firedoor", "odd://user:hunter22@db/firedoor"])
def test_a_url_that_the_parser_warns_about_is_not_echoed_by_its_warning(url: str) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with pytest.raises(EnvError):
            load({"DATABASE_URL": url, "FIREDOOR_ENVIRONMENT": "local"})
    assert said == []
