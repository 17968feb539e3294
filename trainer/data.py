"""What `--data`, `--val-data` and `--tokenizer` say: files in, a corpus out; and the table of the layouts of files.

A layout is recognized by content. A file that is not what its neighbors or its ending promise is an error that
names it: the usual culprit is a download that left an error page under the name of a shard.
Without `--data` the corpus is the text that every machine has: Python's standard library without its tests, one
file in twenty for validation. Which file that is follows from its path, so it stays the same when a release adds
or drops others.
"""

import hashlib
import io
import json
import os
import pickle
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from gputel.trainer.rows import Mixture, Shard, Source, tokenized
from gputel.trainer.say import LeftOut, TrainerError, optional, tolerated
from gputel.trainer.tokenizer import Ids, Tokenizer, remade, tokenizer_from

VALIDATION_SHARE, VALIDATION_ONE_IN = 0.05, 20
VALIDATION_WORDS = {"val", "valid", "validation"}
LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
GPT2_VOCAB = 50_257
CONTROL = set(range(32)) - set(b"\t\n\r\f\v\x1b\b")
LLMC_HEADER_BYTES = 1024  # 256 int32: magic, version, count of tokens
LLMC_KINDS = {20240520: (1, "<u2", GPT2_VOCAB), 20240801: (7, "<u4", 128_256)}  # version, token, vocabulary
LLMC_MAGICS = tuple(magic.to_bytes(4, "little") for magic in LLMC_KINDS)
PAGES = (b"<!doctype html", b"<html", b"<?xml", b"<error")
EDGE_BYTES, HEAD_BYTES, ROWS_AT_ONCE = 4096, 4096, 4096
AGAIN = "fetch it again"


@dataclass(frozen=True)
class Layout:
    """Text gives `documents`, tokens give `tokens` and `vocab`. `suffixes` are endings that promise this layout."""

    name: str
    suffixes: tuple[str, ...]
    recognizes: Callable[[bytes], bool]
    documents: Callable[[Path, LeftOut | None], Iterator[str]] | None = None
    tokens: Callable[[Path], Ids] | None = None
    vocab: Callable[[Path], int] | None = None


def parquet_documents(path: Path, left_out: LeftOut | None) -> Iterator[str]:
    """nanochat's: a row of the column `text` is a document."""
    polars = optional("polars", "polars", "--data (parquet)")
    table = polars.scan_parquet(path).select("text")
    rows = table.select(polars.len()).collect().item()
    for start in range(0, rows, ROWS_AT_ONCE):
        column: Iterable[str | None] = ()
        with tolerated(left_out):
            try:
                column = table.slice(start, ROWS_AT_ONCE).collect()["text"]
            except (polars.exceptions.PolarsError, OSError) as error:
                place = f"{path}, rows {start:,} to {min(rows, start + ROWS_AT_ONCE) - 1:,}"
                fault = f"cannot be read: {str(error).splitlines()[0]}"
                raise TrainerError(place, fault, AGAIN) from error
        yield from (text for text in column if text is not None)


def jsonl_documents(path: Path, _: LeftOut | None) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as file:
        yield from (json.loads(line)["text"] for line in file if line.strip())


def text_documents(path: Path, _: LeftOut | None) -> Iterator[str]:
    """A file is a document. Bytes that are not UTF-8 survive as they are."""
    yield path.read_bytes().decode("utf-8", "surrogateescape")


def is_text(head: bytes) -> bool:
    """No control bytes, and UTF-8 but for a character that the end of the head may have cut; or mostly ASCII with a
    few bytes above, an old encoding: tokens in binary are never that tame."""
    if CONTROL & set(head):
        return False
    try:
        head.decode()
    except UnicodeDecodeError as fault:
        return fault.start >= len(head) - 3 or sum(byte >= 128 for byte in head) < len(head) / 20
    return True


def npy_tokens(path: Path) -> Ids:
    tokens: Ids = np.load(path, mmap_mode="r", allow_pickle=False)
    return tokens


def llmc_header(path: Path) -> tuple[int, int, int]:
    magic, version, count = np.fromfile(path, "<i4", 3).tolist()
    return magic, version, count


def llmc_tokens(path: Path) -> Ids:
    magic, _, count = llmc_header(path)
    return np.memmap(path, LLMC_KINDS[magic][1], mode="r", offset=LLMC_HEADER_BYTES, shape=(count,))


def llmc_vocab(path: Path) -> int:
    return LLMC_KINDS[llmc_header(path)[0]][2]


def nanogpt_tokens(path: Path) -> Ids:
    return np.memmap(path, "<u2", mode="r", shape=(path.stat().st_size // 2,))


def nanogpt_vocab(path: Path) -> int:
    return int(nanogpt_meta(path.parent).get("vocab_size") or GPT2_VOCAB)


def nanogpt_meta(folder: Path) -> dict[str, Any]:
    """The vocabulary beside train.bin, read by an unpickler that knows no classes: no code runs."""
    path = folder / "meta.pkl"
    try:
        meta = _PlainUnpickler(io.BytesIO(path.read_bytes())).load() if path.is_file() else {}
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError, KeyError) as error:
        fault = f"is no plain dictionary ({error})"
        raise TrainerError(str(path), fault, "give --vocab and remove it") from error
    return meta if isinstance(meta, dict) else {}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it wants to run {module}.{name}")


def begins_with(*magics: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(magics)


def is_jsonl(head: bytes) -> bool:
    return head.lstrip().startswith(b"{") and b'"text"' in head


def is_binary(head: bytes) -> bool:
    return b"\0" in head or len(set(head)) > 128


LAYOUTS = (
    Layout("parquet", (".parquet",), begins_with(b"PAR1"), parquet_documents),
    Layout("npy", (".npy",), begins_with(b"\x93NUMPY"), tokens=npy_tokens, vocab=lambda _: GPT2_VOCAB),
    Layout("llm.c", (".bin",), begins_with(*LLMC_MAGICS), tokens=llmc_tokens, vocab=llmc_vocab),
    Layout("jsonl", (".jsonl", ".ndjson"), is_jsonl, jsonl_documents),
    TEXT := Layout("text", (".txt", ".md", ".py"), is_text, text_documents),
    Layout("nanoGPT", (".bin",), is_binary, tokens=nanogpt_tokens, vocab=nanogpt_vocab),
)


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
        training = [path for path in self.training if str(path) not in gone]
        if not training:
            raise TrainerError(self.name, "holds no file that can be read", AGAIN)
        validation = [path for path in self.validation if str(path) not in gone]
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
        words = (text for f in texts for path in f.training for text in f.documents(path))
        made: Tokenizer | None = tokenizer_from(tokenizer or "bytes", words)
    else:
        made = _nanogpt_tokenizer(files[0]) if files[0].layout.name == "nanoGPT" else None
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
    layout, paths = _alike(Path(name), left_out)
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
    layout, paths = _alike(Path(place), left_out)
    if layout is not files[0].layout:
        fault = f"is no {files[0].layout.name}, as --data is"
        raise TrainerError(f"--val-data {place}", fault, "give the same layout")
    rest = [replace(f, training=sorted(set(f.all) - set(paths)), validation=[]) for f in files]
    if empty := next((f.name for f in rest if not f.training), None):
        raise TrainerError(
            f"--val-data {place}", f"leaves nothing of {empty} to train on", "give other files"
        )
    return [replace(rest[0], validation=paths), *rest[1:]]


def _nanogpt_tokenizer(files: Files) -> Tokenizer | None:
    """The characters of meta.pkl, if their ids are those of a plain alphabet."""
    itos = nanogpt_meta(files.training[0].parent).get("itos")
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
            digest.update(file.read() if whole else file.read(EDGE_BYTES))
            if not whole:
                file.seek(max(0, size - EDGE_BYTES))
                digest.update(file.read(EDGE_BYTES))
    return digest.hexdigest()[:16]


def _alike(place: Path, left_out: LeftOut | None) -> tuple[Layout, list[Path]]:
    """What most of a place's files are, and these files; any other is an error that names it."""
    paths, layouts = _data_files(place), dict[Path, Layout]()
    for path in paths:
        with tolerated(left_out):
            layouts[path] = _recognized(path)
    if not layouts:
        raise TrainerError(str(paths[0].parent), "holds no file that can be read", AGAIN)
    most = Counter(layout.name for layout in layouts.values()).most_common(1)[0][0]
    for path, layout in layouts.items():
        with tolerated(left_out):
            if layout.name != most:
                raise TrainerError(str(path), f"looks like {layout.name}, its neighbors are {most}", AGAIN)
    alike = [path for path, layout in layouts.items() if layout.name == most]
    return layouts[alike[0]], alike


def _data_files(place: Path) -> list[Path]:
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


def _recognized(path: Path) -> Layout:
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    words = repr(" ".join(head[:200].decode("ascii", "replace").split())[:60])
    if not head:
        raise TrainerError(str(path), "is empty", AGAIN)
    if head.lstrip().lower().startswith(PAGES):
        raise TrainerError(str(path), f"is a page, not data: {words}", AGAIN)
    if not head.strip(b"\0"):
        raise TrainerError(str(path), "is full of zeros", AGAIN)
    layout = next((layout for layout in LAYOUTS if layout.recognizes(head)), None)
    promised = [other for other in LAYOUTS if path.suffix.lower() in other.suffixes]
    if layout is None or (promised and layout not in promised):
        raise TrainerError(str(path), f"is no {path.suffix.lstrip('.')} file: {words}", AGAIN)
    return layout
