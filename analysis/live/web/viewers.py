"""What all viewers of a page are told, and what one of them lacks: a short memory instead of a queue for each.

Every message has a number. Who has seen one of the last few gets those since; who is behind them, or comes new,
gets all that stands, written once for all who ask. So a slow viewer costs nothing but its own socket.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque

from gputel.analysis.live.web import messages
from gputel.analysis.live.web.parts import Parts

MOST_KEPT = 64
MOST_KEPT_BYTES = 4 << 20


class Viewers:
    """Of one thread, in which a loop runs; `count` is how many look."""

    def __init__(self) -> None:
        self.count = 0
        self._parts: Parts | None = None
        self._number = 0
        self._boot = secrets.token_hex(4)  # numbers of another life of the server mean nothing here
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=MOST_KEPT)
        self._whole: tuple[int, bytes] = (0, b"")
        self._next: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def number(self) -> int:
        return self._number

    def tell(self, parts: Parts) -> None:
        """What stands now."""
        if self._parts is not None:
            message = messages.news(self._parts, parts, f"{self._boot}-{self._number + 1}")
            self._kept.append((self._number + 1, message))
            while sum(len(one) for _, one in self._kept) > MOST_KEPT_BYTES:
                self._kept.popleft()
        self._number += 1
        self._parts = parts
        self._next.set_result(None)
        self._next = asyncio.get_running_loop().create_future()

    def since(self, seen: int | None) -> bytes:
        """Nothing where nothing was told yet, or nothing since."""
        if seen == self._number or self._parts is None:
            return b""
        missed = [message for number, message in self._kept if seen is not None and number > seen]
        if seen is not None and seen < self._number and len(missed) == self._number - seen:
            return b"".join(missed)
        if self._whole[0] != self._number:
            message = messages.whole(self._parts, f"{self._boot}-{self._number}")
            self._whole = self._number, message
        return self._whole[1]

    def seen(self, identity: str) -> int | None:
        """The number that a page has seen last, by the identity that it was sent with."""
        boot, _, number = identity.rpartition("-")
        return int(number) if boot == self._boot and number.isascii() and number.isdigit() else None

    @property
    def next(self) -> asyncio.Future[None]:
        """Done when something is told."""
        return self._next
