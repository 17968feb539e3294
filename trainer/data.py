"""`--data` -> shuffled rows of tokens, each found by its number, without any state.

The place in the data is one number, the rows read by all ranks together; so a resume, also on another number of
ranks, reads on exactly where it was. Text is tokenized shard by shard when it is reached, into a cache that every
run on this machine shares; the shard after the current one is made ready.

Without `--data` the corpus is the text that every machine has: Python's standard library without its tests, one
file in twenty for validation. Which file that is follows from its path, so it stays the same when a release adds
or drops others.
"""

import hashlib
import os
import sysconfig
import threading
import zlib
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gputel.trainer.layouts import AGAIN, TEXT, Layout, alike, check_file, nanogpt_meta
from gputel.trainer.ranks import World
from gputel.trainer.say import LeftOut, TrainerError, tolerated
from gputel.trainer.tokenizer import Ids, Tokenizer, remade, tokenized, tokenizer_from

VALIDATION_SHARE, VALIDATION_ONE_IN = 0.05, 20
VALIDATION_WORDS = {"val", "valid", "validation"}
LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
EDGE_BYTES = 4096
TEXT_PER_SHARD = 64 * 2**20
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


@dataclass(frozen=True)
class Files:
    """One source: its training files, its validation files (the same where there is only one file), the layout."""

    name: str
    weight: float
    layout: Layout
    training: list[Path]
    validation: list[Path]

    @property
    def all(self) -> list[Path]:
        return sorted({*self.training, *self.validation})


@dataclass(frozen=True)
class Corpus:
    """`vocab` is the data's own; `tokenizer` is None for tokens of an unknown origin; `left_out` holds what could
    not be read, and is None where that is an error."""

    files: list[Files]
    tokenizer: Tokenizer | None
    vocab: int
    fingerprint: str
    described: str
    left_out: LeftOut | None = None

    def check(self, vocab: int, mine: Callable[[int], bool] = lambda _: True) -> None:
        """Look through every file of which this rank takes care (by its number)."""
        paths = [(files.layout, path) for files in self.files for path in files.all]
        for layout, path in (each for number, each in enumerate(paths) if mine(number)):
            with tolerated(self.left_out):
                check_file(path, layout, vocab)

    def readable(self) -> "Corpus":
        """Without the files that are left out."""
        gone, files = self.left_out or {}, []
        for each in self.files:
            training = [path for path in each.training if str(path) not in gone]
            if not training:
                raise TrainerError(each.name, "holds no file that can be read", AGAIN)
            validation = [path for path in each.validation if str(path) not in gone]
            files.append(replace(each, training=training, validation=validation))
        return replace(self, files=files)

    def training(self, seq: int, seed: int) -> "Mixture":
        sources = [Source(files.name, self.shards(files)[0], seq, seed) for files in self.files]
        return Mixture(sources, [files.weight for files in self.files], seed)

    def validation(self, seq: int) -> list[tuple[Shard, int]]:
        """Every row of the validation files, in the order of files: (shard, where it starts)."""
        shards = [shard for files in self.files for shard in self.shards(files)[1]]
        rows = [(shard, row * seq) for shard in shards for row in range(shard.rows(seq))]
        if not rows:
            hint = "take a smaller --seq or more data"
            raise TrainerError("validation", f"has no row of {seq} tokens", hint)
        return rows

    def shards(self, files: Files) -> tuple[list[Shard], list[Shard]]:
        """Those to train on, and those for validation."""
        training = self._shards(files.layout, files.training)
        if files.training != files.validation:
            return training, self._shards(files.layout, files.validation)
        *whole, last = training
        return [*whole, last.part(0, 1 - VALIDATION_SHARE)], [last.part(1 - VALIDATION_SHARE, 1)]

    def _shards(self, layout: Layout, paths: list[Path]) -> list[Shard]:
        """Files of tokens as they lie. Of text small files together, in their order, large ones by themselves."""
        if layout.tokens:
            return [Shard(str(path), partial(layout.tokens, path)) for path in paths]
        assert self.tokenizer
        groups, room = list[list[Path]](), 0
        for path in paths:
            size = path.stat().st_size
            if size > room:
                groups.append([])
                room = TEXT_PER_SHARD
            groups[-1].append(path)
            room -= size
        read = partial(documents, layout, left_out=self.left_out)
        return [Shard(str(g[0]), partial(tokenized, g, read, self.tokenizer, self.left_out)) for g in groups]


def documents(layout: Layout, paths: Iterable[Path], left_out: LeftOut | None) -> Iterator[str]:
    for path in paths:
        yield from layout.documents(path, left_out) if layout.documents else ()


def open_corpus(data: str | None, tokenizer: str | None, *, skip_bad: bool = False) -> Corpus:
    """With `skip_bad` files and rows that cannot be read are left out, and noted."""
    left_out: LeftOut | None = {} if skip_bad else None
    files = [_files(*part, left_out) for part in _mixture(data)] if data else [_standard_library()]
    made: Tokenizer | None = None
    if tokenizer or any(f.layout.documents for f in files):
        made = tokenizer_from(tokenizer or "bytes")
    elif files[0].layout.name == "nanoGPT":
        made = _nanogpt_tokenizer(files[0].training[0].parent)
    vocabs = [f.layout.vocab(path) for f in files if f.layout.vocab for path in f.training]
    paths = [path for f in files for path in f.all]
    fingerprint, size = _fingerprint(paths, whole=data is None), sum(p.stat().st_size for p in paths)
    place = data or "the Python standard library"
    described = f"{place}: {len(paths):,} files, {size:,} bytes, hash {fingerprint}"
    return Corpus(files, made, made.vocab if made else max(vocabs), fingerprint, described, left_out)


def _mixture(data: str) -> list[tuple[str, float]]:
    """`a=0.65,b=0.35`, or one path."""
    parts = [part.rpartition("=") for part in data.split(",")]
    try:
        shares = [(path, float(weight)) for path, _, weight in parts]
    except ValueError:
        return [(data, 1.0)]
    if Path(data).exists() or not all(path for path, _ in shares):
        return [(data, 1.0)]
    if any(weight <= 0 for _, weight in shares):
        raise TrainerError(f"--data {data}", "has a share that is not above 0", "leave that source out")
    return shares


def _files(name: str, weight: float, left_out: LeftOut | None) -> Files:
    """For validation are the files that are named so, else the last of several, else a part of the only one."""
    layout, paths = alike(Path(name), left_out)
    words = {path: set(path.stem.lower().replace("-", "_").split("_")) for path in paths}
    validation = [path for path in paths if words[path] & VALIDATION_WORDS]
    validation = validation or (paths[-1:] if len(paths) > 1 else [])
    training = [path for path in paths if path not in validation] or paths
    return Files(name, weight, layout, training, validation or paths)


def _standard_library() -> Files:
    root = Path(sysconfig.get_path("stdlib"))
    paths: list[Path] = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        paths += [Path(folder, name) for name in names if name.endswith(".py")]
    split: dict[bool, list[Path]] = {False: [], True: []}
    for path in sorted(path for path in paths if path.stat().st_size):
        digest = hashlib.sha256(path.relative_to(root).as_posix().encode()).digest()
        split[int.from_bytes(digest[:4], "big") % VALIDATION_ONE_IN == 0].append(path)
    return Files("standard library", 1.0, TEXT, split[False], split[True])


def _nanogpt_tokenizer(folder: Path) -> Tokenizer | None:
    """The characters of meta.pkl, if their ids are those of a plain alphabet."""
    itos = nanogpt_meta(folder).get("itos")
    if not isinstance(itos, dict) or sorted(itos) != list(range(len(itos))):
        return None
    return remade({"kind": "chars", "characters": "".join(itos[i] for i in range(len(itos)))})


def _fingerprint(paths: list[Path], *, whole: bool) -> str:
    """Names, sizes and contents; of files that may be terabytes only their edges."""
    digest = hashlib.sha256()
    for path in paths:
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            digest.update(file.read(size if whole else EDGE_BYTES))
            file.seek(size if whole else max(0, size - EDGE_BYTES))
            digest.update(file.read(EDGE_BYTES))
    return digest.hexdigest()[:16]


def shuffled(count: int, *what: object) -> NDArray[np.int64]:
    """A permutation by its arguments alone; RandomState is the generator that numpy has frozen."""
    return np.random.RandomState(zlib.crc32(repr(what).encode())).permutation(count)


class Source:
    """A corpus as endless rows. Shards are shuffled anew in every epoch, and rows within each shard."""

    def __init__(self, name: str, shards: Sequence[Shard], seq: int, seed: int) -> None:
        self.name, self.shards, self.seq, self.seed = name, shards, seq, seed
        self.starts = [0]  # the row with which each shard begins, epoch after epoch
        self.growing = threading.Lock()
        self._order = lru_cache(4)(lambda epoch: shuffled(len(shards), seed, name, "shards", epoch))
        self._rows = lru_cache(4)(
            lambda e, shard: shuffled(shards[shard].rows(seq), seed, name, "rows", e, shard)
        )
        self._place(0)

    def row(self, number: int) -> Ids:
        """seq + 1 tokens."""
        place = self._place(number)
        epoch, shard = self._shard(place)
        at = int(self._rows(epoch, shard)[number - self.starts[place]]) * self.seq
        return self.shards[shard].tokens[at : at + self.seq + 1]

    def epoch(self, number: int) -> int:
        return self._place(number) // len(self.shards)

    def _place(self, number: int) -> int:
        """Which shard of all epochs holds a row. Two threads ask, one of them ahead: the lock is for what is
        new."""
        while self.starts[-1] <= number:
            with self.growing:
                if self.starts[-1] <= number:
                    self._grow()
        return bisect_right(self.starts, number) - 1

    def _grow(self) -> None:
        place = len(self.starts) - 1
        if place == len(self.shards) and self.starts[-1] == 0:
            hint = "take a smaller --seq or more data"
            raise TrainerError(self.name, f"has no row of {self.seq} tokens", hint)
        rows = self.shards[self._shard(place)[1]].rows(self.seq)
        self.shards[self._shard(place + 1)[1]].make_ready()
        self.starts.append(self.starts[-1] + rows)

    def _shard(self, place: int) -> tuple[int, int]:
        """Its epoch, and its number."""
        epoch, within = divmod(place, len(self.shards))
        return epoch, int(self._order(epoch)[within])


def shares(weights: Sequence[float]) -> list[int]:
    """Rows of a block for each source; no source is left out."""
    edges = np.rint(np.cumsum(weights) / np.sum(weights) * BLOCK)
    whole: list[int] = np.diff(edges, prepend=0).clip(1).astype(int).tolist()
    whole[whole.index(max(whole))] += BLOCK - sum(whole)
    return whole


class Mixture:
    """One source or several, in fixed shares: every block of a thousand rows holds them exactly, so any row is
    found without the others. Epochs are those of the source with the largest share."""

    def __init__(self, sources: Sequence[Source], weights: Sequence[float], seed: int) -> None:
        self.sources, self.shares, self.seq = sources, shares(weights), sources[0].seq
        self.largest = self.shares.index(max(self.shares))
        sorted_block = np.repeat(np.arange(len(sources)), self.shares)
        self.block = sorted_block[shuffled(BLOCK, seed, "mixture")]  # the source of each row of a block

    def row(self, number: int) -> Ids:
        source = int(self.block[number % BLOCK])
        return self.sources[source].row(self.before(number, source))

    def epoch(self, number: int) -> int:
        return self.sources[self.largest].epoch(self.before(number, self.largest))

    def before(self, number: int, source: int) -> int:
        """How many rows of a source come before a row of the mixture."""
        block, within = divmod(number, BLOCK)
        return block * self.shares[source] + int((self.block[:within] == source).sum())


@final
class Feed:
    """Micro-batches for one rank, made ahead of time. Micro-batch m of a step goes to rank m modulo the number of
    ranks, so that another number of ranks reads the same rows in the same steps."""

    def __init__(self, rows: Mixture, position: int, batch: int, where: World) -> None:
        self.rows, self.batch, self.stride, self.device = rows, batch, batch * where.size, where.device
        self.next_row = position + where.rank * batch
        self.fault: TrainerError | None = None
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="feed")
        self.ready: deque[Future[Tensor]] = deque()
        for _ in range(BATCHES_AHEAD):
            self._order()

    def close(self) -> None:
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
        batch = [self.rows.row(first + i) for i in range(self.batch)]
        tokens = torch.from_numpy(np.stack(batch).astype(np.int32))
        return tokens.pin_memory() if self.device.type == "cuda" else tokens
