"""Rows of tokens for one rank: a row's number in, its tokens out, shuffled; nothing is remembered.

The place in the data is one number, the rows read by all ranks together; so a resume, also on another number of
ranks, reads on exactly where it was. Text is tokenized shard by shard when it is reached, into a cache that every
run on this machine shares, so the first epoch is walked shard by shard, and the shard after the current is made
ready.
"""

import fcntl
import hashlib
import os
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gputel.trainer.ranks import World
from gputel.trainer.say import LeftOut, TrainerError
from gputel.trainer.tokenizer import Ids, Tokenizer

DOCUMENTS_AT_ONCE = 256
TEXT_PER_SHARD = 64 * 2**20
SPANS_KEPT = 4
BLOCK = 1000  # rows of a mixture that hold its shares exactly
BATCHES_AHEAD = 3


@dataclass(frozen=True)
class Shard:
    """Named after its first file; `open` is called once, when the first token is asked for."""

    name: str
    open: Callable[[], Ids]

    @cached_property
    def tokens(self) -> Ids:
        return self.open()

    def make_ready(self) -> None:
        """Opens the file in the background, so that the first token need not be waited for."""

        def ready() -> None:
            with suppress(TrainerError):  # raised again where it is read
                len(self.tokens)

        if "tokens" not in vars(self):
            threading.Thread(target=ready, name="next shard", daemon=True).start()

    def rows(self, seq: int) -> int:
        """Rows of seq tokens, each with the one that follows as its last target."""
        return max(0, (len(self.tokens) - 1) // seq)

    def part(self, low: float, high: float) -> "Shard":
        def cut() -> Ids:
            return self.tokens[int(low * len(self.tokens)) : int(high * len(self.tokens))]

        return Shard(self.name, cut)


def tokenized(
    paths: list[Path],
    documents: Callable[[Path], Iterable[str]],
    tokenizer: Tokenizer,
    left_out: LeftOut | None = None,
) -> list[Shard]:
    """Text as shards: small files together, in their order, large ones by themselves."""
    groups, room = list[list[Path]](), 0
    for path in paths:
        size = path.stat().st_size
        if size > room:
            groups.append([])
            room = TEXT_PER_SHARD
        groups[-1].append(path)
        room -= size

    def shard(group: list[Path]) -> Shard:
        def read() -> Ids:
            return _encoded((text for path in group for text in documents(path)), tokenizer)

        return Shard(str(group[0]), lambda: _cached(group, read, tokenizer, left_out))

    return [shard(group) for group in groups]


def _cached(
    paths: list[Path], read: Callable[[], Ids], tokenizer: Tokenizer, left_out: LeftOut | None
) -> Ids:
    """The first rank of a machine tokenizes, the others wait for it at a lock. Where the cache cannot be written
    the tokens stay in memory; and where something was left out, so that every run notes it."""
    described = [(str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns) for p in paths]
    key = hashlib.sha256(repr((tokenizer.fingerprint, described)).encode()).hexdigest()[:32]
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gputel" / "tokens"
    kept, fresh = home / f"{key}.bin", home / f"{key}.{os.getpid()}.part"
    try:
        home.mkdir(parents=True, exist_ok=True)
        with (home / f"{key}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                ids = read()
                if any(place.startswith(str(path)) for place in left_out or () for path in paths):
                    return ids
                ids.tofile(fresh)
                fresh.rename(kept)
        empty = np.zeros(0, tokenizer.dtype)
        return np.memmap(kept, tokenizer.dtype, mode="r") if kept.stat().st_size else empty
    except OSError:
        fresh.unlink(missing_ok=True)
        return read()


def _encoded(texts: Iterator[str], tokenizer: Tokenizer) -> Ids:
    parts: list[Ids] = [np.zeros(0, tokenizer.dtype)]
    between = np.array(tokenizer.separator, tokenizer.dtype)
    while batch := list(islice(texts, DOCUMENTS_AT_ONCE)):
        for ids in tokenizer.encode(batch):
            parts += [between, ids.astype(tokenizer.dtype)]
    return np.concatenate(parts)


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
    """A corpus as endless rows. Shards are shuffled anew in every epoch, and rows within each shard."""

    def __init__(self, name: str, shards: Sequence[Shard], seq: int, seed: int) -> None:
        self.name, self.shards, self.seq, self.seed = name, shards, seq, seed
        self._spans: tuple[RowSpan, ...] = (self._span(0, 0, 0),)

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
        span = span or self._span(0, 0, 0)
        while number >= span.stop:
            span = self._after(span, number)
        if span not in spans:
            self._spans = (*spans[1 - SPANS_KEPT :], span)
        return span

    def _after(self, span: RowSpan, number: int) -> RowSpan:
        if span.place + 1 < len(self.shards):
            return self._span(span.epoch, span.place + 1, span.stop)
        whole = self.rows
        if whole == 0:
            hint = "take a smaller --seq or more data"
            raise TrainerError(self.name, f"has no row of {self.seq} tokens", hint)
        skipped = (number - span.stop) // whole
        return self._span(span.epoch + 1 + skipped, 0, span.stop + skipped * whole)

    def _span(self, epoch: int, place: int, start: int) -> RowSpan:
        order = shuffled(len(self.shards), self.seed, self.name, "shards", epoch)
        shard = int(order[place])
        rows = self.shards[shard].rows(self.seq)
        if place + 1 < len(order):
            self.shards[int(order[place + 1])].make_ready()
        inside = shuffled(rows, self.seed, self.name, "rows", epoch, shard)
        return RowSpan(epoch, place, shard, start, start + rows, inside)


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
    """Several sources as one, in fixed shares: every block of a thousand rows holds them exactly, in an order of
    its own, so any row is found without the others. Epochs are those of the source with the largest share."""

    def __init__(self, sources: Sequence[Source], weights: Sequence[float], seed: int) -> None:
        self.sources, self.shares, self.seed, self.seq = sources, shares(weights), seed, sources[0].seq
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
        """The source of a row, and its number there."""
        block, within = divmod(number, BLOCK)
        sources, ranks = self._block(block)
        source = int(sources[within])
        return source, block * self.shares[source] + int(ranks[within])

    def _drawn(self, block: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which source each row of a block is from, and how many of that source's came before it in the block."""
        order = shuffled(BLOCK, self.seed, "mixture", block)
        sources = np.repeat(np.arange(len(self.shares)), self.shares)[order]
        ranks = np.zeros(BLOCK, np.int64)
        for source in range(len(self.shares)):
            ranks[sources == source] = np.arange(self.shares[source])
        return sources, ranks


@final
class Feed:
    """Micro-batches for one rank, made ahead of time. Micro-batch m of a step goes to rank m modulo the number of
    ranks, so that another number of ranks reads the same rows in the same steps."""

    def __init__(self, rows: Source | Mixture, position: int, batch: int, where: World) -> None:
        self.rows, self.batch, self.stride, self.device = rows, batch, batch * where.size, where.device
        self.next_row = position + where.rank * batch
        self.fault: TrainerError | None = None
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="feed")
        self.ready: deque[Future[Tensor]] = deque()
        for _ in range(BATCHES_AHEAD):
            self._order()

    def __enter__(self) -> "Feed":
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown(cancel_futures=True)

    def next(self) -> tuple[Tensor, Tensor]:
        """Data that cannot be read are a `fault`, and zeros come in their place: the other ranks have theirs, and
        are in the midst of a step."""
        try:
            tokens = self.ready.popleft().result()
        except TrainerError as fault:
            self.fault = self.fault or fault
            tokens = torch.zeros(self.batch, self.rows.seq + 1, dtype=torch.int32)
        self._order()
        tokens = tokens.to(self.device, non_blocking=True).long()
        return tokens[:, :-1], tokens[:, 1:]

    def _order(self) -> None:
        self.ready.append(self.pool.submit(self._made, self.next_row))
        self.next_row += self.stride

    def _made(self, first: int) -> Tensor:
        batch = np.stack([self.rows.row(first + i) for i in range(self.batch)]).astype(np.int32)
        tokens = torch.from_numpy(batch)
        return tokens.pin_memory() if self.device.type == "cuda" else tokens
