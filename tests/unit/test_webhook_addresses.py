"""Where webhooks may go: every address that the field has been fooled with."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from webhooks.egress import UrlRefused, is_blocked, target_of

BLOCKED = """
127.0.0.1 127.1.2.3 0.0.0.0 0.1.2.3 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1
169.254.169.254 169.254.170.2 100.64.0.1 100.100.100.200 198.18.0.1 240.0.0.1 255.255.255.255
192.0.0.1 192.0.2.1 198.51.100.1 203.0.113.1 192.0.0.192 224.0.0.1 239.255.255.250 192.88.99.1
168.63.129.16 :: ::1 fc00::1 fd00:ec2::254 fd7a:115c:a1e0::1 fe80::1 febf::1 fe80::1%eth0
::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:8.8.8.8 ::127.0.0.1
::ffff:0:127.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::1 2002:7f00:1:: 2002:a9fe:a9fe::1
2001::1 2001:db8::1 100::1 2001:2::1 3fff::1 5f00::1 fec0::1 ff02::1 2606:4700:4700::1111%1
localhost 2130706433 127.1 8.8.8.8:443
""".split()
ALLOWED = "8.8.8.8 1.1.1.1 2606:4700:4700::1111 2001:4860:4860::8888 172.32.0.1 11.0.0.1".split()


@pytest.mark.parametrize("address", BLOCKED)
def test_blocked(address: str) -> None:
    """W-80."""
    assert is_blocked(address)


@pytest.mark.parametrize("address", ALLOWED)
def test_allowed(address: str) -> None:
    assert not is_blocked(address)


@pytest.mark.parametrize(
    ("network", "address", "blocked"),
    [
        ("127.0.0.0/8", "127.0.0.1", False),
        ("127.0.0.0/8", "10.0.0.1", True),
        ("10.0.0.0/8", "8.8.8.8", False),
        ("::/0", "::1", False),
        ("0.0.0.0/0", "169.254.169.254", True),
        ("::/0", "fe80::1", True),
        ("fe80::/10", "fe80::1%eth0", True),
    ],
)
def test_an_operators_own_networks_are_let_through_but_never_link_local_ones(
    network: str, address: str, blocked: bool
) -> None:
    """W-87."""
    assert is_blocked(address, [ip_network(network)]) is blocked


@pytest.mark.parametrize(
    ("url", "host", "port", "path"),
    [
        ("https://hooks.example.com", "hooks.example.com", 443, "/"),
        ("https://HOOKS.Example.com./a?b=c", "hooks.example.com", 443, "/a?b=c"),
        ("https://hooks.example.com:8443/x", "hooks.example.com", 8443, "/x"),
        ("https://bücher.example/x", "xn--bcher-kva.example", 443, "/x"),
        ("https://[2606:4700:4700::1111]/x", "2606:4700:4700::1111", 443, "/x"),
    ],
)
def test_urls_that_may_be_used(url: str, host: str, port: int, path: str) -> None:
    target = target_of(url)
    assert (target.host, target.port, target.path) == (host, port, path)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://hooks.example.com", "scheme"),
        ("ftp://hooks.example.com", "scheme"),
        ("hooks.example.com", "scheme"),
        ("https://user@hooks.example.com", "userinfo"),
        ("https://user:pass@hooks.example.com", "userinfo"),
        ("https://hooks.example.com#part", "form"),
        ("https://hooks.example.com/a b", "form"),
        ("https://hooks.example.com/a\tb", "form"),
        ("https://hooks.exa\nmple.com/", "form"),
        ("https://hooks.example.com/a\\b", "form"),
        ("https://hooks.example.com/%00", "form"),
        ("https://hooks.example.com:99999/", "form"),
        ("https://hooks.example.com:22/", "port"),
        ("https://localhost/", "host"),
        ("https://a.localhost/", "host"),
        ("https://printer.local/", "host"),
        ("https://db.internal/", "host"),
        ("https://db.internal./", "host"),
        ("https://intranet/", "host"),
        ("https://2130706433/", "host"),
        ("https:///path", "host"),
        ("https://a..example.com/", "host"),
        ("https://example.com%2f@evil.example/", "userinfo"),
        ("https://hooks.example.com/" + "a" * 2048, "too_long"),
    ],
)
def test_urls_that_are_refused(url: str, reason: str) -> None:
    """W-86."""
    with pytest.raises(UrlRefused) as refused:
        target_of(url)
    assert refused.value.reason == reason


@pytest.mark.parametrize("dot", ["。", "．", "｡"])  # noqa: RUF001
def test_other_scripts_dots_are_dots(dot: str) -> None:
    assert target_of(f"https://hooks{dot}example.com/").host == "hooks.example.com"


@pytest.mark.parametrize("allow_http", [False, True])
def test_port_0_is_not_the_default_one(allow_http: bool) -> None:
    with pytest.raises(UrlRefused) as refused:
        target_of("https://hooks.example.com:0/", allow_http=allow_http)
    assert refused.value.reason == "port"


def test_ones_own_machine_may_be_admitted() -> None:
    target = target_of("http://localhost:8099/hook", allow_http=True)
    assert (target.host, target.port, target.authority) == ("localhost", 8099, "localhost:8099")
