"""Addresses and interfaces, seen on loopback, which every machine has."""

from __future__ import annotations

import pytest

from components.cluster.network import address_towards, interface_of


def test_loopback_reaches_itself() -> None:
    assert address_towards("127.0.0.1", 9) == "127.0.0.1"
    assert interface_of("127.0.0.1") == "lo"


def test_an_address_of_nobody_has_no_interface() -> None:
    assert interface_of("203.0.113.7") is None


def test_a_name_that_does_not_resolve() -> None:
    with pytest.raises(OSError, match=r"not known|resolution|failure"):
        address_towards("no-such-host.invalid", 9)
