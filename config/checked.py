"""Which values a variable of the environment may have, and the sentence for those it may not.

A sentence names the variable and what to set, and never echoes the value: it may hold a password.
"""

from __future__ import annotations

import base64
import importlib
import importlib.util
import os
import re
import secrets
import tempfile
import warnings
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import environ

BROKER_SCHEMES = ("redis://", "rediss://", "redis+socket://")
DATABASE_ENGINES = ("django.db.backends.postgresql", "django.db.backends.sqlite3")
SHORTEST_SECRET = 50
SEALING_KEY_BYTES = 32
Network = IPv4Network | IPv6Network
_ROOM = 64 * 1024  # bytes
_HOST = re.compile(r"\*|\.?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]+\]")


class EnvError(Exception):
    """A variable is missing or wrong; the message is the sentence shown to the operator."""


class MissingInDeployment(EnvError):
    """A variable that only a deployment has to set is missing."""


def words(source: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in source.get(name, "").split(",") if word.strip())


def one_of(source: Mapping[str, str], name: str, choices: tuple[str, ...], default: str) -> str:
    value = source.get(name) or default
    if value not in choices:
        raise EnvError(f"{name} is not one of {', '.join(choices)}; set one of them or leave it.")
    return value


def folder(path: str, *, deployed: bool) -> Path:
    """A folder that exists; on a machine of one's own, one that takes another file."""
    folder = Path(path).absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not deployed:
            with tempfile.TemporaryFile(dir=folder) as probe:
                probe.write(bytes(_ROOM))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no path"
        raise EnvError(
            f"FIREDOOR_VAR cannot be used as a folder ({why}); set a path this user may write to,"
            " on a disk with room."
        ) from None
    return folder


def database(url: str, var: Path, *, deployed: bool) -> dict[str, Any]:
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
    if database["ENGINE"] == DATABASE_ENGINES[1]:
        _check_file(Path(database["NAME"]))
    return database


def _check_file(path: Path) -> None:
    """Every process must find the same file, from whichever folder it was started."""
    if not path.is_absolute():
        raise EnvError("DATABASE_URL has no absolute path; write sqlite:////absolute/path.")
    if path.is_dir() or not path.parent.is_dir():
        raise EnvError(
            "DATABASE_URL names no file in a folder that exists; make the folder, or set another."
        )


def broker(url: str) -> str | None:
    if url and not url.startswith(BROKER_SCHEMES):
        raise EnvError(
            f"REDIS_URL does not begin with {', '.join(BROKER_SCHEMES)};"
            " set such an address, or unset it for inline mode."
        )
    parts = _split(url)
    number = parts.path.strip("/") if parts and parts.scheme != "redis+socket" else ""
    if parts is None or not (number.isdecimal() or not number):
        raise EnvError(
            "REDIS_URL cannot be read; write redis://:password@host:6379/0 with special characters"
            " percent-encoded, a port and the number of a database."
        )
    return url or None


def secret_key(value: str, var: Path, *, deployed: bool) -> str:
    if value and len(value) < SHORTEST_SECRET:
        raise EnvError(
            f"SECRET_KEY is shorter than {SHORTEST_SECRET} characters; make one with"
            " python -c 'import secrets; print(secrets.token_urlsafe(64))'."
        )
    if deployed and not value:
        raise MissingInDeployment(
            "SECRET_KEY is missing: a deployment needs one, the same on every machine; make it"
            " with python -c 'import secrets; print(secrets.token_urlsafe(64))'."
        )
    return value or _local_key("SECRET_KEY", var / "secret_key", secrets.token_urlsafe(64))


def sealing_keys(source: Mapping[str, str], var: Path, *, deployed: bool) -> tuple[str, ...]:
    name = "WEBHOOK_SEALING_KEYS"
    make = "make one with: head -c 32 /dev/urandom | base64 | tr +/ -_"
    keys = words(source, name)
    if deployed and not keys:
        raise MissingInDeployment(
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


def allow_http(source: Mapping[str, str], *, deployed: bool) -> bool:
    allowed = one_of(source, "WEBHOOK_ALLOW_HTTP", ("0", "1"), "0") == "1"
    if allowed and deployed:
        raise EnvError("WEBHOOK_ALLOW_HTTP is 1 in a deployment, where webhooks use TLS; unset it.")
    return allowed


def networks(source: Mapping[str, str]) -> tuple[Network, ...]:
    try:
        return tuple(ip_network(word) for word in words(source, "WEBHOOK_ALLOW_NETWORKS"))
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


def hosts(source: Mapping[str, str], *, deployed: bool) -> tuple[str, ...]:
    hosts = words(source, "ALLOWED_HOSTS")
    if deployed and (not hosts or "*" in hosts):
        raise MissingInDeployment(
            "ALLOWED_HOSTS is missing or says *: a deployment names the hosts it answers to,"
            " such as ops.example.com."
        )
    if not all(_HOST.fullmatch(host) for host in hosts):
        raise EnvError(
            "ALLOWED_HOSTS has an entry that is no host name; write ops.example.com, without"
            " scheme, port or path, or .example.com for all below it."
        )
    return hosts or ("localhost", "127.0.0.1", "[::1]")


def origins(source: Mapping[str, str]) -> tuple[str, ...]:
    origins = words(source, "CSRF_TRUSTED_ORIGINS")
    if not all(_is_origin(origin) for origin in origins):
        raise EnvError(
            "CSRF_TRUSTED_ORIGINS has an entry that is no origin; write https://ops.example.com,"
            " with a scheme and without a path."
        )
    return origins


def _is_origin(origin: str) -> bool:
    parts = _split(origin)
    if parts is None or parts.scheme not in ("http", "https") or "@" in parts.netloc:
        return False
    host = (parts.hostname or "").removeprefix("*")
    named = _HOST.fullmatch(f"[{host}]" if ":" in host else host)
    return bool(named) and origin == f"{parts.scheme}://{parts.netloc}"


def _split(url: str) -> SplitResult | None:
    """The parts of an address, its port looked at too; None for what is none."""
    try:
        parts = urlsplit(url)
        return parts if parts.port != 0 and url.isprintable() and " " not in url else None
    except ValueError:
        return None


def apps(source: Mapping[str, str]) -> tuple[str, ...]:
    """Apps that can be found. Whether they work is theirs to say, with a traceback."""
    names = words(source, "FIREDOOR_EXTRA_APPS")
    for number, name in enumerate(names, 1):
        if not _is_there(name) or name in names[: number - 1]:
            raise EnvError(
                f"FIREDOOR_EXTRA_APPS has an entry, number {number}, that cannot be imported from"
                " here, or is there twice; write the modules of your apps with commas between, and"
                " put their folder on PYTHONPATH."
            )
    return names


def _is_there(name: str) -> bool:
    """Whether it names a module, or a class in one."""
    module, _, cls = name.rpartition(".")
    try:
        if not all(part.isidentifier() for part in name.split(".")):
            return False
        if _found(name):
            return True
        return bool(module) and hasattr(importlib.import_module(module), cls)
    except ImportError:
        return False


def _found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # what should be its package is none
        return False


def debug(source: Mapping[str, str], *, deployed: bool) -> bool:
    debug = one_of(source, "DEBUG", ("0", "1"), "0") == "1"
    if debug and deployed:
        raise EnvError("DEBUG is 1 in a deployment, where it would show secrets; unset it.")
    return debug


def binary(path: str) -> str | None:
    if path and not (os.path.isabs(path) and os.path.isfile(path) and os.access(path, os.X_OK)):
        raise EnvError("TOFU_BIN is not a program that can be run; set its absolute path.")
    return path or None


def service(source: Mapping[str, str], name: str) -> str | None:
    """The base address of a service that jobs call."""
    value = source.get(name, "")
    if value and not _is_web(value):
        raise EnvError(f"{name} is not an http(s) address; set the service's base address.")
    return value.rstrip("/") or None


def _is_web(url: str) -> bool:
    parts = _split(url)
    return parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)


def dsn(value: str) -> str | None:
    if value and not (_is_web(value) and _is_dsn(value)):
        raise EnvError(
            "SENTRY_DSN is none, as https://key@host/project is; copy it from the Sentry project."
        )
    return value or None


def _is_dsn(value: str) -> bool:
    from sentry_sdk.utils import BadDsn, Dsn

    try:
        Dsn(value)
    except (BadDsn, ValueError):
        return False
    return True
