"""Paths -> what is known of the run at each: here, on all cores, or by another engine such as Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gputel.analysis import spread
from gputel.analysis.catalogue.facts import CatalogueRow
from gputel.analysis.catalogue.facts_file import row_of
from gputel.telemetry.errors import GputelError

Computed = CatalogueRow | str | None  # a row, why it cannot be computed, or None of a file that is no run
Engine = Callable[[Sequence[Path]], Iterator[Computed]]  # the rows of paths, in their order


def compute_where_it_pays(paths: Sequence[Path]) -> Iterator[Computed]:
    """Yields what each path holds, in the order of the paths; on all cores where that pays."""
    return spread.spread_where_it_pays(compute, paths, spread.alike, killed)


def compute(paths: Sequence[Path]) -> Iterator[Computed]:
    """Yields the row of each path, or why it has none."""
    for path in paths:
        try:
            yield row_of(path)
        except (GputelError, OSError) as error:
            yield str(error)


def killed(path: Path) -> str:
    """Why there is no row of a run at which every process died."""
    return f"{path}: reading it killed the process that read it; is there enough memory?"
