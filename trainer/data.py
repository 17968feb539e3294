"""What `--data`, `--val-data` and `--tokenizer` say: files in, a corpus out, looked through before the first step.

Without `--data` the corpus is the text that every machine has: Python's standard library without its tests, one
file in twenty for validation. Which file that is follows from its path, so it stays the same when a release adds
or drops others. What would be an assertion of the device in the midst of a run, or a loss that never falls, is a
line that names the file.
"""

import hashlib
import os
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gputel.trainer.errors import LeftOut, TrainerError, tolerated
from gputel.trainer.layouts import AGAIN, LAYOUTS, NANOGPT, TEXT, Layout, nanogpt_tokenizer, recognized
from gputel.trainer.rows import Mixture, Shard, Source, tokenized
from gputel.trainer.tokenizer import Tokenizer, tokenizer_from

VALIDATION_SHARE, VALIDATION_ONE_IN = 0.05, 20
VALIDATION_WORDS = {"val", "valid", "validation"}
LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
EDGE_BYTES = 4096
TOKENS_AT_ONCE = 2**24
WINDOWS, WINDOW_TOKENS = 64, 2048


@dataclass(frozen=True)
class Files:
    """One source: its training files, its validation files (the same where there is only one file), the layout."""

    name: str
    weight: float
    layout: Layout
    training: list[Path]
    validation: list[Path]
    left_out: LeftOut | None = None

    @property
    def all(self) -> list[Path]:
        return sorted({*self.training, *self.validation})

    def documents(self, path: Path) -> Iterator[str]:
        yield from self.layout.documents(path, self.left_out) if self.layout.documents else ()

    def without(self, gone: LeftOut) -> "Files":
        training, validation = (
            [path for path in paths if str(path) not in gone] for paths in (self.training, self.validation)
        )
        if not training:
            raise TrainerError(self.name, "holds no file that can be read", AGAIN)
        return replace(self, training=training, validation=validation)

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
        if self.layout.documents and tokenizer:
            return tokenized(paths, self.documents, tokenizer, self.left_out)
        return [shard for shard in map(self.shard, paths) if shard]


@dataclass(frozen=True)
class Corpus:
    """`vocab` is the data's own; `tokenizer` is None for tokens of an unknown origin."""

    files: list[Files]
    tokenizer: Tokenizer | None
    vocab: int
    fingerprint: str
    described: str
    left_out: LeftOut | None = None

    def without(self, gone: LeftOut) -> "Corpus":
        return replace(self, files=[files.without(gone) for files in self.files])

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


def open_corpus(
    data: str | None, val_data: str | None, tokenizer: str | None, *, skip_bad: bool = False
) -> Corpus:
    """With `skip_bad` files and rows that cannot be read are left out, and noted."""
    left_out: LeftOut | None = {} if skip_bad else None
    files = [_standard_library()]
    if data:
        files = [_files(name, weight, left_out) for name, weight in _mixture(data)]
    if val_data:
        files = _validated_elsewhere(files, val_data, left_out)
    texts = [f for f in files if f.layout.documents]
    if tokenizer or texts:
        made: Tokenizer | None = tokenizer_from(tokenizer or "bytes", lambda: _texts(texts))
    else:
        made = nanogpt_tokenizer(files[0].training[0].parent) if files[0].layout is NANOGPT else None
    vocabs = [f.layout.vocab(path) for f in files for path in f.training if f.layout.vocab]
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
    layout, paths = common_layout(data_files(Path(name)), left_out)
    words = {path: set(path.stem.lower().replace("-", "_").split("_")) for path in paths}
    validation = [path for path in paths if words[path] & VALIDATION_WORDS]
    validation = validation or (paths[-1:] if len(paths) > 1 else [])
    training = [path for path in paths if path not in validation] or paths
    return Files(name, weight, layout, training, validation or paths, left_out)


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


def _validated_elsewhere(files: list[Files], place: str, left_out: LeftOut | None) -> list[Files]:
    """All of --data trains, and the first source carries the validation files."""
    layout, paths = common_layout(data_files(Path(place)), left_out)
    if layout.name != files[0].layout.name:
        fault = f"is no {files[0].layout.name}, as --data is"
        raise TrainerError(f"--val-data {place}", fault, "give the same layout")
    training = [sorted(set(f.all) - set(paths)) for f in files]
    return [
        replace(f, training=rest, validation=[] if number else paths)
        for number, (f, rest) in enumerate(zip(files, training, strict=True))
    ]


def _texts(files: list[Files]) -> Iterator[str]:
    for f in files:
        for path in f.training:
            yield from f.documents(path)


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


def data_files(place: Path) -> list[Path]:
    """The file itself, or what a folder holds that bears a data file's ending, sorted by path."""
    if place.is_file():
        return [place]
    if not place.exists():
        raise TrainerError(str(place), "does not exist", "see --data")
    endings = sorted({suffix for layout in LAYOUTS for suffix in layout.suffixes})
    inside = (p for p in place.rglob("*") if not any(s.startswith(".") for s in p.relative_to(place).parts))
    files = sorted(p for p in inside if p.suffix.lower() in endings and p.is_file())
    if not files:
        raise TrainerError(str(place), "holds no data files", f"data files end in {', '.join(endings)}")
    return files


def common_layout(paths: list[Path], left_out: LeftOut | None) -> tuple[Layout, list[Path]]:
    """What most of the files are, and these files; any other is an error that names it."""
    layouts: dict[Path, Layout] = {}
    for path in paths:
        with tolerated(left_out):
            layouts[path] = recognized(path)
    if not layouts:
        raise TrainerError(str(paths[0].parent), "holds no file that can be read", AGAIN)
    most = Counter(layout.name for layout in layouts.values()).most_common(1)[0][0]
    for path, layout in layouts.items():
        with tolerated(left_out):
            if layout.name != most:
                raise TrainerError(str(path), f"looks like {layout.name}, its neighbors are {most}", AGAIN)
    alike = [path for path, layout in layouts.items() if layout.name == most]
    return layouts[alike[0]], alike


def check_corpus(corpus: Corpus, vocab: int, mine: Callable[[int], bool]) -> None:
    """Every file of which this rank takes care (by its number); bad ones are noted where they may be left out."""
    paths = [(files, path) for files in corpus.files for path in files.all]
    for files, path in (each for number, each in enumerate(paths) if mine(number)):
        with tolerated(corpus.left_out):
            if fault := files.layout.fault(path):
                raise TrainerError(str(path), fault, AGAIN)
            if shard := files.shard(path):
                check_samples(shard)
                check_ids(shard, vocab)


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
