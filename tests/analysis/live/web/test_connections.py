"""Which connection is closed when there are too many."""

from __future__ import annotations

import pytest

from gputel.analysis.live.web import connections
from gputel.analysis.live.web.connections import MOST, MOST_OF_ADDRESS, MOST_WAITING, Connections


class Guests:
    """Connections by name; `closed` are those that were closed, in order."""

    def __init__(self) -> None:
        self.connections = Connections()
        self.closed: list[str] = []

    def enter(self, name: str, address: str, *, admitted: bool = False) -> None:
        connection = self.connections.enter(address, lambda: self.closed.append(name))
        connection.is_admitted = admitted


def test_oldest_waiting_connection_of_the_same_address_is_closed() -> None:
    guests = Guests()
    guests.enter("viewer", "10.0.0.1", admitted=True)
    guests.enter("neighbor", "10.0.0.2")
    for number in range(MOST_WAITING + 2):
        guests.enter(f"flood {number}", "10.0.0.1")
    assert guests.closed == ["flood 0", "flood 1"]


def test_address_with_too_many_streams_loses_its_oldest() -> None:
    guests = Guests()
    guests.enter("other", "10.0.0.2", admitted=True)
    for number in range(MOST_OF_ADDRESS + 1):
        guests.enter(f"stream {number}", "10.0.0.1", admitted=True)
    assert guests.closed == ["stream 0"]


def test_crowd_of_addresses_costs_those_that_wait_and_no_viewer() -> None:
    guests = Guests()
    guests.enter("viewer", "10.0.0.1", admitted=True)
    for number in range(MOST + 10):
        guests.enter(f"crowd {number}", f"10.1.{number // 250}.{number % 250}")
    assert len(guests.connections) == MOST
    assert "viewer" not in guests.closed


def test_left_connection_does_not_count() -> None:
    opened = Connections()
    for _ in range(10 * MOST):
        opened.leave(opened.enter("10.0.0.1", lambda: pytest.fail("closed")))
    assert len(opened) == 0


@pytest.mark.parametrize(
    ("address", "site"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::1"),
        ("", ""),
    ],
)
def test_ipv6_addresses_of_one_network_are_one_site(address: str, site: str) -> None:
    assert connections.site(address) == site
