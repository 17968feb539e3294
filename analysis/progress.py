"""Progress of long work: the work counts it, and a terminal may show it.

A stage within another of the same unit advances the outer one. Without a watcher nothing is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

BYTES = "B"
Item = TypeVar("Item")


class Watcher(Protocol):
    """Shows the stages; `total` is 0 if it is unknown."""

    def begin(self, label: str, total: float, unit: str) -> None: ...

    def advance(self, amount: float) -> None: ...

    def end(self) -> None: ...


_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Lets `watcher` see the stages of everything that is done within."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


@contextmanager
def stage(label: str, total: float, unit: str = "") -> Iterator[Callable[[float], None]]:
    """Yields a function that advances the stage by an amount."""
    watcher = _watcher.get()
    if watcher is None:
        yield lambda _amount: None
        return
    watcher.begin(label, total, unit)
    try:
        yield watcher.advance
    finally:
        watcher.end()


def each(items: Collection[Item], label: str) -> Iterator[Item]:
    """Yields the items, and counts each when the next is asked for."""
    with stage(label, len(items), "items") as advance:
        for item in items:
            yield item
            advance(1)
