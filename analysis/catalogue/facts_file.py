"""facts.json beside a recording: the row of a run, with the size of every file that it was made from.

A reader uses it if the sizes still agree, otherwise it computes the row again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gputel.analysis.catalogue import facts
from gputel.analysis.catalogue.facts import FACTS_VERSION, CatalogueRow
from gputel.telemetry.errors import GputelError
from gputel.telemetry.own_files import read_own
from gputel.telemetry.whole_files import write_whole

if TYPE_CHECKING:
    from gputel.analysis.report.gpu_totals import GpuTotals

SCHEMA = 1
NAME = "facts.json"
LARGEST = 16 << 20  # bytes of it that are read
MADE_FROM = ("gpu", "segments", "nodes")  # folders of a run whose files have figures


def row_of(path: Path) -> CatalogueRow | None:
    """Returns the row of a recording, a store or a log; None of a file that is no run.

    A recording's own facts.json is taken where its sizes agree; nothing is ever written.
    """
    return read_facts(path) or facts.computed(path)


def read_facts(folder: Path) -> CatalogueRow | None:
    """Returns the row in a recording's facts.json; None without that file, or if others have changed in size."""
    try:
        known = json.loads(read_own(folder / NAME, LARGEST))
        if known["facts_version"] != FACTS_VERSION or known["files"] != sizes(folder):
            return None
        where = {"path": str(folder), "run": folder.name or folder.resolve().name}
        return facts.row(known["facts"] | where, known["settings"], known["metrics"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def write_facts(folder: Path, gpus: Sequence[GpuTotals] | None = None) -> None:
    """Writes facts.json into a recording that has ended, by a rename; `gpus` are its totals, if they were made."""
    row = facts.computed(folder, gpus)
    if row is None:
        raise GputelError(str(folder), "is not a run", "name a run folder")
    document = {"schema": SCHEMA, "facts_version": FACTS_VERSION, "files": sizes(folder), **row.as_json()}
    content = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1).encode()
    write_whole(folder / NAME, content)


def sizes(folder: Path) -> dict[str, int]:
    """The size of every file that facts are made from, by its path within the folder."""
    found: dict[str, int] = {}
    _add_sizes(str(folder), "", found)
    return found


def _add_sizes(folder: str, prefix: str, found: dict[str, int]) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if entry.is_dir(follow_symlinks=False):
                if name in MADE_FROM or name.isdecimal():
                    _add_sizes(entry.path, f"{prefix}{name}/", found)
            elif entry.is_file(follow_symlinks=False) and not name.endswith(facts.DERIVED):
                found[prefix + name] = entry.stat(follow_symlinks=False).st_size
