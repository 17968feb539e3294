"""What stands before records -> who printed each and when.

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
            prefix = table.prefix(row)
            table.heads[row] = (self.stamps.read(prefix), prefixes.rank(prefix)) if prefix else (None, None)
        return table.heads[row]

    def times(self, table: Table, first: int, end: int, rank: str | None) -> Moments | None:
        """When these rows were printed, if all of them say so or none; None where not all are of this rank."""
        together = table.prefixes(first, end)
        if together is not None and prefixes.rank_of_all(together) == rank:
            times = self.stamps.read_together(together)
            if times is not None:
                known = zip(times.tolist(), [rank] * (end - first), strict=True)
                table.heads.update(enumerate(known, start=first))
                return times
        heads = [self.of(table, row) for row in range(first, end)]
        found = [time for time, _ in heads if time is not None]
        if {other for _, other in heads} != {rank} or len(found) not in (0, len(heads)):
            return None
        return np.array(found, dtype=np.int64)
