"""What stands before records, or in them -> who printed each and when.

Read once per line and in the order of the file: stamps without a date count the midnights between them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gputel.analysis.parse import prefixes
from gputel.analysis.parse.tables import Table

Moments = npt.NDArray[np.int64]


class Heads:
    """`stamps` knows the days that have gone by."""

    def __init__(self) -> None:
        self.stamps = prefixes.Stamps()

    def of(self, table: Table, row: int) -> tuple[int | None, str | None]:
        """Time and rank."""
        if row not in table.heads:
            prefix, stamp = table.prefix(row), table.stamp(row)
            time, rank = (self.stamps.read(prefix), prefixes.rank(prefix)) if prefix else (None, None)
            table.heads[row] = ((self.stamps.read(stamp) if stamp else None) or time, rank)
        return table.heads[row]

    def times(self, table: Table, first: int, end: int, rank: str | None) -> Moments | None:
        """When these rows were printed, if all of them say so or none; None where not all are of this rank."""
        times = self._together(table, first, end, rank)
        if times is not None:
            return times
        heads = [self.of(table, row) for row in range(first, end)]
        found = [time for time, _ in heads if time is not None]
        if {other for _, other in heads} != {rank} or len(found) not in (0, len(heads)):
            return None
        return np.array(found, dtype=np.int64)

    def _together(self, table: Table, first: int, end: int, rank: str | None) -> Moments | None:
        """The same where a column of letters says it all."""
        stamped = table.stamped(first, end)
        if not table.prefixed(first, end):
            letters = table.stamps(first, end) if stamped and rank is None else None
        elif stamped:
            return None
        else:
            letters = table.prefixes(first, end)
            if letters is not None and prefixes.rank_of_all(letters) != rank:
                return None
        return None if letters is None else self.stamps.read_together(letters)
