"""Which of this machine's addresses and interfaces reaches another host."""

from __future__ import annotations

import fcntl
import socket
import struct

_SIOCGIFADDR = 0x8915
"""Linux: ask an interface for its IPv4 address (netdevice(7))."""


def address_towards(host: str, port: int) -> str:
    """This machine's IPv4 address on the route to `host`. Sends nothing.

    A host name is a poor substitute: many machines resolve their own to 127.0.0.1,
    and then tell the other nodes to look for them there.

    Raises:
        OSError: when the name does not resolve or no route leads there.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, port))
        return str(probe.getsockname()[0])


def interface_of(address: str) -> str | None:
    """The interface that has this IPv4 address; None when no interface does."""
    for _, name in socket.if_nameindex():
        if address_of(name) == address:
            return name
    return None


def address_of(interface: str) -> str | None:
    """An interface's IPv4 address; None when there is no such interface, or it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("256s", interface.encode()[:15])
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def listening_address(host: str, interface: str | None) -> str:
    """Where to listen for those who look for this machine at `host`: on no more than that takes.

    All addresses, an empty text, only where the name does not say which: it resolves to an address
    that no interface has (behind a translation), or to loopback, as Debian's machines
    resolve their own, while others see another.

    Args:
        interface: that the user has chosen; wins over `host`.

    Raises:
        OSError: when the name does not resolve.
    """
    if interface is not None:
        return address_of(interface) or ""
    address = socket.gethostbyname(host)
    own = interface_of(address) is not None
    named_so = host in (address, "localhost") or not address.startswith("127.")
    return address if own and named_so else ""
