"""Banners and summaries -> the settings and the results that they state."""

from __future__ import annotations

from collections.abc import Sequence

from gputel.analysis.logs import regex_engine
from gputel.analysis.logs.lines import line_at
from gputel.analysis.logs.patterns import EngineResult, Hits, Pattern

MOST = 100  # lines of banners that are searched for more facts than the first


class Stated:
    """What a log states beside its rows. A banner's first value counts, and a summary's last."""

    def __init__(self) -> None:
        self.config: dict[str, float | str] = {}
        self.summary: dict[str, float | str] = {}
        self._searched = 0  # lines of banners

    def see(self, reading: EngineResult, data: bytes, patterns: Sequence[Pattern]) -> None:
        """Takes the facts of these lines, and what else a banner says: `ranks: 8, batch: 512`."""
        self._take(reading)
        banners = tuple(pattern for pattern in patterns if pattern.role == "config")
        for hits in reading.hits:
            if hits.pattern.role == "config":
                for start in hits.starts[: MOST - self._searched].tolist():
                    self._searched += 1
                    self._search(line_at(data, start) + b"\n", [p for p in banners if p is not hits.pattern])

    def _search(self, line: bytes, patterns: Sequence[Pattern]) -> None:
        while patterns and (more := regex_engine.read(line, tuple(patterns))).hits:
            self._take(more)
            found = {hits.pattern for hits in more.hits}
            patterns = [pattern for pattern in patterns if pattern not in found]

    def _take(self, reading: EngineResult) -> None:
        for hits in reading.hits:
            if hits.pattern.role == "summary":
                self.summary.update(_facts(hits, -1))
            elif hits.pattern.role == "config":
                self.config = {**_facts(hits, 0), **self.config}


def _facts(hits: Hits, which: int) -> dict[str, float | str]:
    """The numbers of one of these lines, and the first texts."""
    facts: dict[str, float | str] = {}
    for what, values in hits.values.items():
        numbers = values.numbers[values.present]
        if len(numbers):
            facts["train_loss" if what.column == "loss" else what.column] = float(numbers[which])
    for what, texts in hits.texts.items():
        printed = [text for text in texts if text]
        if printed:
            facts[what.column] = printed[0].decode(errors="replace").strip()
    return facts
