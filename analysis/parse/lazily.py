"""Regular expressions that are compiled when they are first used.

gputel knows some two hundred, a log needs a dozen, and compiling them all takes longer than reading ten megabytes.
"""

from __future__ import annotations

import re
from typing import Any, cast


def regex(source: bytes, flags: int = 0) -> re.Pattern[bytes]:
    """As good as a compiled one; what is wrong with it is only told when it is used."""
    return cast("re.Pattern[bytes]", _Lazy(source, flags))


class _Lazy:
    """Answers as its compiled self, whose methods it takes over as they are asked for."""

    def __init__(self, source: bytes, flags: int) -> None:
        self._source = (source, flags)
        self.pattern = source

    def __reduce__(self) -> tuple[type[_Lazy], tuple[bytes, int]]:
        return _Lazy, self._source

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(re.compile(*self._source), name)
        setattr(self, name, found)
        return found
