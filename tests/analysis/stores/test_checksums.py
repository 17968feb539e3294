import numpy as np
import pytest

from gputel.analysis.stores import checksums
from tests.analysis.stores.compose_events import crc32c


def test_crc32c_gives_the_published_check_value() -> None:
    assert checksums.crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize("length", [0, 1, 7, 8, 63, 64, 65, 128, 129, 1000, 4097])
def test_sum_of_a_piece_is_that_of_the_plain_algorithm_at_any_length(length: int) -> None:
    data = np.random.default_rng(length).bytes(length)
    assert checksums.crc32c(data) == crc32c(data)


def test_pieces_of_different_lengths_are_summed_in_one_call() -> None:
    """Pieces at the start of the buffer have fewer bytes before them than a block is long."""
    data = np.random.default_rng(1).bytes(3000)
    starts = np.array([0, 3, 70, 500, 2990, 10], np.int64)
    lengths = np.array([5, 64, 200, 2500, 10, 0], np.int64)
    sums = checksums.of_pieces(np.frombuffer(data, np.uint8), starts, lengths)
    expected = [crc32c(data[a : a + n]) for a, n in zip(starts.tolist(), lengths.tolist(), strict=True)]
    assert sums.tolist() == expected
