"""Lines of several ranks that take turns -> the same lines rank by rank, each rank's run by itself.

Runs are taken by columns where all lines are of one rank. Eight ranks that print every step into one log would be
read line by line, fifty times as slowly. Ranks do not touch each other's records, so their lines may be taken in
another order, except where a step falls: there an attempt begins, for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs import prefixes
from gputel.analysis.logs.hits import HitRun, HitTable, Ints, KnownHeads, Moments
from gputel.analysis.logs.prefixes import Letters, Stamps

SHORTEST = 32  # lines from which on ranks are told apart
WORTH = 8  # lines of a rank, on average, between two falls


def by_rank(run: HitRun, steps: npt.NDArray[np.float64], stamps: Stamps) -> Iterator[HitRun]:
    """The run rank by rank, or as it is where its lines are of one rank, or their prefixes differ in more.

    Where a step falls, and at the first line of each rank from there on, an attempt may begin: such a line comes
    alone, after all lines above it. The rank of the last line comes last.
    """
    table, shape, first, end, _ = run
    owners = _owners(table, first, end) if _take_turns(table, first, end) else None
    groups = None if owners is None else _groups(owners.numbers, steps)
    # last, as a clock that is read twice seems to have passed midnight
    times = None if owners is None or groups is None else stamps.read_all(owners.prefixes)
    if owners is None or groups is None or times is None:
        yield run
        return
    last_rows = len(groups) - 1 - np.unique(groups[::-1], return_index=True)[1]
    order = np.argsort(last_rows[groups], kind="stable")
    ordered = table.ordered(order + first, owners.heads(order, times))
    edges = np.flatnonzero(np.diff(groups[order], prepend=-1, append=-1)).tolist()
    for begin, stop in pairwise(edges):
        yield HitRun(ordered, shape, begin, stop)


def _take_turns(table: HitTable, first: int, end: int) -> bool:
    """Whether some of the lines are of another rank than the first."""
    if end - first < SHORTEST or not table.prefixed(first, end) or table.stamped(first, end):
        return False
    ranks = {prefixes.rank(table.prefix(row)) for row in (first, first + 1, first + 2, end - 1)}
    return len(ranks) > 1 and None not in ranks


class _Owners(NamedTuple):
    """The rank of each line, by its number in `names`, and all prefixes as if they were of one rank."""

    numbers: Ints
    names: list[str]
    prefixes: Letters

    def heads(self, order: Ints, times: Moments) -> KnownHeads:
        """The heads of the lines in this order; no times if the lines have none."""
        ranks = [self.names[number] for number in self.numbers[order].tolist()]
        return KnownHeads(times[order] if len(times) else times, ranks)


def _owners(table: HitTable, first: int, end: int) -> _Owners | None:
    """Reads the ranks of lines whose prefixes differ in their rank and the digits of a timestamp only."""
    numbers = np.empty(end - first, dtype=np.int64)
    names: list[str] = []
    alike: list[tuple[Ints, Letters]] = []  # the prefixes of these lines, as if they were of one rank
    filler = b""
    lengths = table.prefix_lengths(first, end)
    for length in np.flatnonzero(np.bincount(lengths)).tolist():
        rows = np.flatnonzero(lengths == length)
        letters = table.prefixes(rows + first)
        place = None if letters is None else prefixes.rank_place(letters[:, 0].tobytes())
        if letters is None or place is None:
            return None
        for own in _equal(letters[slice(*place)]):
            name = prefixes.rank_of_all(letters[:, own])
            if not name or name in names:
                return None
            numbers[rows[own]] = len(names)
            names.append(name)
        filler = filler or letters[slice(*place), 0].tobytes()
        alike.append((rows, _filled(letters, place, filler)))
    if len({len(letters) for _, letters in alike}) != 1:
        return None
    together = np.empty((len(alike[0][1]), end - first), dtype=np.uint8)
    for rows, letters in alike:
        together[:, rows] = letters
    return _Owners(numbers, names, together)


def _equal(letters: Letters) -> Iterator[Ints]:
    """The numbers of equal texts, text by text."""
    texts: npt.NDArray[Any] = np.ascontiguousarray(letters.T).view(f"V{len(letters)}").ravel()
    _, numbers = np.unique(texts, return_inverse=True)
    for number in range(int(numbers.max()) + 1):
        yield np.flatnonzero(numbers == number)


def _filled(letters: Letters, place: tuple[int, int], filler: bytes) -> Letters:
    """The texts with the filler at this place."""
    same = np.frombuffer(filler, np.uint8)[:, None].repeat(letters.shape[1], axis=1)
    return np.concatenate([letters[: place[0]], same, letters[place[1] :]])


def _groups(owners: Ints, steps: npt.NDArray[np.float64]) -> Ints | None:
    """Numbers for the lines that may be taken together; None if these are too few to be worth it."""
    order = np.argsort(owners, kind="stable")
    same = owners[order[1:]] == owners[order[:-1]]
    falls = order[1:][same & ~(steps[order[1:]] > steps[order[:-1]])]
    alone = np.concatenate([_next_of_each(owners, np.append(0, falls)), falls])
    begins = np.unique(np.concatenate([alone, alone + 1]))
    sections = np.searchsorted(begins, np.arange(len(owners)), side="right")
    found, groups = np.unique(sections * (int(owners.max()) + 1) + owners, return_inverse=True)
    return groups if len(found) * WORTH <= len(owners) else None


def _next_of_each(owners: Ints, starts: Ints) -> Ints:
    """The first line of each owner from each of these lines on."""
    found = []
    for owner in range(int(owners.max()) + 1):
        rows = np.flatnonzero(owners == owner)
        places = np.searchsorted(rows, starts)
        found.append(rows[places[places < len(rows)]])
    return np.concatenate(found)
