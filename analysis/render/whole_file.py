"""A file that appears whole or not at all, and never behind a link that lies in its place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new, empty file beside `path` to write to; it takes that name at the end, if nothing went wrong.

    A folder may hold a link under any name, to a file that whoever laid it may not write. So the draft is made new.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        draft.unlink(missing_ok=True)
        draft.touch(exist_ok=False)
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
