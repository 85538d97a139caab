"""Addresses and interfaces, seen on loopback, which every machine has."""

from __future__ import annotations

import pytest

from components.cluster import network
from components.cluster.network import (
    address_of,
    address_towards,
    interface_of,
    listening_address,
)


def test_loopback_reaches_itself() -> None:
    assert address_towards("127.0.0.1", 9) == "127.0.0.1"
    assert interface_of("127.0.0.1") == "lo"


def test_an_address_of_nobody_has_no_interface() -> None:
    assert interface_of("203.0.113.7") is None


def test_a_name_that_does_not_resolve() -> None:
    with pytest.raises(OSError, match=r"not known|resolution|failure"):
        address_towards("no-such-host.invalid", 9)


def test_an_interfaces_own_address() -> None:
    assert address_of("lo") == "127.0.0.1"
    assert address_of("no-such-0") is None


@pytest.mark.parametrize(
    ("host", "resolved", "interface", "address"),
    [
        ("127.0.0.1", "127.0.0.1", None, "127.0.0.1"),
        ("localhost", "127.0.0.1", None, "127.0.0.1"),
        ("node0", "10.1.2.3", None, "10.1.2.3"),  # an address of this machine
        ("node0", "127.0.1.1", None, ""),  # what others see under that name is another
        ("node0", "203.0.113.7", None, ""),  # an address of a gateway
        ("node0", "203.0.113.7", "lo", "127.0.0.1"),
    ],
)
def test_where_to_listen(
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    resolved: str,
    interface: str | None,
    address: str,
) -> None:
    own = {"127.0.0.1": "lo", "127.0.1.1": "lo", "10.1.2.3": "eth0"}
    monkeypatch.setattr(network.socket, "gethostbyname", {host: resolved}.get)
    monkeypatch.setattr(network, "interface_of", own.get)
    assert listening_address(host, interface) == address
