"""Callers of a web server: plain sockets that are kept open, and next to no work of their own.

A full HTTP client costs as much as what it measures, on the same processors.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

PATIENCE = 60.0
_NONE: Mapping[str, str] = MappingProxyType({})


class Unexpected(Exception):
    """The server answered something else; the message has the head of it."""


@dataclass(frozen=True)
class Answered:
    """How long each of many requests took, and all of them together."""

    seconds: list[float]
    elapsed: float

    @property
    def per_second(self) -> float:
        return len(self.seconds) / self.elapsed


def post(path: str, content: object, headers: Mapping[str, str] = _NONE) -> bytes:
    """A request as it goes over the wire, with ``content`` as JSON."""
    body = json.dumps(content).encode()
    length = {"Host": "localhost", "Content-Length": str(len(body))}
    lines = {**length, "Content-Type": "application/json", **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def ask(server: Path, requests: Sequence[bytes], *, clients: int, expect: bytes) -> Answered:
    """Send all requests, ``clients`` of them at a time, each over a connection of its own.

    Raises Unexpected where an answer's head lacks ``expect``.
    """
    taken: list[float] = []
    faults: list[Exception] = []
    ready = threading.Barrier(clients + 1)

    def call(mine: Sequence[bytes]) -> None:
        try:
            with socket.socket(socket.AF_UNIX) as link:
                link.settimeout(PATIENCE)
                link.connect(str(server))
                ready.wait()
                taken.extend(_one_by_one(link, mine, expect))
        except Exception as fault:  # noqa: BLE001  raised again by whoever called
            faults.append(fault)
            ready.abort()

    threads = [
        threading.Thread(target=call, args=(requests[first::clients],)) for first in range(clients)
    ]
    for thread in threads:
        thread.start()
    _opened(ready)
    begun = time.perf_counter()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    return Answered(taken, time.perf_counter() - begun)


def _opened(ready: threading.Barrier) -> None:
    try:
        ready.wait(PATIENCE)
    except threading.BrokenBarrierError:
        return  # a caller failed, and says so


def _one_by_one(link: socket.socket, requests: Sequence[bytes], expect: bytes) -> list[float]:
    taken = []
    with link.makefile("rb") as stream:
        for request in requests:
            begun = time.perf_counter()
            link.sendall(request)
            head = b"".join(iter(stream.readline, b"\r\n"))
            body = stream.read(_length(head))
            taken.append(time.perf_counter() - begun)
            if expect not in head:
                raise Unexpected((head + body)[:2000].decode())
    return taken


def _length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"content-length:")
    return int(rest.split(b"\r\n", 1)[0]) if found else 0
