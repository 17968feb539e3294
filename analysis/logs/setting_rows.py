"""Takes the rows of settings out of what an engine has read, in any format.

It looks at records that print other fields than the record before, or behind a longer prefix, so that a long log
costs nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gputel.analysis.logs import setting_lines
from gputel.analysis.logs.languages import english
from gputel.analysis.logs.line_kinds import plan
from gputel.analysis.logs.line_prefixes import strip_prefixes, strip_to_margin
from gputel.analysis.logs.lines import Chunk, line_at
from gputel.analysis.logs.patterns import MEASURES, EngineResult, Hits, Pattern, Reject, Values

Words = tuple[bytes, ...]
Look = tuple[int, int, int]  # a row to look at: its line, its hits, and which of them it is

_MOST_ABOVE = 100  # lines of settings; with more of them, and no record, they are the records
_MOST_LOOKS = 10_000  # in a log of which every other line looks new


class SettingRows:
    """Takes the rows of settings out of readings, one reading after the other."""

    def __init__(self) -> None:
        self._recording = False  # whether a record has been read
        self._led: dict[Words, Words] = {}  # the lines above the records: names -> measures
        self._last: dict[Pattern, tuple[int, frozenset[str]]] = {}  # prefix and fields of the last record
        self._set_above = 0  # commands and calls before the first record
        self._was_mistaken = False  # whether lines like those above the records turned out to be records
        self._looks = 0
        self._above: list[bytes] = []  # the last lines, up to the first record

    def without(self, reading: EngineResult, chunk: Chunk) -> EngineResult:
        """The reading without the rows of settings."""
        found: dict[int, list[int]] = {}
        rejects = list(reading.rejects)
        looks = sorted(look for at, hits in enumerate(reading.hits) for look in self._new_rows(at, hits))
        for number, at, row in looks:  # grows
            hits, was_mistaken = reading.hits[at], self._was_mistaken
            if self._sets(hits, row, chunk):
                found.setdefault(at, []).append(row)
                self._look_below(looks, hits, at, row)
            else:
                self._recording = self._recording or measures(hits)
            if self._was_mistaken > was_mistaken:
                rejects.append(
                    Reject(number, hits.pattern.name, "a line like it was taken for settings above")
                )
        self._above = (
            []
            if self._recording
            else [*self._above, *chunk.texts().splitlines()][-setting_lines.LONGEST_BLOCK :]
        )
        kept = [_without_rows(hits, found.get(at, [])) for at, hits in enumerate(reading.hits)]
        rejects.sort(key=lambda reject: reject.line)
        return EngineResult(reading.lines, [hits for hits in kept if len(hits.lines)], rejects)

    def _new_rows(self, at: int, hits: Hits) -> Iterator[Look]:
        """The rows of records unlike the one before, with their lines."""
        if hits.pattern.role not in MEASURES:
            return iter(())
        masks = {what.source: column.present for what, column in hits.values.items()}
        masks |= {what.source: column.present for what, column in hits.texts.items()}
        prefixes = hits.begins - hits.starts
        new = np.ones(len(hits.lines), dtype=np.bool_)
        new[1:] = prefixes[1:] != prefixes[:-1]
        for mask in masks.values():
            if not mask.all():
                new[1:] |= mask[1:] != mask[:-1]
        first, last = (
            (int(prefixes[row]), frozenset(name for name, mask in masks.items() if mask[row]))
            for row in (0, -1)
        )
        new[0] = self._last.get(hits.pattern) != first
        self._last[hits.pattern] = last
        rows = np.flatnonzero(new)[: max(0, _MOST_LOOKS - self._looks)]
        self._looks += len(rows)
        return ((int(hits.lines[row]), at, int(row)) for row in rows)

    def _look_below(self, looks: list[Look], hits: Hits, at: int, row: int) -> None:
        """Sees to it that the next row is looked at, too: it is not like a record."""
        if row + 1 == len(hits.lines):
            del self._last[hits.pattern]
            return
        below = (int(hits.lines[row + 1]), at, row + 1)
        place = bisect_left(looks, below)
        if looks[place : place + 1] != [below]:
            looks.insert(place, below)

    def _sets(self, hits: Hits, row: int, chunk: Chunk) -> bool:
        start = int(hits.starts[row])
        line = line_at(chunk.data, start)
        bare = strip_prefixes([line])[0]
        kind = setting_lines.sets(bare)
        if kind == "led":
            return self._is_led(english(bare))
        if kind and not self._recording:
            self._set_above += 1
            self._was_mistaken = self._was_mistaken or self._set_above > _MOST_ABOVE
        if kind or self._recording:
            return kind is not None and not self._was_mistaken
        above = [*self._above, *chunk.texts(0, start).rsplit(b"\n", setting_lines.LONGEST_BLOCK + 1)[:-1]]
        return setting_lines.below_heading(strip_to_margin([*above, line]), len(above))

    def _is_led(self, line: bytes) -> bool:
        """Whether a line behind a word is settings: the first such line is above the records, and none measures."""
        names, measures = tuple(setting_lines.KEYS.findall(line)), tuple(setting_lines.MEASURED.findall(line))
        above = self._led.get(names) if self._recording else self._led.setdefault(names, measures)
        self._was_mistaken = self._was_mistaken or (above is not None and above != measures)
        return above == measures and not self._was_mistaken


def measures(hits: Hits) -> bool:
    """Whether its lines are records or evaluations, unlike a bar that only counts."""
    kind = plan(hits.pattern, (*hits.values, *hits.texts))
    return hits.pattern.role in MEASURES and bool(kind.record or kind.evals)


def _without_rows(hits: Hits, rows: list[int]) -> Hits:
    if not rows:
        return hits
    keep = np.setdiff1d(np.arange(len(hits.lines)), rows)
    values = ((what, Values(c.numbers[keep], c.present[keep])) for what, c in hits.values.items())
    texts = ((what, column.take(keep)) for what, column in hits.texts.items())
    return replace(
        hits,
        lines=hits.lines[keep],
        starts=hits.starts[keep],
        begins=hits.begins[keep],
        values={what: column for what, column in values if column.present.any()},
        texts={what: column for what, column in texts if column.present.any()},
    )
