"""One POST to somebody else's server, bounded in time and size whatever that server does.

Resolves once, refuses unless every answer is allowed, connects to one of those very addresses,
compares the peer, follows nothing, repeats nothing, reads no proxy and no password from its
surroundings. ``http.client`` reads the answer, because it lets one pin the address and bound the
whole: before each wait for the other side its socket is given what is left of the time.
"""

from __future__ import annotations

import http.client
import io
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

from webhooks.egress.addresses import Network, is_blocked
from webhooks.egress.urls import Target

_MAX_LINES = 64
_MAX_HEADER_BYTES = 32 * 1024
_CHUNK = 4096
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass(frozen=True)
class Limits:
    """In seconds and bytes. ``total`` bounds everything, from the name to the last byte."""

    resolve: float = 3.0
    connect: float = 5.0
    total: float = 15.0
    body: int = 16 * 1024


@dataclass(frozen=True)
class Reply:
    """What came of it. ``code`` is ``ok`` where an answer came, else what went wrong.

    ``sent`` says whether any of the request may have reached the other side. ``excerpt`` are the
    first bytes of the body as they came, not inflated. ``address`` is for operators only.
    """

    code: str
    sent: bool
    seconds: float
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    excerpt: bytes = b""
    address: str = ""
    detail: str = ""


class _Refused(Exception):
    """Nothing may be sent there, or nothing could: ``code`` says which."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class _HeadersTooLarge(http.client.HTTPException):
    pass


def send(
    target: Target,
    headers: Mapping[str, str],
    body: bytes,
    *,
    limits: Limits | None = None,
    allow: Iterable[Network] = (),
    context: ssl.SSLContext | None = None,
) -> Reply:
    """POST once; never raises for what the network or the other side does.

    Codes: ``ok``, ``blocked_address``, ``dns``, ``connect``, ``tls``, ``timeout``, ``reset``,
    ``protocol``. *Hole:* a name that takes longer than ``resolve`` leaves a thread behind until
    the system's resolver gives up.
    """
    request = _Request(target, limits or Limits(), tuple(allow), context)
    return request.sent(headers, body)


@lru_cache(maxsize=1)
def _default_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class _Request:
    """One request and its clock."""

    def __init__(
        self,
        target: Target,
        limits: Limits,
        allow: tuple[Network, ...],
        context: ssl.SSLContext | None,
    ) -> None:
        self.target, self.limits, self.allow, self.context = target, limits, allow, context
        self.began = time.monotonic()
        self.until = self.began + limits.total
        self.reached = False
        self.address = ""
        self.socket: socket.socket | None = None

    def sent(self, headers: Mapping[str, str], body: bytes) -> Reply:
        try:
            return self._exchange(headers, body)
        except _Refused as refusal:
            return self._failed(refusal.code, refusal.detail)
        except (http.client.HTTPException, OSError, ValueError) as error:
            return self._failed(_code_of(error), f"{type(error).__name__}: {error}"[:300])
        finally:
            if self.socket is not None:
                self.socket.close()

    def _failed(self, code: str, detail: str) -> Reply:
        return Reply(code, self.reached, self._seconds, address=self.address, detail=detail)

    def _exchange(self, given: Mapping[str, str], body: bytes) -> Reply:
        opened = self._connect(self._resolved())
        request = memoryview(_head(self.target, given, len(body)) + body)
        self.reached = True
        while request:
            opened.settimeout(self._left())
            request = request[opened.send(request) :]
        response = _Response(_Wire(opened, self._left), method="POST")  # type: ignore[arg-type]
        response.begin()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Reply(
            code="ok",
            sent=True,
            status=response.status,
            headers=headers,
            excerpt=self._excerpt(response),
            seconds=self._seconds,
            address=self.address,
        )

    def _excerpt(self, response: http.client.HTTPResponse) -> bytes:
        """What can be had of the body; the answer counts whether or not it can."""
        parts, size = [], 0
        try:
            while size < self.limits.body:
                part = response.read1(min(_CHUNK, self.limits.body - size))
                if not part:
                    break
                parts.append(part)
                size += len(part)
        except (http.client.HTTPException, OSError, ValueError):
            pass
        return b"".join(parts)

    def _resolved(self) -> list[Any]:
        found = self._looked_up() if _is_name(self.target.host) else _addresses(self.target)
        if not found:
            raise _Refused("dns", "the name has no address, or none in time")
        if any(is_blocked(str(answer[4][0]), self.allow) for answer in found):
            raise _Refused("blocked_address", f"{[answer[4][0] for answer in found]}")
        return found

    def _looked_up(self) -> list[Any]:
        """By a thread of its own, since nothing bounds the system's resolver."""
        answers: list[Any] = []
        done = threading.Event()

        def look_up() -> None:
            answers.extend(_addresses(self.target))
            done.set()

        threading.Thread(target=look_up, daemon=True).start()
        return list(answers) if done.wait(min(self.limits.resolve, self._left())) else []

    def _connect(self, answers: list[Any]) -> socket.socket:
        until = min(self.until, time.monotonic() + self.limits.connect)
        last: Exception = TimeoutError("no time is left")
        for family, kind, protocol, _name, address in answers:
            left = until - time.monotonic()
            if left <= 0:
                break
            try:
                return self._open(socket.socket(family, kind, protocol), address, left)
            except ssl.SSLError as error:
                raise _Refused("tls", str(error)[:300]) from error
            except OSError as error:
                last = error
        raise _Refused("timeout" if isinstance(last, TimeoutError) else "connect", str(last))

    def _open(self, raw: socket.socket, address: Any, left: float) -> socket.socket:
        self.socket = raw
        try:
            raw.settimeout(left)
            raw.connect(address)
            self.address = str(raw.getpeername()[0])
            if self.address != str(address[0]):
                raise _Refused("blocked_address", "the peer is another one than was looked up")
            if self.target.scheme == "https":
                raw.settimeout(self._left())
                return self._secured(raw)
        except BaseException:
            raw.close()
            raise
        return raw

    def _secured(self, raw: socket.socket) -> socket.socket:
        context = self.context or _default_context()
        secured = context.wrap_socket(
            raw, server_hostname=self.target.host, do_handshake_on_connect=False
        )
        self.socket = secured
        try:
            secured.do_handshake()
        except BaseException:
            secured.close()
            raise
        return secured

    def _left(self) -> float:
        """Seconds until all has to be over. Raises TimeoutError once it has."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time of the request is over")
        return left

    @property
    def _seconds(self) -> float:
        return round(time.monotonic() - self.began, 3)


class _Response(http.client.HTTPResponse):
    """An answer whose head is bounded in lines and bytes."""

    def begin(self) -> None:
        stream = self.fp
        self.fp = _Bounded(stream)  # type: ignore[assignment]
        super().begin()
        if self.fp is not None:
            self.fp = stream

    def _read_status(self) -> tuple[str, int, str]:
        """``begin`` passes over 100 alone; 102 and 103 come before the answer, too."""
        version, status, reason = super()._read_status()  # type: ignore[misc]  # its stubs lack it
        return version, 100 if 101 < status < 200 else status, reason


class _Bounded:
    """The stream while the head is read."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.bytes, self.lines = stream, 0, 0

    def readline(self, limit: int = -1) -> bytes:
        line: bytes = self.stream.readline(limit)
        self.bytes += len(line)
        self.lines += 1
        if not line and self.lines > 1:  # http.client would take the end for an empty line
            raise http.client.IncompleteRead(b"")
        if self.bytes > _MAX_HEADER_BYTES or self.lines > _MAX_LINES + 2:
            raise _HeadersTooLarge(f"more than {_MAX_LINES} lines or {_MAX_HEADER_BYTES} bytes")
        return line

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _Wire(io.RawIOBase):
    """What comes from the other side, for as long as there is time."""

    def __init__(self, opened: socket.socket, left: Callable[[], float]) -> None:
        super().__init__()
        self.opened, self.left = opened, left

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.opened.settimeout(self.left())
        return self.opened.recv_into(buffer)


def _head(target: Target, given: Mapping[str, str], length: int) -> bytes:
    """The head of the request. Raises ValueError where a value would be more than a value."""
    lines = {
        "host": target.authority,
        **given,
        "content-length": str(length),
        "connection": "close",
    }
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    if _CONTROL.search("".join((target.path, *lines, *lines.values()))):
        raise ValueError("a header or the path holds a control character")
    return f"POST {target.path} HTTP/1.1\r\n{text}\r\n".encode("latin-1")


def _is_name(host: str) -> bool:
    """Whether somebody has to be asked for its address."""
    try:
        ip_address(host)
    except ValueError:
        return True
    return False


def _addresses(target: Target) -> list[Any]:
    try:
        return list(socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError):
        return []


def _code_of(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, ssl.SSLError):
        return "tls"
    if isinstance(error, http.client.RemoteDisconnected | ConnectionError):
        return "reset"
    if isinstance(error, http.client.HTTPException | ValueError):
        return "protocol"
    return "reset"
