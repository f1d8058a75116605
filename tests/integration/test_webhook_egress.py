"""One request to a hostile server: bounded in time and size, and never to somewhere else."""

from __future__ import annotations

import datetime
import gzip
import socket
import ssl
import struct
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.unit.test_webhook_addresses import BLOCKED
from webhooks.egress import Limits, Reply, Target, send, sending

HERE = [ip_network("127.0.0.0/8")]
QUICK = Limits(resolve=1, connect=1, total=1)
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

Behaviour = Callable[[socket.socket], None]


@dataclass
class Receiver:
    """A server that does what it is told with each connection, and keeps what it was sent."""

    port: int
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0

    @property
    def target(self) -> Target:
        return Target("http", "127.0.0.1", self.port, "/hook?a=b")


@contextmanager
def receiving(
    behave: Behaviour, wrap: Callable[[socket.socket], socket.socket] | None = None
) -> Iterator[Receiver]:
    """A receiver on a free port of this machine."""
    server = socket.create_server(("127.0.0.1", 0))
    receiver = Receiver(server.getsockname()[1])

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                receiver.connections += 1
                with suppress(OSError), client:
                    secured = wrap(client) if wrap else client
                    receiver.requests.append(_read(secured))
                    behave(secured)
                    secured.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(10)


def _read(client: socket.socket) -> bytes:
    """The whole request: with some of it unread, closing would reset the connection."""
    got = b""
    while b"\r\n\r\n" not in got or not got.endswith(
        (b"{}", b"length: 0\r\nconnection: close\r\n\r\n")
    ):
        part = client.recv(65536)
        if not part:
            break
        got += part
    return got


def says(answer: bytes) -> Behaviour:
    return lambda client: client.sendall(answer)


def drips(start: bytes, drop: bytes) -> Behaviour:
    """Send the start, then a drop at a time for as long as anybody listens, a minute at most."""

    def behave(client: socket.socket) -> None:
        client.sendall(start)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            client.sendall(drop)
            threading.Event().wait(0.05)

    return behave


def sent(receiver: Receiver, body: bytes = b"{}", **more: Any) -> Reply:
    given = {"limits": QUICK, "allow": HERE, **more}
    target = given.pop("target", receiver.target)
    return send(target, {"content-type": "application/json"}, body, **given)


def test_a_request_says_what_it_was_given_and_nothing_of_this_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """W-84."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere.pem")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login ana password hunter2\n")
    with receiving(says(OK)) as receiver:
        reply = sent(receiver)

    assert (reply.code, reply.status, reply.excerpt, reply.sent) == ("ok", 200, b"ok", True)
    (request,) = receiver.requests
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"POST /hook?a=b HTTP/1.1",
        f"host: 127.0.0.1:{receiver.port}".encode(),
        b"content-type: application/json",
        b"content-length: 2",
        b"connection: close",
    ]
    assert body == b"{}"


@pytest.mark.parametrize("status", [b"301", b"302", b"307", b"308"])
def test_a_redirect_is_an_answer_and_is_not_followed(status: bytes) -> None:
    """W-13, W-83."""
    with receiving(says(OK)) as elsewhere:
        to = f"http://127.0.0.1:{elsewhere.port}/".encode()
        moved = b"HTTP/1.1 " + status + b" Moved\r\nlocation: " + to + b"\r\n\r\n"
        with receiving(says(moved)) as receiver:
            reply = sent(receiver)

    assert (reply.code, reply.status, reply.headers["location"]) == ("ok", int(status), to.decode())
    assert (receiver.connections, elsewhere.connections) == (1, 0)


@pytest.mark.parametrize(
    "behave",
    [
        drips(b"HTTP/1.1 200 OK\r\n", b"x"),
        drips(b"HTTP/1.1 200 OK\r\n", b"x-drop: 1\r\n"),
        drips(b"", b"H"),
        drips(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["a header's bytes", "headers", "the status line", "continue for ever"],
)
def test_an_answer_that_never_begins_ends_with_the_clock(behave: Behaviour) -> None:
    """W-20."""
    with receiving(behave) as receiver:
        reply = sent(receiver)

    assert (reply.code in ("timeout", "protocol"), reply.status, reply.sent) == (True, None, True)
    assert reply.seconds < 10


def test_silence_is_a_timeout() -> None:
    """W-20."""
    quiet = threading.Event()

    def say_nothing(_client: socket.socket) -> None:
        quiet.wait(30)

    with receiving(say_nothing) as receiver:
        reply = sent(receiver)
        quiet.set()

    assert (reply.code, reply.sent) == ("timeout", True)


@pytest.mark.parametrize(
    "behave",
    [
        drips(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n", b"x"),
        drips(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        drips(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 100_000),
    ],
    ids=["a dripped body", "dripped chunks", "an endless body"],
)
def test_an_answer_whose_body_never_ends_is_an_answer(behave: Behaviour) -> None:
    with receiving(behave) as receiver:
        reply = sent(receiver)

    assert (reply.code, reply.status) == ("ok", 200)
    assert set(reply.excerpt) == {ord("x")}
    assert len(reply.excerpt) <= QUICK.body
    assert reply.seconds < 10


def test_of_a_huge_body_the_beginning_is_read_and_no_more() -> None:
    """W-22: 200 MB."""

    def behave(client: socket.socket) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 209715200\r\n\r\n")
        chunk = b"x" * 65_536
        for _ in range(3200):
            client.sendall(chunk)

    with receiving(behave) as receiver:
        tracemalloc.start()
        reply = sent(receiver)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert (reply.code, reply.excerpt) == ("ok", b"x" * QUICK.body)
    assert peak < 5_000_000


def test_a_bomb_is_not_inflated() -> None:
    """W-23."""
    bomb = gzip.compress(b"0" * 50_000_000)
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n"
    with receiving(says(head + bomb)) as receiver:
        tracemalloc.start()
        reply = sent(receiver)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

    assert reply.excerpt == bomb[: QUICK.body]
    assert peak < 5_000_000


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"", "reset"),
        (b"nonsense\r\n\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\nx: y\r\n", "protocol"),
        (b"HTTP/1.1 999999 Odd\r\n\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000 + b"\r\n\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 65 + b"\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\n" + (b"x: " + b"y" * 1000 + b"\r\n") * 40 + b"\r\n", "protocol"),
    ],
    ids=[
        "empty",
        "nonsense",
        "half a head",
        "odd status",
        "a long line",
        "many lines",
        "much of it",
    ],
)
def test_a_broken_answer_has_its_code(answer: bytes, code: str) -> None:
    with receiving(says(answer)) as receiver:
        reply = sent(receiver)

    assert (reply.code, reply.status, reply.sent) == (code, None, True)


@pytest.mark.parametrize("early", [b"100 Continue", b"102 Processing", b"103 Early Hints"])
def test_what_comes_before_the_answer_is_not_it(early: bytes) -> None:
    before = b"HTTP/1.1 " + early + b"\r\nlink: </a>; rel=preload\r\n\r\n"
    with receiving(says(before * 2 + OK)) as receiver:
        reply = sent(receiver)

    assert (reply.code, reply.status, reply.excerpt) == ("ok", 200, b"ok")


def test_sixty_four_header_lines_are_read() -> None:
    with receiving(says(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 63 + b"z: 1\r\n\r\n")) as receiver:
        assert sent(receiver).headers["z"] == "1"


def test_nobody_there_is_a_refused_connection() -> None:
    with receiving(says(OK)) as receiver:
        pass
    reply = sent(receiver)
    assert (reply.code, reply.sent, reply.status) == ("connect", False, None)


def test_an_address_that_is_not_allowed_gets_no_connection() -> None:
    with receiving(says(OK)) as receiver:
        reply = sent(receiver, allow=())
    assert (reply.code, reply.sent, receiver.connections) == ("blocked_address", False, 0)


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost"])
def test_other_spellings_of_a_blocked_address_are_blocked(host: str) -> None:
    with receiving(says(OK)) as receiver:
        reply = sent(receiver, allow=(), target=replace(receiver.target, host=host))
    assert (reply.code, receiver.connections) == ("blocked_address", 0)


def answering(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Let names resolve to these addresses, one list a lookup; the names that were asked for."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def look_up(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(host)
        found = answers[min(len(asked), len(answers)) - 1]
        return [real(address, port, *args, **kwargs)[0] for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


def test_one_bad_answer_among_good_ones_blocks_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """W-81."""
    answering(monkeypatch, ["127.0.0.1", "10.0.0.5"])
    with receiving(says(OK)) as receiver:
        reply = sent(receiver, target=replace(receiver.target, host="hooks.example.com"))
    assert (reply.code, receiver.connections) == ("blocked_address", 0)


def test_every_blocked_address_is_blocked_as_an_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """W-80: a name that leads there, beside a good address."""
    opened: list[object] = []
    monkeypatch.setattr(socket.socket, "connect", lambda *_: opened.append(_))
    for address in BLOCKED:
        answer = (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443))
        good = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", 443))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, a=answer, g=good, **__: [g, a])
        reply = send(Target("https", "hooks.example.com", 443, "/"), {}, b"{}", limits=QUICK)
        assert (reply.code, reply.sent, opened) == ("blocked_address", False, []), address


def test_a_peer_that_is_not_who_was_looked_up_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """W-89."""
    with receiving(says(OK)) as receiver:
        monkeypatch.setattr(socket.socket, "getpeername", lambda _self: ("127.0.0.2", 80))
        reply = sent(receiver)
        monkeypatch.undo()
    assert (reply.code, reply.sent) == ("blocked_address", False)
    assert b"".join(receiver.requests) == b""


def resets(start: bytes) -> Behaviour:
    """Say this much and break off with a reset, not with an end."""

    def behave(client: socket.socket) -> None:
        client.sendall(start)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return behave


@pytest.mark.parametrize(
    ("start", "code", "status"),
    [
        (b"", "reset", None),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", "ok", 200),
    ],
    ids=["before the answer", "after its head"],
)
def test_a_connection_that_is_reset(start: bytes, code: str, status: int | None) -> None:
    """W-18: status and headers are the answer; of its body nothing is needed."""
    with receiving(resets(start)) as receiver:
        reply = sent(receiver)
    assert (reply.code, reply.status, reply.sent) == (code, status, True)


def test_a_name_is_looked_up_once_and_the_answer_is_what_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """W-82."""
    asked = answering(monkeypatch, ["127.0.0.1"], ["127.0.0.2"])
    with receiving(says(OK)) as receiver:
        reply = sent(receiver, target=replace(receiver.target, host="hooks.example.com"))
    assert (reply.code, reply.address, asked) == ("ok", "127.0.0.1", ["hooks.example.com"])


@pytest.mark.timeout(30)
def test_a_name_that_is_not_answered_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """W-85: long before the time of the whole is over."""
    never = threading.Event()

    def look_up(*_: Any, **__: Any) -> list[Any]:
        never.wait(120)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    limits = Limits(resolve=0.2, total=120)
    reply = send(Target("http", "hooks.example.com", 80, "/"), {}, b"", limits=limits)
    never.set()
    assert (reply.code, reply.sent) == ("dns", False)
    assert (Limits().resolve, Limits().connect, Limits().total) == (3, 5, 15), "what is promised"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def secured(certificate: trustme.LeafCert) -> Callable[[socket.socket], socket.socket]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return lambda client: context.wrap_socket(client, server_side=True)


def in_plain(client: socket.socket) -> socket.socket:
    client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    return client


def over_tls(receiver: Receiver) -> Target:
    return Target("https", "hooks.example.com", receiver.port, "/")


def test_the_name_is_checked_and_not_the_address(
    authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, ["127.0.0.1"])
    right = secured(authority.issue_cert("hooks.example.com"))
    with receiving(says(OK), right) as receiver:
        reply = sent(receiver, target=over_tls(receiver), context=trusting(authority))
    assert (reply.code, reply.status) == ("ok", 200)


def test_by_itself_it_trusts_whom_this_machine_trusts_and_nobody_else(
    authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-19: what a worker uses, where no test brings a trust of its own."""
    answering(monkeypatch, ["127.0.0.1"])
    wrap = secured(authority.issue_cert("hooks.example.com"))
    with receiving(says(OK), wrap) as receiver:
        reply = sent(receiver, target=over_tls(receiver))
    assert (reply.code, reply.sent, receiver.requests) == ("tls", False, [])
    assert sending._default_context().minimum_version == ssl.TLSVersion.TLSv1_2


def sipping(client: socket.socket) -> socket.socket:
    """Take a little at a time, which keeps whoever sends it waiting, and never comes to an end."""
    with client, suppress(OSError):
        while client.recv(65536):
            threading.Event().wait(0.2)
    return client


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_receiver_that_takes_the_request_slowly_ends_with_the_clock(
    *, tls: bool, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, ["127.0.0.1"])
    wrap = secured(authority.issue_cert("hooks.example.com")) if tls else lambda client: client
    with receiving(says(OK), lambda client: sipping(wrap(client))) as receiver:
        target = over_tls(receiver) if tls else receiver.target
        body = b"0" * 30_000_000
        reply = sent(receiver, body, target=target, context=trusting(authority))
    assert (reply.code, reply.sent, reply.status) == ("timeout", True, None)
    assert reply.seconds < 10


@pytest.mark.parametrize("fault", ["another name", "expired", "unknown authority", "no tls"])
def test_bad_tls_sends_nothing(
    fault: str, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, ["127.0.0.1"])
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    certificates = {
        "another name": authority.issue_cert("other.example.com"),
        "expired": authority.issue_cert("hooks.example.com", not_after=past),
        "unknown authority": trustme.CA().issue_cert("hooks.example.com"),
    }
    wrap = secured(certificates[fault]) if fault in certificates else in_plain
    with receiving(says(OK), wrap) as receiver:
        reply = sent(receiver, target=over_tls(receiver), context=trusting(authority))
    assert (reply.code, reply.sent, reply.status) == ("tls", False, None)


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "\x00\r\n"])
def test_a_header_cannot_smuggle_another(value: str) -> None:
    with receiving(says(OK)) as receiver:
        reply = send(receiver.target, {"x-own": value}, b"", limits=QUICK, allow=HERE)
    assert (reply.code, reply.sent) == ("protocol", False)
    assert b"evil" not in b"".join(receiver.requests)
