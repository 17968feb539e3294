"""zstd: of the standard library from Python 3.14 on, else of the package that brings it to older ones."""

from __future__ import annotations

import sys
from types import ModuleType


def library() -> ModuleType:
    """Imported when it is asked for: most logs are not compressed."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd
