"""Regular expressions of a user, in a format or an alarm, each search of which is stopped after seconds and named.

A regular expression such as `(a+)+$` may never end on a line, and Python's `re` takes no limit. It does look for
signals, so a timer stops it. Signals reach the main thread only: searches in other threads have no limit, which is
why `try_out` searches lines like a format's samples before any log is read.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from gputel.telemetry.errors import GputelError

LIMIT_S = 5.0
SHOWN = 80  # bytes of the line in the error
PARTS = 8  # of a sample: so many lines begin like it

Answer = TypeVar("Answer")


def timed(regex: re.Pattern[bytes], name: str, place: str, limit_s: float = LIMIT_S) -> re.Pattern[bytes]:
    """The regex, a search of which takes `limit_s` at most; GputelError names it and its format's file."""
    return cast("re.Pattern[bytes]", _Timed(regex, name, place, limit_s))


def try_out(regex: re.Pattern[bytes], samples: list[bytes]) -> None:
    """Searches the samples, and lines that begin like them, where most endless regexes show themselves."""
    for sample in samples:
        for part in range(1, PARTS + 1):
            regex.search(sample[: part * len(sample) // PARTS] + b"\x00")


class _Timed:
    """Stands in for a compiled regex."""

    def __init__(self, regex: re.Pattern[bytes], name: str, place: str, limit_s: float) -> None:
        self._regex, self._name, self._place, self._limit_s = regex, name, place, limit_s
        self.pattern = regex.pattern

    def __reduce__(self) -> tuple[type[_Timed], tuple[Any, ...]]:
        return _Timed, (self._regex, self._name, self._place, self._limit_s)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._regex, name)

    def search(self, line: bytes, *where: int) -> re.Match[bytes] | None:
        return self._limited(line, lambda: self._regex.search(line, *where))

    def match(self, line: bytes, *where: int) -> re.Match[bytes] | None:
        return self._limited(line, lambda: self._regex.match(line, *where))

    def finditer(self, line: bytes, *where: int) -> Iterator[re.Match[bytes]]:
        return iter(self._limited(line, lambda: list(self._regex.finditer(line, *where))))

    def _limited(self, line: bytes, search: Callable[[], Answer]) -> Answer:
        if threading.current_thread() is not threading.main_thread():
            return search()

        def stop(_number: int, _frame: object) -> None:
            shown = line[:SHOWN].decode(errors="replace")
            fault = f"'{self._name}' searched a line for more than {self._limit_s:g} s: {shown!r}"
            raise GputelError(self._place, fault, "write it without repeats of repeats, such as (a+)+")

        handler = signal.signal(signal.SIGALRM, stop)
        before = signal.setitimer(signal.ITIMER_REAL, self._limit_s)
        try:
            return search()
        finally:
            signal.setitimer(signal.ITIMER_REAL, *before)
            signal.signal(signal.SIGALRM, handler)
