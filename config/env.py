"""What the environment says, read once, checked, and frozen into ``ENV``.

A wrong or missing variable stops the process before anything else happens, with one sentence that
names the variable and what to set. Values are never echoed: they may hold a password.

``VARIABLES`` is the whole list; ``docs/configuration.md`` is written from it by
``python -m config.env`` and a test refuses a difference.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from config import checked
from config.checked import SHORTEST_SECRET, EnvError, MissingInDeployment, Network

ROOT = Path(__file__).resolve().parent.parent
UNDEPLOYED = ("local", "test")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
LOG_FORMATS = ("console", "json")
EXIT_CODE = 78  # EX_CONFIG of sysexits.h


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
        "Comma-separated host names this site answers to, without scheme and port; `.example.com`"
        " means all below it. Required in a deployment, `*` refused.",
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
        "Comma-separated Django apps of your own; their `kinds.py` is discovered. Every process"
        " needs it: `make serve`, workers and commands alike.",
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
        "PAYMENTS_URL",
        "the example bank of this machine",
        "Where the payment example finds its provider, `http://…`. `manage.py serve` starts one on"
        " a machine of your own.",
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
    payments_url: str | None
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
    database_url, named = source.get("DATABASE_URL", ""), source.get("FIREDOOR_ENVIRONMENT")
    environment = named or ("production" if database_url else "local")
    try:
        return _read(source, database_url, environment)
    except MissingInDeployment as missing:
        if named:
            raise
        hint = "On a machine of your own set FIREDOOR_ENVIRONMENT=local instead."
        raise EnvError(f"{missing} {hint}") from None


def _read(source: Mapping[str, str], database_url: str, environment: str) -> Env:
    deployed = environment not in UNDEPLOYED
    if deployed and not database_url:
        raise MissingInDeployment(
            "DATABASE_URL is missing: a deployment needs PostgreSQL;"
            " set postgresql://user:password@host:5432/name."
        )
    var = checked.folder(source.get("FIREDOOR_VAR") or str(ROOT / "var"), deployed=deployed)
    return Env(
        environment=environment,
        deployed=deployed,
        database=checked.database(database_url, var, deployed=deployed),
        redis_url=checked.broker(source.get("REDIS_URL", "")),
        secret_key=checked.secret_key(source.get("SECRET_KEY", ""), var, deployed=deployed),
        allowed_hosts=checked.hosts(source, deployed=deployed),
        csrf_trusted_origins=checked.origins(source),
        debug=checked.debug(source, deployed=deployed),
        extra_apps=checked.apps(source),
        var=var,
        static_root=Path(source.get("STATIC_ROOT") or ROOT / "var" / "static").absolute(),
        tofu_bin=checked.binary(source.get("TOFU_BIN", "")),
        registry_url=checked.service(source, "REGISTRY_URL"),
        payments_url=checked.service(source, "PAYMENTS_URL"),
        webhook_sealing_keys=checked.sealing_keys(source, var, deployed=deployed),
        webhook_allow_http=checked.allow_http(source, deployed=deployed),
        webhook_allow_networks=checked.networks(source),
        sentry_dsn=checked.dsn(source.get("SENTRY_DSN", "")),
        log_level=checked.one_of(source, "LOG_LEVEL", LOG_LEVELS, "INFO"),
        log_format=checked.one_of(
            source, "LOG_FORMAT", LOG_FORMATS, "json" if deployed else "console"
        ),
    )


def cache_url(broker: str) -> str:
    """The same server as a cache is told of it: a socket has another name and number there."""
    scheme = "redis+socket://"
    if not broker.startswith(scheme):
        return broker
    address, _, query = broker.removeprefix(scheme).partition("?")
    number = parse_qs(query).get("virtual_host", ["0"])[0]
    return f"unix://{address}?db={number}"


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
