"""What `--data`, `--val-data` and `--tokenizer` say, opened and checked: options in, a corpus out.

Without `--data` it is the text that every machine has: Python's standard library without its tests, one file in
twenty for validation. Which file that is follows from its path, so it stays the same when a release adds or drops
others.
"""

import hashlib
import os
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gputel.trainer.data import Mixture, Shard, Source, tokenized
from gputel.trainer.errors import TrainerError
from gputel.trainer.guards import check_ids, check_samples
from gputel.trainer.layouts import NANOGPT, Layout, common_layout, data_files, nanogpt_tokenizer
from gputel.trainer.tokenizer import Tokenizer, tokenizer_from

VALIDATION_SHARE, VALIDATION_ONE_IN = 0.05, 20
VALIDATION_WORDS = {"val", "valid", "validation"}
EDGE_BYTES = 4096
LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}


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

    def shards(self, tokenizer: Tokenizer | None) -> tuple[list[Shard], list[Shard]]:
        training = self._shards(self.training, tokenizer)
        if self.training != self.validation:
            return training, self._shards(self.validation, tokenizer)
        *whole, last = training
        return [*whole, last.part(0, 1 - VALIDATION_SHARE)], [last.part(1 - VALIDATION_SHARE, 1)]

    def shard(self, path: Path) -> Shard | None:
        """A file of tokens as it lies; None for text."""
        read = self.layout.tokens
        return Shard(str(path), lambda: read(path)) if read else None

    def _shards(self, paths: list[Path], tokenizer: Tokenizer | None) -> list[Shard]:
        if self.layout.documents:
            assert tokenizer
            return tokenized(paths, self.layout.documents, tokenizer)
        return [shard for shard in map(self.shard, paths) if shard]


@dataclass(frozen=True)
class Corpus:
    """`vocab` is the data's own; `tokenizer` is None for tokens of an unknown origin."""

    files: list[Files]
    tokenizer: Tokenizer | None
    vocab: int
    fingerprint: str
    described: str

    def training(self, seq: int, seed: int) -> Source | Mixture:
        sources = [Source(f.name, f.shards(self.tokenizer)[0], seq, seed) for f in self.files]
        return sources[0] if len(sources) == 1 else Mixture(sources, [f.weight for f in self.files], seed)

    def validation(self, seq: int) -> list[tuple[Shard, int]]:
        """Every row of the validation files, in the order of files: (shard, where it starts)."""
        shards = [shard for f in self.files for shard in f.shards(self.tokenizer)[1]]
        rows = [(shard, row * seq) for shard in shards for row in range(shard.rows(seq))]
        if not rows:
            hint = "take a smaller --seq or --val-data"
            raise TrainerError("validation", f"has no row of {seq} tokens", hint)
        return rows

    def check(self, vocab: int, mine: Callable[[int], bool]) -> None:
        """Every file of which this rank takes care (by its number), from end to end."""
        paths = [(f, path) for f in self.files for path in f.all]
        for files, path in (each for number, each in enumerate(paths) if mine(number)):
            if fault := files.layout.fault(path):
                raise TrainerError(str(path), fault, "fetch it again")
            if shard := files.shard(path):
                check_samples(shard)
                check_ids(shard, vocab)


def open_corpus(data: str | None, val_data: str | None, tokenizer: str | None) -> Corpus:
    files = [_files(name, weight) for name, weight in _mixture(data)] if data else [_standard_library()]
    if val_data:
        files = _validated_elsewhere(files, val_data)
    made = _tokenizer(files, tokenizer)
    vocab = (
        made.vocab if made else max(f.layout.vocab(p) for f in files for p in f.training if f.layout.vocab)
    )
    paths = [path for f in files for path in f.all]
    fingerprint, size = _fingerprint(paths, whole=data is None), sum(p.stat().st_size for p in paths)
    place = data or "the Python standard library"
    described = f"{place}: {len(paths):,} files, {size:,} bytes, hash {fingerprint}"
    return Corpus(files, made, vocab, fingerprint, described)


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


def _files(name: str, weight: float) -> Files:
    """For validation are the files that are named so, else the last of several, else a part of the only one."""
    paths = data_files(Path(name))
    layout = common_layout(paths)
    words = {path: set(path.stem.lower().replace("-", "_").split("_")) for path in paths}
    validation = [path for path in paths if words[path] & VALIDATION_WORDS]
    validation = validation or (paths[-1:] if len(paths) > 1 else [])
    training = [path for path in paths if path not in validation] or paths
    return Files(name, weight, layout, training, validation or paths)


def standard_library() -> list[Path]:
    sources: list[Path] = []
    for folder, folders, files in os.walk(sysconfig.get_path("stdlib")):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        sources += [Path(folder, name) for name in files if name.endswith(".py")]
    return sorted(path for path in sources if path.stat().st_size)


def _standard_library() -> Files:
    paths, root = standard_library(), Path(sysconfig.get_path("stdlib"))

    def is_validation(path: Path) -> bool:
        digest = hashlib.sha256(path.relative_to(root).as_posix().encode()).digest()
        return int.from_bytes(digest[:4], "big") % VALIDATION_ONE_IN == 0

    validation = [path for path in paths if is_validation(path)]
    training = [path for path in paths if path not in validation]
    return Files("standard library", 1.0, common_layout(paths), training, validation)


def _validated_elsewhere(files: list[Files], place: str) -> list[Files]:
    """All of --data trains, and the first source carries the validation files."""
    paths = data_files(Path(place))
    if common_layout(paths).name != files[0].layout.name:
        fault = f"is no {files[0].layout.name}, as --data is"
        raise TrainerError(f"--val-data {place}", fault, "give the same layout")
    training = [sorted(set(f.all) - set(paths)) for f in files]
    return [
        replace(f, training=rest, validation=[] if number else paths)
        for number, (f, rest) in enumerate(zip(files, training, strict=True))
    ]


def _tokenizer(files: list[Files], name: str | None) -> Tokenizer | None:
    texts = [f for f in files if f.layout.documents]
    if name is None and not texts:
        return nanogpt_tokenizer(files[0].training[0].parent) if files[0].layout is NANOGPT else None
    return tokenizer_from(name or "bytes", lambda: _texts(texts))


def _texts(files: list[Files]) -> Iterator[str]:
    for f in files:
        for path in f.training:
            yield from f.layout.documents(path) if f.layout.documents else ()


def _fingerprint(paths: list[Path], *, whole: bool) -> str:
    """Names, sizes and contents; of files that may be terabytes only their edges."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            digest.update(file.read() if whole else file.read(EDGE_BYTES))
            if not whole:
                file.seek(max(0, path.stat().st_size - EDGE_BYTES))
                digest.update(file.read(EDGE_BYTES))
    return digest.hexdigest()[:16]
