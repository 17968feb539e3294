"""The layouts of data files, as a table: how each is recognized by its first bytes, and how it is read."""

import io
import json
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from gputel.trainer.say import LeftOut, TrainerError, optional, tolerated
from gputel.trainer.tokenizer import Ids

GPT2_VOCAB = 50_257
CONTROL = set(range(32)) - set(b"\t\n\r\f\v\x1b\b")
LLMC_HEADER_BYTES = 1024  # 256 int32: magic, version, count of tokens
LLMC_KINDS = {20240520: (1, "<u2", GPT2_VOCAB), 20240801: (7, "<u4", 128_256)}  # version, token, vocabulary
LLMC_MAGICS = tuple(magic.to_bytes(4, "little") for magic in LLMC_KINDS)
ROWS_AT_ONCE = 4096
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
