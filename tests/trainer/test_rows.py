"""Rows of a corpus by their number, and mixtures."""

from collections import Counter
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gputel.trainer.data import BLOCK, Mixture, Shard, Source, shares


def source(rows: int, shards: int = 3, seed: int = 0) -> Source:
    """Every row starts with a number of its own."""

    def shard(number: int) -> Shard:
        return Shard(f"{number}", lambda: np.arange(number * rows * 4, (number + 1) * rows * 4 + 1))

    return Source("s", [shard(i) for i in range(shards)], 4, seed)


def test_epoch_sees_every_row_once_and_the_next_in_another_order() -> None:
    rows = source(10)
    epochs = [[int(rows.row(30 * epoch + i)[0]) for i in range(30)] for epoch in range(3)]
    assert [sorted(epoch) for epoch in epochs] == [sorted(range(0, 120, 4))] * 3
    assert epochs[0] != epochs[1] != epochs[2]
    assert [rows.epoch(n) for n in (0, 29, 30, 89)] == [0, 0, 1, 2]


@settings(max_examples=30)
@given(st.lists(st.integers(0, 200), min_size=1, max_size=8))
def test_row_is_the_same_wherever_one_comes_from(numbers: list[int]) -> None:
    wanderer = source(7)
    for number in numbers:
        fresh = source(7)
        assert int(wanderer.row(number)[0]) == int(fresh.row(number)[0])
        assert wanderer.epoch(number) == fresh.epoch(number)


@settings(max_examples=30)
@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=5))
def test_every_block_of_a_mixture_holds_the_shares(weights: list[float]) -> None:
    counts = shares(weights)
    mixture = Mixture([source(50) for _ in weights], weights, seed=1)
    for block in (0, 3):
        assert Counter(mixture.block.tolist()) == dict(enumerate(counts))
        for which, count in enumerate(counts):
            places = np.flatnonzero(mixture.block == which) + block * BLOCK
            rows = [mixture.before(int(place), which) for place in places]
            assert rows == list(range(block * count, (block + 1) * count))
    assert sum(counts) == BLOCK
    assert all(abs(c / BLOCK - w / sum(weights)) <= 2 / BLOCK for c, w in zip(counts, weights, strict=True))


def test_shares_that_users_mix(tmp_path: Path) -> None:
    assert shares([0.65, 0.34, 0.01]) == [650, 340, 10]
