"""Looks through files of tokens before the first step, end to end: what a GPU would answer with an assertion of the
device, or a run with a loss that never falls."""

import numpy as np

from gputel.trainer.data import Shard
from gputel.trainer.errors import TrainerError

TOKENS_AT_ONCE = 2**24
WINDOWS, WINDOW_TOKENS = 64, 2048


def check_ids(shard: Shard, vocab: int) -> None:
    """Every id is in the vocabulary."""
    tokens = shard.tokens
    if np.iinfo(tokens.dtype).max < vocab:
        return
    for start in range(0, len(tokens), TOKENS_AT_ONCE):
        piece = tokens[start : start + TOKENS_AT_ONCE]
        worst = piece.max() if piece.min() >= 0 else piece.min()
        if not 0 <= worst < vocab:
            fault = f"holds the token {worst:,}, the vocabulary has {vocab:,}"
            raise TrainerError(shard.name, fault, "see --vocab")


def check_samples(shard: Shard) -> None:
    """Windows from the first token to the last: zeros that an aborted download has left, and tokens of 32 bits
    that are read as 16, of which every second is the upper half of a token and no more than 1."""
    tokens = shard.tokens
    if len(tokens) < WINDOW_TOKENS:
        return
    starts = np.linspace(0, len(tokens) - WINDOW_TOKENS, WINDOWS).astype(np.int64) // 2 * 2
    windows = [np.asarray(tokens[start : start + WINDOW_TOKENS]) for start in starts.tolist()]
    for start, window in zip(starts.tolist(), windows, strict=True):
        if not window.any():
            fault = f"holds {WINDOW_TOKENS:,} zeros from token {start:,} of {len(tokens):,} on"
            raise TrainerError(shard.name, fault, "was the download aborted? fetch it again")
    upper, lower = max(w[1::2].max() for w in windows), min(w[::2].max() for w in windows)
    if tokens.dtype.itemsize == 2 and upper <= 1 < lower:
        fault = "is read as tokens of 16 bits, and every second one is 0 or 1"
        raise TrainerError(shard.name, fault, "are they of 32? write them as uint16, or as .npy")
