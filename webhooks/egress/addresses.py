"""Which addresses a webhook may be sent to.

By explicit lists: ``ipaddress.is_global`` lets NAT64, multicast and site-local addresses through,
and its answers change between versions of Python.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network

_BLOCKED_V4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's host
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_ALLOWED_V6 = IPv6Network("2000::/3")
_BLOCKED_V6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "2620:4f:8000::/48",
        "3fff::/20",
    )
)
_NEVER = (ip_network("169.254.0.0/16"), ip_network("fe80::/10"))


def is_blocked(address: str, allow: Iterable[Network] = ()) -> bool:
    """Whether nothing is sent there. What is no address is blocked.

    ``allow`` are networks of the operator's own; link-local addresses, where clouds keep their
    credentials, stay blocked whatever it says.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return True
    if any(parsed in network for network in allow):
        return any(parsed in network for network in _NEVER)
    if isinstance(parsed, IPv4Address):
        return any(parsed in network for network in _BLOCKED_V4)
    return _is_blocked_v6(parsed)


def _is_blocked_v6(address: IPv6Address) -> bool:
    if address.scope_id is not None or address not in _ALLOWED_V6:
        return True  # mapped and translated addresses are outside of 2000::/3
    return any(address in network for network in _BLOCKED_V6)
