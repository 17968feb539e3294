"""How much text a run reads: tokens in, characters, nanochat's shards and epochs out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gputel.analysis.planning.estimate import Estimate, assumed, computed

SHARD_CHARACTERS = 250_000_000
MOST_EPOCHS = 4
"""Past this many, repeated text teaches little more."""

# Characters per token of English web text, by vocabulary: bytes; GPT-2's and nanochat's tokenizers on FineWeb-Edu.
COMPRESSION = ((256, 1.0), (50_257, 4.65), (65_536, 4.8))
DOUBT = 0.1


@dataclass(frozen=True)
class Reading:
    """`epochs` is None where nobody said how much text there is."""

    shards: Estimate
    epochs: Estimate | None


def reading(tokens: int, vocab: int, data_tokens: int | None) -> Reading:
    each = characters_per_token(vocab)
    shards = each * tokens / SHARD_CHARACTERS
    whole = Estimate(
        math.ceil(shards.value), math.ceil(shards.low), math.ceil(shards.high), shards.origin, shards.sources
    )
    return Reading(whole, computed(tokens / data_tokens, "tokens / --data-tokens") if data_tokens else None)


def characters_per_token(vocab: int) -> Estimate:
    sizes, ratios = zip(*COMPRESSION, strict=True)
    value = float(np.interp(math.log(vocab), np.log(sizes), ratios))
    if vocab <= sizes[0]:
        return computed(1.0, "a byte or a letter a token")
    return assumed(
        value,
        value * (1 - DOUBT),
        value * (1 + DOUBT),
        f"{value:.2g} (±{DOUBT:.0%}) characters a token, 250M a shard",
    )
