"""The text that every machine has: Python's standard library without its tests, one file in twenty for validation.

Which file that is follows from its path, so it stays the same when a release adds or drops others.
"""

import hashlib
import os
import sysconfig
from pathlib import Path

LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
VALIDATION_ONE_IN = 20


def standard_library() -> list[Path]:
    sources: list[Path] = []
    for folder, folders, files in os.walk(sysconfig.get_path("stdlib")):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        sources += [Path(folder, name) for name in files if name.endswith(".py")]
    return sorted(path for path in sources if path.stat().st_size)


def is_validation(path: Path, root: Path) -> bool:
    digest = hashlib.sha256(path.relative_to(root).as_posix().encode()).digest()
    return int.from_bytes(digest[:4], "big") % VALIDATION_ONE_IN == 0
