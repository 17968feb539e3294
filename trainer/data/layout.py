"""What a layout is: how its files are told from others, checked, read, and what vocabulary they imply."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from gputel.trainer.data.shard import Shard, tokenized
from gputel.trainer.data.tokenizer import Tokenizer


@dataclass(frozen=True)
class Layout:
    """Text gives `documents`, tokens give `shard` and `vocab`. `suffixes` are names that promise this
    layout; `fault` looks at a whole file and says what is wrong with it, or None."""

    name: str
    suffixes: tuple[str, ...]
    recognizes: Callable[[bytes], bool]
    fault: Callable[[Path], str | None]
    documents: Callable[[Path], Iterable[str]] | None = None
    shard: Callable[[Path], Shard] | None = None
    vocab: Callable[[Path], int] | None = None

    def shards(self, paths: list[Path], tokenizer: Tokenizer | None) -> list[Shard]:
        if self.shard:
            return [self.shard(path) for path in paths]
        assert self.documents
        assert tokenizer
        return tokenized(paths, self.documents, tokenizer)
