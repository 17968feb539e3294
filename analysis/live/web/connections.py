"""Limits open connections: per address, and more tightly before a request was let in.

An address that opens too many loses its own oldest one: a flood of idle sockets shuts out no viewer of another
address, nor one of the same address, whose request comes at once.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass

MOST = 256
MOST_OF_ADDRESS = 96
MOST_WAITING = 16  # of one address, whose request has not been let in
IPV6_SITE = 64  # bits of an IPv6 address that one owner has


@dataclass(eq=False)
class Connection:
    """An open connection; `close` ends it."""

    site: str
    close: Callable[[], None]
    is_admitted: bool = False


class Connections:
    """The open connections, oldest first."""

    def __init__(self) -> None:
        self._open: list[Connection] = []

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, address: str, close: Callable[[], None]) -> Connection:
        """Adds a connection whose request has not come yet, and closes those that are too many."""
        connection = Connection(site(address), close)
        self._open.append(connection)
        neighbors = [each for each in self._open if each.site == connection.site]
        waiting = [each for each in neighbors if not each.is_admitted]
        if len(waiting) > MOST_WAITING:
            self._close(waiting[0])
        elif len(neighbors) > MOST_OF_ADDRESS:
            self._close(neighbors[0])
        if len(self._open) > MOST:
            self._close(next((each for each in self._open if not each.is_admitted), self._open[0]))
        return connection

    def leave(self, connection: Connection) -> None:
        if connection in self._open:
            self._open.remove(connection)

    def _close(self, connection: Connection) -> None:
        self.leave(connection)
        connection.close()


def site(address: str) -> str:
    """The address, or the network of an IPv6 address, of which one owner has 2^64."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address) and not ip.is_loopback and ip.ipv4_mapped is None:
        return str(ipaddress.ip_network((ip, IPV6_SITE), strict=False))
    return str(ip)
