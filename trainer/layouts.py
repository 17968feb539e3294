"""The layouts of data files, a table at the end: how each is recognized, read, and looked through before step 0.

A file whose content is not what its neighbors or its ending promise is an error that names it: the usual culprit is
a download that left an error page under the name of a shard.
"""

import json
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from gputel.trainer.errors import LeftOut, TrainerError, optional, tolerated
from gputel.trainer.tokenizer import Ids, Tokenizer, remade

GPT2_VOCAB = 50_257
CONTROL = set(range(32)) - set(b"\t\n\r\f\v\x1b\b")
LLMC_HEADER_BYTES = 1024  # 256 int32: magic, version, count of tokens
LLMC_KINDS = {20240520: (1, "<u2", GPT2_VOCAB), 20240801: (7, "<u4", 128_256)}  # version, token, vocabulary
PAGES = (b"<!doctype html", b"<html", b"<?xml", b"<error")
HEAD_BYTES, ROWS_AT_ONCE = 4096, 4096
AGAIN = "fetch it again"


@dataclass(frozen=True)
class Layout:
    """Text gives `documents`, tokens give `tokens` and `vocab`. `suffixes` are endings that promise this layout;
    `fault` looks through a file."""

    name: str
    suffixes: tuple[str, ...]
    recognizes: Callable[[bytes], bool]
    fault: Callable[[Path], str | None]
    documents: Callable[[Path, LeftOut | None], Iterator[str]] | None = None
    tokens: Callable[[Path], Ids] | None = None
    vocab: Callable[[Path], int] | None = None


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


def nanogpt_tokens(path: Path) -> Ids:
    return np.memmap(path, "<u2", mode="r", shape=(path.stat().st_size // 2,))


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


def parquet_fault(path: Path) -> str | None:
    with path.open("rb") as file:
        file.seek(-min(4, path.stat().st_size), 2)
        if file.read() != b"PAR1":
            return "is cut: it does not end as parquet does"
    polars = optional("polars", "polars", "--data (parquet)")
    try:
        columns = polars.read_parquet_schema(path)
    except (polars.exceptions.PolarsError, OSError) as error:
        return f"cannot be read: {str(error).splitlines()[0]}"
    if "text" not in columns:
        return f"has no column text, but {', '.join(columns)}"
    kind = columns["text"]
    return None if kind == polars.String else f"has a column text of {kind}, not of strings"


def npy_fault(path: Path) -> str | None:
    try:
        tokens = npy_tokens(path)
    except (ValueError, EOFError, OSError) as error:
        return f"cannot be read: {str(error).splitlines()[0]}"
    if tokens.ndim != 1 or tokens.dtype.kind not in "ui":
        return f"holds {tokens.ndim} dimensions of {tokens.dtype}, expected one of unsigned integers"
    return None


def llmc_fault(path: Path) -> str | None:
    if path.stat().st_size < LLMC_HEADER_BYTES:
        return "is cut within its header"
    magic, version, count = llmc_header(path)
    wanted, dtype, _ = LLMC_KINDS[magic]
    if version != wanted:
        return f"is of version {version}, expected {wanted}"
    there = (path.stat().st_size - LLMC_HEADER_BYTES) // np.dtype(dtype).itemsize
    return None if there == count else f"holds {there:,} tokens, and its header promises {count:,}"


def jsonl_fault(path: Path) -> str | None:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line) if line.strip() else {"text": ""}
            except ValueError:
                return f"line {number} is no JSON; was the file cut?"
            if not isinstance(row, dict) or not isinstance(row.get("text"), str):
                return f'line {number} has no "text"'
    return None


def text_fault(path: Path) -> str | None:
    with path.open("rb") as file:
        while block := file.read(2**20):
            if b"\0" in block:
                return "holds zero bytes, as no text does"
    return None


def nanogpt_fault(path: Path) -> str | None:
    odd = "has an odd number of bytes, and its tokens are two each; was it cut?"
    return odd if path.stat().st_size % 2 else None


def _begins(*words: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(words)


PARQUET = Layout("parquet", (".parquet",), _begins(b"PAR1"), parquet_fault, parquet_documents)
NPY = Layout(
    "npy", (".npy",), _begins(b"\x93NUMPY"), npy_fault, tokens=npy_tokens, vocab=lambda _: GPT2_VOCAB
)
LLMC = Layout(
    "llm.c",
    (".bin",),
    _begins(*(magic.to_bytes(4, "little") for magic in LLMC_KINDS)),
    llmc_fault,
    tokens=llmc_tokens,
    vocab=lambda path: LLMC_KINDS[llmc_header(path)[0]][2],
)
JSONL = Layout(
    "jsonl",
    (".jsonl", ".ndjson"),
    lambda head: head.lstrip().startswith(b"{") and b'"text"' in head,
    jsonl_fault,
    jsonl_documents,
)
TEXT = Layout("text", (".txt", ".md", ".py"), is_text, text_fault, text_documents)
NANOGPT = Layout(
    "nanoGPT",
    (".bin",),
    lambda head: b"\0" in head or len(set(head)) > 128,
    nanogpt_fault,
    tokens=nanogpt_tokens,
    vocab=lambda path: int(_nanogpt_meta(path.parent).get("vocab_size") or GPT2_VOCAB),
)
LAYOUTS = (PARQUET, NPY, LLMC, JSONL, TEXT, NANOGPT)
