"""Many logs: here, or on all cores where what is left to read pays for more processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
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


def read_many(
    paths: Sequence[Path], formats: tuple[Format, ...] | None = None, limits: Limits = DEFAULT
) -> Iterator[Log | GputelError]:
    """Yields each log, or the error that reading it raised, in the order of the paths."""
    sizes = {path: bytes_of(path) for path in paths}

    def show(path: Path) -> None:
        with progress.stage(path.name, sizes[path], progress.BYTES) as advance:
            advance(sizes[path])

    read = partial(_read, formats=formats, limits=limits)
    least_s = sum(sizes.values()) / FASTEST
    return spread.spread_where_it_pays(
        read, paths, sizes.__getitem__, _killed, least_s=least_s, from_afar=show
    )


def _read(
    paths: Sequence[Path], formats: tuple[Format, ...] | None, limits: Limits
) -> Iterable[Log | GputelError]:
    """The logs with their results made, since those that are made when asked for stay in the process."""
    for log in read_logs(paths, formats, limits):
        yield log if isinstance(log, GputelError) else log.with_results()


def _killed(path: Path) -> GputelError:
    return GputelError(str(path), "reading it killed the process that read it", "is there enough memory?")
