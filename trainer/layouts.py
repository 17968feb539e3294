"""The layouts of data files, as a table: how each is recognized by its first bytes, read, and looked through.

What would be an assertion of the device in the midst of a run, or a loss that never falls, is a line before the
first step that names the file: it is cut, ends in the zeros of an aborted download, is an error page under the name
of a shard, or holds tokens of another width or vocabulary.
"""

import io
import json
import pickle
from collections import Counter
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
HEAD_BYTES = 4096
PAGES = (b"<!doctype html", b"<html", b"<?xml", b"<error")
ROWS_AT_ONCE, TOKENS_AT_ONCE = 4096, 2**24
WINDOWS, WINDOW_TOKENS = 64, 2048
AGAIN = "fetch it again"


@dataclass(frozen=True)
class Layout:
    """Text gives `documents`, tokens give `tokens` and `vocab`. `suffixes` are endings that promise this layout;
    `fault` says what is wrong with a file of it."""

    name: str
    suffixes: tuple[str, ...]
    recognizes: Callable[[bytes], bool]
    fault: Callable[[Path], str | None]
    documents: Callable[[Path, LeftOut | None], Iterator[str]] | None = None
    tokens: Callable[[Path], Ids] | None = None
    vocab: Callable[[Path], int] | None = None


def alike(place: Path, left_out: LeftOut | None) -> tuple[Layout, list[Path]]:
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
    same = [path for path, layout in layouts.items() if layout.name == most]
    return layouts[same[0]], same


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


def check_file(path: Path, layout: Layout, vocab: int) -> None:
    if fault := layout.fault(path):
        raise TrainerError(str(path), fault, AGAIN)
    if layout.tokens:
        tokens = layout.tokens(path)
        check_samples(str(path), tokens)
        check_ids(str(path), tokens, vocab)


def check_ids(name: str, tokens: Ids, vocab: int) -> None:
    """Every id is in the vocabulary."""
    if np.iinfo(tokens.dtype).max < vocab:
        return
    for start in range(0, len(tokens), TOKENS_AT_ONCE):
        piece = tokens[start : start + TOKENS_AT_ONCE]
        worst = piece.max() if piece.min() >= 0 else piece.min()
        if not 0 <= worst < vocab:
            fault = f"holds the token {worst:,}, the vocabulary has {vocab:,}"
            raise TrainerError(name, fault, "see --vocab")


def check_samples(name: str, tokens: Ids) -> None:
    """Windows from the first token to the last: zeros that an aborted download has left, and tokens of 32 bits
    that are read as 16, of which every second is the upper half of a token and no more than 1."""
    if len(tokens) < WINDOW_TOKENS:
        return
    starts = np.linspace(0, len(tokens) - WINDOW_TOKENS, WINDOWS).astype(np.int64) // 2 * 2
    windows = [np.asarray(tokens[start : start + WINDOW_TOKENS]) for start in starts.tolist()]
    for start, window in zip(starts.tolist(), windows, strict=True):
        if not window.any():
            fault = f"holds {WINDOW_TOKENS:,} zeros from token {start:,} of {len(tokens):,} on"
            raise TrainerError(name, fault, "was the download aborted? fetch it again")
    upper, lower = max(w[1::2].max() for w in windows), min(w[::2].max() for w in windows)
    if tokens.dtype.itemsize == 2 and upper <= 1 < lower:
        fault = "is read as tokens of 16 bits, and every second one is 0 or 1"
        raise TrainerError(name, fault, "are they of 32? write them as uint16, or as .npy")


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


def jsonl_documents(path: Path, _: LeftOut | None) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as file:
        yield from (json.loads(line)["text"] for line in file if line.strip())


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


def text_documents(path: Path, _: LeftOut | None) -> Iterator[str]:
    """A file is a document. Bytes that are not UTF-8 survive as they are."""
    yield path.read_bytes().decode("utf-8", "surrogateescape")


def text_fault(path: Path) -> str | None:
    with path.open("rb") as file:
        while block := file.read(2**20):
            if b"\0" in block:
                return "holds zero bytes, as no text does"
    return None


def npy_tokens(path: Path) -> Ids:
    tokens: Ids = np.load(path, mmap_mode="r", allow_pickle=False)
    return tokens


def npy_fault(path: Path) -> str | None:
    try:
        tokens = npy_tokens(path)
    except (ValueError, EOFError, OSError) as error:
        return f"cannot be read: {str(error).splitlines()[0]}"
    if tokens.ndim != 1 or tokens.dtype.kind not in "ui":
        return f"holds {tokens.ndim} dimensions of {tokens.dtype}, expected one of unsigned integers"
    return None


def llmc_header(path: Path) -> tuple[int, int, int]:
    magic, version, count = np.fromfile(path, "<i4", 3).tolist()
    return magic, version, count


def llmc_tokens(path: Path) -> Ids:
    magic, _, count = llmc_header(path)
    return np.memmap(path, LLMC_KINDS[magic][1], mode="r", offset=LLMC_HEADER_BYTES, shape=(count,))


def llmc_vocab(path: Path) -> int:
    return LLMC_KINDS[llmc_header(path)[0]][2]


def llmc_fault(path: Path) -> str | None:
    if path.stat().st_size < LLMC_HEADER_BYTES:
        return "is cut within its header"
    magic, version, count = llmc_header(path)
    wanted, dtype, _ = LLMC_KINDS[magic]
    if version != wanted:
        return f"is of version {version}, expected {wanted}"
    there = (path.stat().st_size - LLMC_HEADER_BYTES) // np.dtype(dtype).itemsize
    return None if there == count else f"holds {there:,} tokens, and its header promises {count:,}"


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


def nanogpt_fault(path: Path) -> str | None:
    odd = "has an odd number of bytes, and its tokens are two each; was it cut?"
    return odd if path.stat().st_size % 2 else None


def begins_with(*magics: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(magics)


def is_jsonl(head: bytes) -> bool:
    return head.lstrip().startswith(b"{") and b'"text"' in head


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


def is_binary(head: bytes) -> bool:
    return b"\0" in head or len(set(head)) > 128


LAYOUTS = (
    Layout("parquet", (".parquet",), begins_with(b"PAR1"), parquet_fault, parquet_documents),
    Layout(
        "npy", (".npy",), begins_with(b"\x93NUMPY"), npy_fault, tokens=npy_tokens, vocab=lambda _: GPT2_VOCAB
    ),
    Layout("llm.c", (".bin",), begins_with(*LLMC_MAGICS), llmc_fault, tokens=llmc_tokens, vocab=llmc_vocab),
    Layout("jsonl", (".jsonl", ".ndjson"), is_jsonl, jsonl_fault, jsonl_documents),
    TEXT := Layout("text", (".txt", ".md", ".py"), is_text, text_fault, text_documents),
    Layout("nanoGPT", (".bin",), is_binary, nanogpt_fault, tokens=nanogpt_tokens, vocab=nanogpt_vocab),
)
