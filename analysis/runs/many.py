"""Many logs: here, or on all cores where what is left to read pays for more processes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from gputel.analysis import progress, spread
from gputel.analysis.logs.files import DEFAULT, Limits
from gputel.analysis.runs.paths import bytes_of, read_logs
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.logs.formats import Format
    from gputel.analysis.logs.log import Log

FASTEST = 100e6  # bytes per second of CPU that no log exceeds
LOOK_S = 1.0  # CPU for which logs are read here before what is left is judged by their speed


def read_many(
    paths: Sequence[Path], formats: tuple[Format, ...] | None = None, limits: Limits = DEFAULT
) -> Iterator[Log | GputelError]:
    """Yields each log, or the error that reading it raised, in the order of the paths."""
    sizes = {path: bytes_of(path) for path in paths}
    sums = [0, *accumulate(sizes[path] for path in paths)]
    done, workers = 0, spread.workers_for(sums[-1] / FASTEST)
    if workers == 1:
        begun = time.process_time()
        for log in read_logs(paths, formats, limits):
            yield log
            done += 1
            spent = time.process_time() - begun
            if spent > LOOK_S:
                workers = spread.workers_for(spent * (sums[-1] - sums[done]) / (sums[done] or 1))
                if workers > 1:
                    break
        else:
            return
    read, left = partial(_read, formats=formats, limits=limits), paths[done:]
    for path, log in zip(left, spread.spread(read, left, workers, sizes.__getitem__, _killed), strict=True):
        with progress.stage(path.name, sizes[path], progress.BYTES) as advance:
            advance(sizes[path])
        yield log


def _read(
    paths: Sequence[Path], formats: tuple[Format, ...] | None, limits: Limits
) -> Iterable[Log | GputelError]:
    """The logs with their results made, since those that are made when asked for stay in the process."""
    for log in read_logs(paths, formats, limits):
        yield log if isinstance(log, GputelError) else log.with_results()


def _killed(path: Path) -> GputelError:
    return GputelError(str(path), "reading it killed the process that read it", "is there enough memory?")
