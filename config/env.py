"""What the environment says, read once, checked, and frozen into ``ENV``.

A wrong or missing variable stops the process before anything else happens, with one sentence that
names the variable and what to set. Values are never echoed: they may hold a password.

``VARIABLES`` is the whole list; ``docs/configuration.md`` is written from it by
``python -m config.env`` and a test refuses a difference.
"""

import base64
import os
import secrets
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import environ

ROOT = Path(__file__).resolve().parent.parent
UNDEPLOYED = ("local", "test")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
LOG_FORMATS = ("console", "json")
BROKER_SCHEMES = ("redis://", "rediss://", "redis+socket://")
DATABASE_ENGINES = ("django.db.backends.postgresql", "django.db.backends.sqlite3")
SHORTEST_SECRET = 50
SEALING_KEY_BYTES = 32
EXIT_CODE = 78  # EX_CONFIG of sysexits.h


Network = IPv4Network | IPv6Network


@dataclass(frozen=True)
class Variable:
    """One environment variable as an operator meets it."""

    name: str
    default: str
    meaning: str


VARIABLES: tuple[Variable, ...] = (
    Variable(
        "FIREDOOR_ENVIRONMENT",
        "`local`; `production` when DATABASE_URL is set",
        "Name of this installation. `local` and `test` run on one machine over plain HTTP; every"
        " other name is a deployment: it needs DATABASE_URL, SECRET_KEY and ALLOWED_HOSTS, sends"
        " cookies over TLS only and redirects plain HTTP.",
    ),
    Variable(
        "DATABASE_URL",
        "SQLite file in FIREDOOR_VAR",
        "`postgresql://user:password@host:5432/name`, or `sqlite:////absolute/path`.",
    ),
    Variable(
        "REDIS_URL",
        "none: inline mode",
        "Broker: `redis://`, `rediss://` or `redis+socket://`. Without it jobs run inside"
        " commands and `manage.py serve`. The server needs `maxmemory-policy noeviction`.",
    ),
    Variable(
        "SECRET_KEY",
        "made once and kept in FIREDOOR_VAR",
        f"Signs sessions and forms. At least {SHORTEST_SECRET} characters; required in a"
        " deployment, the same on every machine of it.",
    ),
    Variable(
        "ALLOWED_HOSTS",
        "localhost,127.0.0.1,[::1]",
        "Comma-separated host names this site answers to; required in a deployment, `*` refused.",
    ),
    Variable(
        "CSRF_TRUSTED_ORIGINS",
        "none",
        "Comma-separated origins with scheme, such as `https://ops.example.com`, when a proxy"
        " changes the host name.",
    ),
    Variable("DEBUG", "0", "`1` shows tracebacks in the browser; refused in a deployment."),
    Variable(
        "FIREDOOR_EXTRA_APPS",
        "none",
        "Comma-separated Django apps of your own; their `kinds.py` is discovered.",
    ),
    Variable(
        "FIREDOOR_VAR",
        "`var` beside manage.py",
        "Folder for what this machine keeps: SQLite file, local key, plan files.",
    ),
    Variable(
        "STATIC_ROOT",
        "`var/static` beside manage.py",
        "Where `manage.py collectstatic` puts the console's styles in a deployment.",
    ),
    Variable(
        "TOFU_BIN",
        "`tofu`, else `terraform`, on PATH",
        "Absolute path of the binary that provisions.",
    ),
    Variable(
        "REGISTRY_URL",
        "the example registry of this machine",
        "Where a provisioned workspace is registered, `https://…`. It must honour"
        " `Idempotency-Key`. `manage.py serve` and `demo` start an example one on a machine of"
        " your own; a deployment that provisions has to set it.",
    ),
    Variable(
        "WEBHOOK_SEALING_KEYS",
        "made once and kept in FIREDOOR_VAR",
        "Comma-separated Fernet keys that seal the signing secrets of webhooks, the newest first;"
        " required in a deployment, the same on every machine. After a new one:"
        " `manage.py rotate_sealing`, then drop the old one.",
    ),
    Variable(
        "WEBHOOK_ALLOW_HTTP",
        "0",
        "`1` lets webhooks go to plain HTTP and any port, for receivers on a machine of your own;"
        " refused in a deployment.",
    ),
    Variable(
        "WEBHOOK_ALLOW_NETWORKS",
        "none",
        "Comma-separated networks such as `10.1.0.0/16` that webhooks may reach although they are"
        " not public. Link-local addresses stay blocked.",
    ),
    Variable(
        "SENTRY_DSN",
        "none: nothing is sent",
        "Where dead letters and unexpected errors are reported.",
    ),
    Variable("LOG_LEVEL", "INFO", "One of " + ", ".join(LOG_LEVELS) + "."),
    Variable(
        "LOG_FORMAT",
        "`console`; `json` in a deployment",
        "`json` writes one object a line, `console` is for people.",
    ),
)


class EnvError(Exception):
    """A variable is missing or wrong; the message is the sentence shown to the operator."""


@dataclass(frozen=True)
class Env:
    """The environment after checking. ``deployed`` is whether other people depend on it."""

    environment: str
    deployed: bool
    database: dict[str, Any]
    redis_url: str | None
    secret_key: str
    allowed_hosts: tuple[str, ...]
    csrf_trusted_origins: tuple[str, ...]
    debug: bool
    extra_apps: tuple[str, ...]
    var: Path
    static_root: Path
    tofu_bin: str | None
    registry_url: str | None
    webhook_sealing_keys: tuple[str, ...]
    webhook_allow_http: bool
    webhook_allow_networks: tuple[Network, ...]
    sentry_dsn: str | None
    log_level: str
    log_format: str


def load(source: Mapping[str, str]) -> Env:
    """Check ``source`` and return it typed.

    Makes FIREDOOR_VAR, and in an undeployed installation without SECRET_KEY the key file in it.
    Raises ``EnvError``.
    """
    database_url = source.get("DATABASE_URL", "")
    environment = source.get("FIREDOOR_ENVIRONMENT") or ("production" if database_url else "local")
    deployed = environment not in UNDEPLOYED
    if deployed and not database_url:
        raise EnvError(
            "DATABASE_URL is missing: a deployment needs PostgreSQL;"
            " set postgresql://user:password@host:5432/name."
        )
    var = _folder(source.get("FIREDOOR_VAR") or str(ROOT / "var"))
    return Env(
        environment=environment,
        deployed=deployed,
        database=_database(database_url, var, deployed=deployed),
        redis_url=_broker(source.get("REDIS_URL", "")),
        secret_key=_secret_key(source.get("SECRET_KEY", ""), var, deployed=deployed),
        allowed_hosts=_hosts(source, deployed=deployed),
        csrf_trusted_origins=_origins(source),
        debug=_debug(source, deployed=deployed),
        extra_apps=_words(source, "FIREDOOR_EXTRA_APPS"),
        var=var,
        static_root=Path(source.get("STATIC_ROOT") or ROOT / "var" / "static").absolute(),
        tofu_bin=_binary(source.get("TOFU_BIN", "")),
        registry_url=_registry(source.get("REGISTRY_URL", "")),
        webhook_sealing_keys=_sealing_keys(source, var, deployed=deployed),
        webhook_allow_http=_allow_http(source, deployed=deployed),
        webhook_allow_networks=_networks(source),
        sentry_dsn=_dsn(source.get("SENTRY_DSN", "")),
        log_level=_one_of(source, "LOG_LEVEL", LOG_LEVELS, "INFO"),
        log_format=_one_of(source, "LOG_FORMAT", LOG_FORMATS, "json" if deployed else "console"),
    )


def _words(source: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in source.get(name, "").split(",") if word.strip())


def _one_of(source: Mapping[str, str], name: str, choices: tuple[str, ...], default: str) -> str:
    value = source.get(name) or default
    if value not in choices:
        raise EnvError(f"{name} is not one of {', '.join(choices)}; set one of them or leave it.")
    return value


def _folder(path: str) -> Path:
    folder = Path(path).absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise EnvError(
            f"FIREDOOR_VAR cannot be used as a folder ({error.strerror});"
            " set a path this user may write to."
        ) from error
    return folder


def _database(url: str, var: Path, *, deployed: bool) -> dict[str, Any]:
    if not url:
        return {"ENGINE": DATABASE_ENGINES[1], "NAME": str(var / "firedoor.sqlite3")}
    try:
        with warnings.catch_warnings(action="ignore"):  # of a scheme it does not know it tells all
            database: dict[str, Any] = dict(environ.Env.db_url_config(url))
    except Exception as error:  # noqa: BLE001 - the parser raises many types, some with the value
        raise EnvError(
            "DATABASE_URL cannot be read; write postgresql://user:password@host:5432/name"
            f" with special characters percent-encoded ({type(error).__name__})."
        ) from None
    if database.get("ENGINE") not in DATABASE_ENGINES or not database.get("NAME"):
        raise EnvError(
            "DATABASE_URL names no supported database;"
            " use postgresql://… with a database name, or sqlite:////absolute/path."
        )
    if deployed and database["ENGINE"] != DATABASE_ENGINES[0]:
        raise EnvError(
            "DATABASE_URL is not PostgreSQL, which a deployment needs;"
            " SQLite is for FIREDOOR_ENVIRONMENT=local."
        )
    return database


def _broker(url: str) -> str | None:
    if url and not url.startswith(BROKER_SCHEMES):
        raise EnvError(
            f"REDIS_URL does not begin with {', '.join(BROKER_SCHEMES)};"
            " set such an address, or unset it for inline mode."
        )
    return url or None


def cache_url(broker: str) -> str:
    """The same server as a cache is told of it: a socket has another name and number there."""
    scheme = "redis+socket://"
    if not broker.startswith(scheme):
        return broker
    address, _, query = broker.removeprefix(scheme).partition("?")
    number = parse_qs(query).get("virtual_host", ["0"])[0]
    return f"unix://{address}?db={number}"


def _secret_key(value: str, var: Path, *, deployed: bool) -> str:
    if value and len(value) < SHORTEST_SECRET:
        raise EnvError(
            f"SECRET_KEY is shorter than {SHORTEST_SECRET} characters; make one with"
            " python -c 'import secrets; print(secrets.token_urlsafe(64))'."
        )
    if deployed and not value:
        raise EnvError(
            "SECRET_KEY is missing: a deployment needs one, the same on every machine; make it"
            " with python -c 'import secrets; print(secrets.token_urlsafe(64))'."
        )
    return value or _local_key("SECRET_KEY", var / "secret_key", secrets.token_urlsafe(64))


def _sealing_keys(source: Mapping[str, str], var: Path, *, deployed: bool) -> tuple[str, ...]:
    name = "WEBHOOK_SEALING_KEYS"
    make = "make one with: head -c 32 /dev/urandom | base64 | tr +/ -_"
    keys = _words(source, name)
    if deployed and not keys:
        raise EnvError(
            f"{name} is missing: a deployment needs one, the same on every machine; {make}."
        )
    for key in keys:
        try:
            fits = len(base64.b64decode(key, altchars=b"-_", validate=True)) == SEALING_KEY_BYTES
        except ValueError:
            fits = False
        if not fits:
            raise EnvError(f"{name} holds what is no key of 32 bytes; {make}.")
    draft = base64.urlsafe_b64encode(secrets.token_bytes(SEALING_KEY_BYTES)).decode()
    return keys or (_local_key(name, var / "webhook_sealing_key", draft),)


def _allow_http(source: Mapping[str, str], *, deployed: bool) -> bool:
    allowed = _one_of(source, "WEBHOOK_ALLOW_HTTP", ("0", "1"), "0") == "1"
    if allowed and deployed:
        raise EnvError("WEBHOOK_ALLOW_HTTP is 1 in a deployment, where webhooks use TLS; unset it.")
    return allowed


def _networks(source: Mapping[str, str]) -> tuple[Network, ...]:
    try:
        return tuple(ip_network(word) for word in _words(source, "WEBHOOK_ALLOW_NETWORKS"))
    except ValueError:
        raise EnvError(
            "WEBHOOK_ALLOW_NETWORKS has an entry that is no network; write them as 10.1.0.0/16."
        ) from None


def _local_key(name: str, path: Path, made: str) -> str:
    """Return this machine's key; of two processes that start at once, one makes it."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        if not path.exists():
            with open(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
                file.write(made)
            try:
                os.link(draft, path)  # atomic, and refuses to replace the winner's key
            except FileExistsError:
                pass
            finally:
                draft.unlink()
        return path.read_text()
    except OSError as error:
        raise EnvError(
            f"{name} is not set and a local one cannot be kept in FIREDOOR_VAR"
            f" ({error.strerror}); set either."
        ) from error


def _hosts(source: Mapping[str, str], *, deployed: bool) -> tuple[str, ...]:
    hosts = _words(source, "ALLOWED_HOSTS")
    if deployed and (not hosts or "*" in hosts):
        raise EnvError(
            "ALLOWED_HOSTS is missing or says *: a deployment names the hosts it answers to,"
            " such as ops.example.com."
        )
    return hosts or ("localhost", "127.0.0.1", "[::1]")


def _origins(source: Mapping[str, str]) -> tuple[str, ...]:
    origins = _words(source, "CSRF_TRUSTED_ORIGINS")
    if not all("://" in origin for origin in origins):
        raise EnvError(
            "CSRF_TRUSTED_ORIGINS has an entry without a scheme; write https://ops.example.com."
        )
    return origins


def _debug(source: Mapping[str, str], *, deployed: bool) -> bool:
    debug = _one_of(source, "DEBUG", ("0", "1"), "0") == "1"
    if debug and deployed:
        raise EnvError("DEBUG is 1 in a deployment, where it would show secrets; unset it.")
    return debug


def _binary(path: str) -> str | None:
    if path and not os.access(path, os.X_OK):
        raise EnvError("TOFU_BIN is not a program that can be run; set its absolute path.")
    return path or None


def _registry(value: str) -> str | None:
    if value and not value.startswith(("https://", "http://")):
        raise EnvError("REGISTRY_URL is not an http(s) address; set the registry's base address.")
    return value.rstrip("/") or None


def _dsn(value: str) -> str | None:
    if value and not value.startswith(("https://", "http://")):
        raise EnvError("SENTRY_DSN is not an http(s) address; copy it from the Sentry project.")
    return value or None


def documentation() -> str:
    """Return docs/configuration.md."""
    rows = [f"| `{v.name}` | {v.default} | {v.meaning} |" for v in VARIABLES]
    return "\n".join(
        [
            "# Configuration",
            "",
            "Every setting comes from the environment. A wrong or missing value stops start-up with"
            " a sentence that names it.",
            "This page is written by `python -m config.env`; edit `config/env.py` instead.",
            "",
            "| variable | when unset | meaning |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def load_or_stop(source: Mapping[str, str]) -> Env:
    """Return ``load(source)``, or end the process with the sentence and exit code 78."""
    try:
        return load(source)
    except EnvError as error:
        sys.stderr.write(f"Firedoor did not start. {error}\n")
        raise SystemExit(EXIT_CODE) from None


if __name__ == "__main__":
    sys.stdout.write(documentation())
else:
    ENV = load_or_stop(os.environ)
