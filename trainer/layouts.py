"""Layouts of training data, as a table: how a file is recognized by its content, what can be wrong with it, how it
is read.

Text layouts give documents, token layouts a mapped array. A file whose content is not what its neighbors or its
ending promise is an error that names it: the usual culprit is a download that left an error page under the name of
a shard.
"""

import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from gputel.trainer.errors import TrainerError, optional
from gputel.trainer.tokenizer import Ids, Tokenizer, remade

GPT2_VOCAB = 50_257
CONTROL = set(range(32)) - set(b"\t\n\r\f\v\x1b\b")
LLMC_HEADER_BYTES = 1024  # 256 int32: magic, version, count of tokens
LLMC_KINDS = {
    20240520: (1, "<u2", GPT2_VOCAB),
    20240801: (7, "<u4", 128_256),
}  # magic: version, token, vocabulary
PAGES = (b"<!doctype html", b"<html", b"<?xml", b"<error")
HEAD_BYTES, ROWS_AT_ONCE = 4096, 4096
AGAIN = "fetch it again"


@dataclass(frozen=True)
class Layout:
    """Text gives `documents`, tokens give `tokens` and `vocab`. `suffixes` are endings that promise this layout;
    `fault` looks at a whole file and says what is wrong with it, or None."""

    name: str
    suffixes: tuple[str, ...]
    recognizes: Callable[[bytes], bool]
    fault: Callable[[Path], str | None]
    documents: Callable[[Path], Iterator[str]] | None = None
    tokens: Callable[[Path], Ids] | None = None
    vocab: Callable[[Path], int] | None = None


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


def common_layout(paths: list[Path]) -> Layout:
    """What most of the files are; any other is an error that names it."""
    layouts = {path: recognized(path) for path in paths}
    most = Counter(layout.name for layout in layouts.values()).most_common(1)[0][0]
    for path, layout in layouts.items():
        if layout.name != most:
            raise TrainerError(str(path), f"looks like {layout.name}, its neighbors are {most}", AGAIN)
    return next(layout for layout in LAYOUTS if layout.name == most)


def recognized(path: Path) -> Layout:
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


def _polars() -> Any:
    return optional("polars", "polars", "--data (parquet)")


def _parquet_documents(path: Path) -> Iterator[str]:
    """nanochat's: a row of the column `text` is a document."""
    polars = _polars()
    table = polars.scan_parquet(path).select("text")
    for start in range(0, table.select(polars.len()).collect().item(), ROWS_AT_ONCE):
        try:
            column = table.slice(start, ROWS_AT_ONCE).collect()["text"]
        except (polars.exceptions.PolarsError, OSError) as error:
            fault = f"cannot be read: {str(error).splitlines()[0]}"
            raise TrainerError(f"{path}, row {start:,}", fault, AGAIN) from error
        yield from (text for text in column if text is not None)


def _parquet_fault(path: Path) -> str | None:
    with path.open("rb") as file:
        file.seek(-min(4, path.stat().st_size), 2)
        if file.read() != b"PAR1":
            return "is cut: it does not end as parquet does"
    polars = _polars()
    try:
        columns = polars.read_parquet_schema(path)
    except (polars.exceptions.PolarsError, OSError) as error:
        return f"cannot be read: {str(error).splitlines()[0]}"
    if "text" not in columns:
        return f"has no column text, but {', '.join(columns)}"
    kind = columns["text"]
    return None if kind == polars.String else f"has a column text of {kind}, not of strings"


def _npy_tokens(path: Path) -> Ids:
    tokens: Ids = np.load(path, mmap_mode="r", allow_pickle=False)
    return tokens


def _npy_fault(path: Path) -> str | None:
    try:
        tokens = _npy_tokens(path)
    except (ValueError, EOFError, OSError) as error:
        return f"cannot be read: {str(error).splitlines()[0]}"
    if tokens.ndim != 1 or tokens.dtype.kind not in "ui":
        return f"holds {tokens.ndim} dimensions of {tokens.dtype}, expected one of unsigned integers"
    return None


def _llmc_header(path: Path) -> tuple[int, int, int]:
    magic, version, count = np.fromfile(path, "<i4", 3).tolist()
    return magic, version, count


def _llmc_tokens(path: Path) -> Ids:
    magic, _, count = _llmc_header(path)
    return np.memmap(path, LLMC_KINDS[magic][1], mode="r", offset=LLMC_HEADER_BYTES, shape=(count,))


def _llmc_fault(path: Path) -> str | None:
    if path.stat().st_size < LLMC_HEADER_BYTES:
        return "is cut within its header"
    magic, version, count = _llmc_header(path)
    wanted, dtype, _ = LLMC_KINDS[magic]
    if version != wanted:
        return f"is of version {version}, expected {wanted}"
    there = (path.stat().st_size - LLMC_HEADER_BYTES) // np.dtype(dtype).itemsize
    return None if there == count else f"holds {there:,} tokens, and its header promises {count:,}"


def _jsonl_documents(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as file:
        yield from (json.loads(line)["text"] for line in file if line.strip())


def _jsonl_fault(path: Path) -> str | None:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line) if line.strip() else {"text": ""}
            except ValueError:
                return f"line {number} is no JSON; was the file cut?"
            if not isinstance(row, dict) or not isinstance(row.get("text"), str):
                return f'line {number} has no "text"'
    return None


def _is_text(head: bytes) -> bool:
    """No control bytes, and UTF-8 but for a character that the end of the head may have cut; or mostly ASCII with a
    few bytes above, an old encoding: tokens in binary are never that tame."""
    if CONTROL & set(head):
        return False
    try:
        head.decode()
    except UnicodeDecodeError as fault:
        return fault.start >= len(head) - 3 or sum(byte >= 128 for byte in head) < len(head) / 20
    return True


def _text_documents(path: Path) -> Iterator[str]:
    """A file is a document. Bytes that are not UTF-8 survive as they are."""
    yield path.read_bytes().decode("utf-8", "surrogateescape")


def _text_fault(path: Path) -> str | None:
    with path.open("rb") as file:
        while block := file.read(2**20):
            if b"\0" in block:
                return "holds zero bytes, as no text does"
    return None


def _nanogpt_fault(path: Path) -> str | None:
    odd = "has an odd number of bytes, and its tokens are two each; was it cut?"
    return odd if path.stat().st_size % 2 else None


def nanogpt_tokenizer(folder: Path) -> Tokenizer | None:
    """The characters of meta.pkl, if their ids are those of a plain alphabet."""
    itos = _nanogpt_meta(folder).get("itos")
    if not isinstance(itos, dict) or sorted(itos) != list(range(len(itos))):
        return None
    return remade({"kind": "chars", "characters": "".join(itos[i] for i in range(len(itos)))})


def _nanogpt_meta(folder: Path) -> dict[str, Any]:
    """The vocabulary beside train.bin, read by an unpickler that knows no classes: no code runs."""
    path = folder / "meta.pkl"
    if not path.is_file():
        return {}
    try:
        with path.open("rb") as file:
            meta = _PlainUnpickler(file).load()
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError, KeyError) as error:
        fault = f"is no plain dictionary ({error})"
        raise TrainerError(str(path), fault, "give --vocab and remove it") from error
    return meta if isinstance(meta, dict) else {}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it wants to run {module}.{name}")


PARQUET = Layout(
    "parquet",
    (".parquet",),
    lambda head: head.startswith(b"PAR1"),
    _parquet_fault,
    documents=_parquet_documents,
)
NPY = Layout(
    "npy",
    (".npy",),
    lambda head: head.startswith(b"\x93NUMPY"),
    _npy_fault,
    tokens=_npy_tokens,
    vocab=lambda _: GPT2_VOCAB,
)
LLMC = Layout(
    "llm.c",
    (".bin",),
    lambda head: int.from_bytes(head[:4], "little") in LLMC_KINDS,
    _llmc_fault,
    tokens=_llmc_tokens,
    vocab=lambda path: LLMC_KINDS[_llmc_header(path)[0]][2],
)
JSONL = Layout(
    "jsonl",
    (".jsonl", ".ndjson"),
    lambda head: head.lstrip().startswith(b"{") and b'"text"' in head,
    _jsonl_fault,
    documents=_jsonl_documents,
)
TEXT = Layout("text", (".txt", ".md", ".py"), _is_text, _text_fault, documents=_text_documents)
NANOGPT = Layout(
    "nanoGPT",
    (".bin",),
    lambda head: b"\0" in head or len(set(head)) > 128,
    _nanogpt_fault,
    tokens=lambda path: np.memmap(path, "<u2", mode="r", shape=(path.stat().st_size // 2,)),
    vocab=lambda path: int(_nanogpt_meta(path.parent).get("vocab_size") or GPT2_VOCAB),
)
LAYOUTS = (PARQUET, NPY, LLMC, JSONL, TEXT, NANOGPT)
