"""Several sources as one, in fixed shares: a row's number in, the source and its own row's number out.

Every block of a thousand rows holds the shares exactly, in an order of its own; so any row is found without
the others.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gputel.trainer.data.source import Source, shuffled
from gputel.trainer.data.tokenizer import Ids

BLOCK = 1000


def shares(weights: Sequence[float]) -> list[int]:
    """Whole rows of a block by largest remainder; no source is left out."""
    exact = [weight / sum(weights) * BLOCK for weight in weights]
    whole = [max(1, int(share)) for share in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: whole[i] - exact[i])
    for i in by_remainder[: max(0, BLOCK - sum(whole))]:
        whole[i] += 1
    whole[whole.index(max(whole))] += BLOCK - sum(whole)
    return whole


class Mixture:
    """Epochs are those of the source with the largest share."""

    def __init__(self, sources: Sequence[Source], weights: Sequence[float], seed: int) -> None:
        self.sources, self.shares, self.seed = sources, shares(weights), seed
        self.largest = self.shares.index(max(self.shares))
        self._block = lru_cache(maxsize=4)(self._drawn)

    def row(self, number: int) -> Ids:
        source, row = self.place(number)
        return self.sources[source].row(row)

    def epoch(self, number: int) -> int:
        block, within = divmod(number, BLOCK)
        before = int((self._block(block)[0][:within] == self.largest).sum())
        return self.sources[self.largest].epoch(block * self.shares[self.largest] + before)

    @property
    def rows(self) -> int:
        """Rows of the mixture in which the largest source is seen once."""
        return self.sources[self.largest].rows * BLOCK // self.shares[self.largest]

    def place(self, number: int) -> tuple[int, int]:
        block, within = divmod(number, BLOCK)
        sources, ranks = self._block(block)
        source = int(sources[within])
        return source, block * self.shares[source] + int(ranks[within])

    def _drawn(self, block: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which source each row of a block is from, and how many of that source's came before it in the block."""
        sources = np.repeat(np.arange(len(self.shares)), self.shares)[
            shuffled(BLOCK, self.seed, "mixture", block)
        ]
        ranks = np.zeros(BLOCK, np.int64)
        for source in range(len(self.shares)):
            ranks[sources == source] = np.arange(self.shares[source])
        return sources, ranks
