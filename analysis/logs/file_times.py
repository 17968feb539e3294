"""The start time in a file's name: `training_20251221_070319.log`, `gpu_2025-12-21_07-03-19.csv`."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path

STAMP = re.compile(
    r"(?<!\d)(20\d\d)[-_.]?(\d\d)[-_.]?(\d\d)[-_T. ]?(\d\d)[-_:.h]?(\d\d)(?:[-_:.m]?(\d\d))?(?!\d)"
)


def time_in_name(path: str | Path) -> int | None:
    """Returns the moment in ns that a file's name gives, taken as UTC; None if it gives none."""
    match = STAMP.search(Path(path).name)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups())
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
    except ValueError:  # digits that are no date
        return None
    return int(moment.timestamp()) * 1_000_000_000
