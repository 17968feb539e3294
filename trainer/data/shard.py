"""A shard: tokens by their number. Files of tokens are mapped as they lie; text is tokenized when it is first read.

Tokenized text is kept in a cache that every run on this machine shares; where that cannot be written it
stays in memory.
"""

import fcntl
import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gputel.trainer.data.tokenizer import Ids, Tokenizer

DOCUMENTS_AT_ONCE = 256
TEXT_PER_SHARD = 64 * 2**20


@dataclass(frozen=True)
class Shard:
    """Named after its first file; `open` is called once, when the first token is asked for."""

    name: str
    open: Callable[[], Ids]

    @cached_property
    def tokens(self) -> Ids:
        return self.open()

    def make_ready(self) -> None:
        """In the background, so that the first token need not be waited for."""
        if "tokens" not in vars(self):
            threading.Thread(target=lambda: self.tokens, name="next shard", daemon=True).start()

    def rows(self, seq: int) -> int:
        """Rows of seq tokens, each with the one that follows as its last target."""
        return max(0, (len(self.tokens) - 1) // seq)

    def part(self, low: float, high: float) -> "Shard":
        def cut() -> Ids:
            return self.tokens[int(low * len(self.tokens)) : int(high * len(self.tokens))]

        return Shard(self.name, cut)


def mapped(path: Path, dtype: str, *, offset: int = 0, count: int) -> Shard:
    return Shard(str(path), lambda: np.memmap(path, dtype, mode="r", offset=offset, shape=(count,)))


def tokenized(
    paths: list[Path], documents: Callable[[Path], Iterable[str]], tokenizer: Tokenizer
) -> list[Shard]:
    """Text as shards: small files together, in their order, large ones by themselves."""
    return [_tokenized(group, documents, tokenizer) for group in _groups(paths)]


def _groups(paths: list[Path]) -> list[list[Path]]:
    groups: list[list[Path]] = []
    room = 0
    for path in paths:
        size = path.stat().st_size
        if size > room:
            groups.append([])
            room = TEXT_PER_SHARD
        groups[-1].append(path)
        room -= size
    return groups


def _tokenized(paths: list[Path], documents: Callable[[Path], Iterable[str]], tokenizer: Tokenizer) -> Shard:
    def texts() -> Iterator[str]:
        for path in paths:
            yield from documents(path)

    def read() -> Ids:
        return np.concatenate(list(_encoded(texts(), tokenizer)) or [np.zeros(0, tokenizer.dtype)])

    return Shard(str(paths[0]), lambda: _cached(_key(paths, tokenizer), read, tokenizer.dtype))


def _encoded(texts: Iterator[str], tokenizer: Tokenizer) -> Iterator[NDArray[Any]]:
    between = np.array(tokenizer.separator, tokenizer.dtype)
    while batch := list(islice(texts, DOCUMENTS_AT_ONCE)):
        for ids in tokenizer.encode(batch):
            yield between
            yield ids.astype(tokenizer.dtype)


def _key(paths: list[Path], tokenizer: Tokenizer) -> str:
    described = [(str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns) for p in paths]
    return hashlib.sha256(repr((tokenizer.fingerprint, described)).encode()).hexdigest()[:32]


def _cached(key: str, read: Callable[[], Ids], dtype: np.dtype[Any]) -> Ids:
    """The first rank of a machine tokenizes, the others wait for it at a lock."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gputel" / "tokens"
    kept, fresh = home / f"{key}.bin", home / f"{key}.{os.getpid()}.part"
    try:
        home.mkdir(parents=True, exist_ok=True)
        with (home / f"{key}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                read().tofile(fresh)
                fresh.rename(kept)
        return np.memmap(kept, dtype, mode="r") if kept.stat().st_size else np.zeros(0, dtype)
    except OSError:
        fresh.unlink(missing_ok=True)
        return read()
