"""What an endpoint's URL may look like. Where it leads is decided at every request."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

LONGEST = 2048
PORTS = frozenset({443, 8443})
_LOCAL = ("localhost", ".localhost", ".local", ".internal")
_PLAIN = re.compile(r"[!-~]+")
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)+|[0-9a-f:]*:[0-9a-f:.]*")


class UrlRefused(ValueError):
    """``reason`` is one of scheme, userinfo, port, host, too_long, form."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


@dataclass(frozen=True)
class Target:
    """Where a request goes. ``host`` is in ASCII, ``path`` with its query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The ``Host`` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"https": 443, "http": 80}[self.scheme]
        return host if self.port == usual else f"{host}:{self.port}"


def target_of(url: str, *, allow_http: bool = False, ports: frozenset[int] = PORTS) -> Target:
    """The URL taken apart. Raises UrlRefused.

    ``allow_http`` is for receivers on one's own machine; it also admits any port.
    """
    if len(url) > LONGEST:
        raise UrlRefused("too_long", f"A URL has at most {LONGEST} characters.")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise UrlRefused("form", "This is no URL.") from None
    if parts.scheme != "https" and not (allow_http and parts.scheme == "http"):
        raise UrlRefused("scheme", "A URL begins with https://.")
    if "@" in parts.netloc:
        raise UrlRefused("userinfo", "A URL holds no user and no password.")
    if "#" in url or "\\" in url or "%00" in url or not _is_plain(url, parts.netloc):
        raise UrlRefused("form", "A URL holds no fragment, backslash, space or control character.")
    chosen = (443 if parts.scheme == "https" else 80) if port is None else port
    if chosen == 0 or (chosen not in ports and not allow_http):
        raise UrlRefused("port", f"A port is one of {', '.join(map(str, sorted(ports)))}.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, _host(host, allow_local=allow_http), chosen, path)


def without_query(url: str) -> str:
    """A URL as all may see it: many receivers want a key in its query."""
    return url.partition("?")[0]


def _is_plain(url: str, netloc: str) -> bool:
    """Whether all but the host, which may be in any script, is printable ASCII."""
    before, _, after = url.partition(netloc or "//")
    return all(not part or _PLAIN.fullmatch(part) for part in (before, after))


def _host(name: str, *, allow_local: bool) -> str:
    try:
        host = name.encode("idna").decode().lower().rstrip(".") if name else ""
    except UnicodeError:
        host = ""
    if not _HOST.fullmatch(host) and not (allow_local and host == "localhost"):
        raise UrlRefused("host", "The host is a full name such as hooks.example.com.")
    if host.endswith(_LOCAL) and not allow_local:
        raise UrlRefused("host", "The host is a name of a local network.")
    return host
