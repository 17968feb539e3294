"""What `--data`, `--val-data` and `--tokenizer` say, opened and checked: options in, a corpus out."""

import hashlib
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gputel.trainer.data import nanogpt
from gputel.trainer.data.check import check_files, check_ids, check_samples, common_layout, data_files
from gputel.trainer.data.layout import Layout
from gputel.trainer.data.mixture import Mixture
from gputel.trainer.data.shard import Shard
from gputel.trainer.data.source import Source
from gputel.trainer.data.standard_library import is_validation, standard_library
from gputel.trainer.data.tokenizer import Tokenizer, tokenizer_from
from gputel.trainer.errors import TrainerError

VALIDATION_SHARE = 0.05
EDGE_BYTES = 4096


@dataclass(frozen=True)
class Files:
    """One source: its training files, its validation files (the same one file, where there is only one),
    the layout."""

    name: str
    weight: float
    layout: Layout
    training: list[Path]
    validation: list[Path]

    @property
    def all(self) -> list[Path]:
        return sorted({*self.training, *self.validation})

    def shards(self, tokenizer: Tokenizer | None) -> tuple[list[Shard], list[Shard]]:
        if self.training == self.validation:
            whole = self.layout.shards(self.training, tokenizer)
            border = 1 - VALIDATION_SHARE
            return [*whole[:-1], whole[-1].part(0, border)], [whole[-1].part(border, 1)]
        return self.layout.shards(self.training, tokenizer), self.layout.shards(self.validation, tokenizer)


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
        if len(sources) == 1:
            return sources[0]
        return Mixture(sources, [f.weight for f in self.files], seed)

    def validation(self, seq: int) -> list[tuple[Shard, int]]:
        """Every row of the validation files, in the order of files: (shard, where it starts)."""
        shards = [shard for f in self.files for shard in f.shards(self.tokenizer)[1]]
        rows = [(shard, row * seq) for shard in shards for row in range(shard.rows(seq))]
        if not rows:
            raise TrainerError(
                "validation", f"has no row of {seq} tokens", "take a smaller --seq or --val-data"
            )
        return rows

    def check(self, vocab: int, mine: Callable[[int], bool]) -> None:
        """Every file of which this rank takes care (by its number), from end to end."""
        paths = [(f, path) for f in self.files for path in f.all]
        for number, (files, path) in enumerate(paths):
            if not mine(number):
                continue
            check_files([path], files.layout)
            if files.layout.shard:
                check_samples(files.layout.shard(path))
                check_ids(files.layout.shard(path), vocab)


def open_corpus(data: str | None, val_data: str | None, tokenizer: str | None) -> Corpus:
    files = [_files(name, weight) for name, weight in _mixture(data)] if data else [_standard_library()]
    if val_data:
        files = [*_validated_elsewhere(files, val_data)]
    made = _tokenizer(files, tokenizer)
    vocab = _vocabulary(files, made)
    fingerprint = _fingerprint([path for f in files for path in f.all], whole=data is None)
    count, size = sum(len(f.all) for f in files), sum(p.stat().st_size for f in files for p in f.all)
    described = (
        f"{data or 'the Python standard library'}: {count:,} files, {size:,} bytes, hash {fingerprint}"
    )
    return Corpus(files, made, vocab, fingerprint, described)


def _mixture(data: str) -> list[tuple[str, float]]:
    """`a=0.65,b=0.35`, or one path."""
    parts = [part.rpartition("=") for part in data.split(",")]
    if Path(data).exists() or not all(path and _is_number(weight) for path, _, weight in parts):
        return [(data, 1.0)]
    if any(float(weight) <= 0 for _, _, weight in parts):
        raise TrainerError(f"--data {data}", "has a share that is not above 0", "leave that source out")
    return [(path, float(weight)) for path, _, weight in parts]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _files(name: str, weight: float) -> Files:
    paths = data_files(Path(name))
    layout = common_layout(paths)
    validation = [
        p
        for p in paths
        if any(word in p.stem.lower().replace("-", "_").split("_") for word in ("val", "valid", "validation"))
    ]
    if not validation and len(paths) > 1:
        validation = paths[-1:]
    training = [p for p in paths if p not in validation] or paths
    return Files(name, weight, layout, training, validation or paths)


def _standard_library() -> Files:
    paths, root = standard_library(), Path(sysconfig.get_path("stdlib"))
    validation = [p for p in paths if is_validation(p, root)]
    return Files(
        "standard library", 1.0, common_layout(paths), [p for p in paths if p not in validation], validation
    )


def _validated_elsewhere(files: list[Files], place: str) -> Iterator[Files]:
    """All of --data trains, and the first source carries the validation files."""
    paths = data_files(Path(place))
    if common_layout(paths).name != files[0].layout.name:
        raise TrainerError(
            f"--val-data {place}", f"is no {files[0].layout.name}, as --data is", "give the same layout"
        )
    for number, f in enumerate(files):
        training = sorted({*f.training, *f.validation} - set(paths))
        yield Files(f.name, f.weight, f.layout, training, paths if number == 0 else [])


def _tokenizer(files: list[Files], name: str | None) -> Tokenizer | None:
    texts = [f for f in files if f.layout.documents]
    if name is None and not texts:
        return nanogpt.tokenizer(files[0].training[0].parent) if files[0].layout is nanogpt.NANOGPT else None
    return tokenizer_from(name or "bytes", lambda: _texts(texts))


def _texts(files: list[Files]) -> Iterable[str]:
    for f in files:
        for path in f.training:
            yield from f.layout.documents(path) if f.layout.documents else ()


def _vocabulary(files: list[Files], tokenizer: Tokenizer | None) -> int:
    if tokenizer:
        return tokenizer.vocab
    return max(f.layout.vocab(path) for f in files for path in f.training if f.layout.vocab)


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
