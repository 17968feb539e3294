"""Regular expressions of a user, in a format or an alarm, each search of which is stopped after seconds and named.

A regular expression such as `(a+)+$` may never end on a line, and Python's `re` takes no limit. It does look for
signals, so a timer stops it in the main thread. Signals reach no other thread, and while `re` searches in one, all
others wait. So for other threads a process makes each search first, and dies of one that takes too long.
"""

from __future__ import annotations

import re
import signal
import sys
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

    def search(self, line: bytes, start: int = 0, end: int = sys.maxsize) -> re.Match[bytes] | None:
        return self._limited("search", line, start, end, lambda: self._regex.search(line, start, end))

    def match(self, line: bytes, start: int = 0, end: int = sys.maxsize) -> re.Match[bytes] | None:
        return self._limited("match", line, start, end, lambda: self._regex.match(line, start, end))

    def finditer(self, line: bytes, start: int = 0, end: int = sys.maxsize) -> Iterator[re.Match[bytes]]:
        search = lambda: list(self._regex.finditer(line, start, end))  # noqa: E731
        return iter(self._limited("finditer", line, start, end, search))

    def _limited(
        self, method: str, line: bytes, start: int, end: int, search: Callable[[], Answer]
    ) -> Answer:
        if threading.current_thread() is threading.main_thread():
            return self._until_the_timer(line, search)
        # Threads alone need it, and it takes time to import.
        from gputel.analysis.regex_process import PROCESS

        asked = (self._regex.pattern, self._regex.flags, method, line, start, end, self._limit_s)
        if not PROCESS.ends(asked):
            raise self._fault(line)
        return search()

    def _until_the_timer(self, line: bytes, search: Callable[[], Answer]) -> Answer:
        def stop(_number: int, _frame: object) -> None:
            raise self._fault(line)

        handler = signal.signal(signal.SIGALRM, stop)
        before = signal.setitimer(signal.ITIMER_REAL, self._limit_s)
        try:
            return search()
        finally:
            signal.setitimer(signal.ITIMER_REAL, *before)
            signal.signal(signal.SIGALRM, handler)

    def _fault(self, line: bytes) -> GputelError:
        shown = line[:SHOWN].decode(errors="replace")
        fault = f"'{self._name}' searched a line for more than {self._limit_s:g} s: {shown!r}"
        return GputelError(self._place, fault, "write it without repeats of repeats, such as (a+)+")
