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
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
            except OSError:  # an interface without an IPv4 address
                continue
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return None
