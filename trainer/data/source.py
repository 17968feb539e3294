"""A corpus as endless rows: a row's number in, its tokens and epoch out; nothing is remembered.

Shards are shuffled anew in every epoch, and rows within each shard. The length of a shard of text is known
only when it is tokenized, so the first epoch is walked shard by shard; the one after the current is made
ready in the background.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gputel.trainer.data.shard import Shard
from gputel.trainer.data.tokenizer import Ids
from gputel.trainer.errors import TrainerError

SPANS_KEPT = 4


def shuffled(count: int, *what: object) -> NDArray[np.int64]:
    """A permutation that depends on nothing but its arguments; RandomState is the generator that numpy has
    frozen."""
    return np.random.RandomState(zlib.crc32(repr(what).encode())).permutation(count)


@dataclass(frozen=True)
class RowSpan:
    """The rows of one shard in one epoch, as numbers of the source."""

    epoch: int
    place: int
    shard: int
    start: int
    stop: int
    order: NDArray[np.int64] = field(compare=False)


class Source:
    def __init__(self, name: str, shards: Sequence[Shard], seq: int, seed: int) -> None:
        self.name, self.shards, self.seq, self.seed = name, shards, seq, seed
        self._spans: tuple[RowSpan, ...] = (self._first_of_epoch(0, 0),)

    def row(self, number: int) -> Ids:
        """seq + 1 tokens."""
        span = self._span_of(number)
        at = int(span.order[number - span.start]) * self.seq
        return self.shards[span.shard].tokens[at : at + self.seq + 1]

    def epoch(self, number: int) -> int:
        return self._span_of(number).epoch

    @property
    def rows(self) -> int:
        """Rows of an epoch; tokenizes whatever has not been."""
        return sum(shard.rows(self.seq) for shard in self.shards)

    def _span_of(self, number: int) -> RowSpan:
        """Two threads ask, one of them ahead: the last few spans are kept, so that neither walks from the start."""
        spans = self._spans
        span = max((s for s in spans if s.start <= number), key=lambda s: s.start, default=None)
        span = span or self._first_of_epoch(0, 0)
        while number >= span.stop:
            span = self._after(span, number)
        if span not in spans:
            self._spans = (*spans[1 - SPANS_KEPT :], span)
        return span

    def _first_of_epoch(self, epoch: int, start: int) -> RowSpan:
        return self._at(epoch, 0, start)

    def _after(self, span: RowSpan, number: int) -> RowSpan:
        if span.place + 1 < len(self.shards):
            return self._at(span.epoch, span.place + 1, span.stop)
        whole = self.rows
        if whole == 0:
            raise TrainerError(
                self.name, f"has no row of {self.seq} tokens", "take a smaller --seq or more data"
            )
        skipped = (number - span.stop) // whole
        return self._first_of_epoch(span.epoch + 1 + skipped, span.stop + skipped * whole)

    def _at(self, epoch: int, place: int, start: int) -> RowSpan:
        order = shuffled(len(self.shards), self.seed, self.name, "shards", epoch)
        shard = int(order[place])
        rows = self.shards[shard].rows(self.seq)
        if place + 1 < len(order):
            self.shards[int(order[place + 1])].make_ready()
        inside = shuffled(rows, self.seed, self.name, "rows", epoch, shard)
        return RowSpan(epoch, place, shard, start, start + rows, inside)
