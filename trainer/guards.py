"""Files of data, looked through before the first step.

What would be an assertion of the device in the midst of a run, or a loss that never falls, is a line that names
the file: it is cut, ends in the zeros of an aborted download, or holds tokens of another width or vocabulary.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from gputel.trainer.data import AGAIN, LLMC_HEADER_BYTES, LLMC_KINDS, Corpus, llmc_header, npy_tokens
from gputel.trainer.rows import Shard
from gputel.trainer.say import TrainerError, optional, tolerated

TOKENS_AT_ONCE = 2**24
WINDOWS, WINDOW_TOKENS = 64, 2048


def check_corpus(corpus: Corpus, vocab: int, mine: Callable[[int], bool]) -> None:
    """Every file of which this rank takes care (by its number); bad ones are noted where they may be left out."""
    paths = [(files, path) for files in corpus.files for path in files.all]
    for files, path in (each for number, each in enumerate(paths) if mine(number)):
        with tolerated(corpus.left_out):
            if fault := FAULTS[files.layout.name](path):
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


FAULTS: dict[str, Callable[[Path], str | None]] = {
    "parquet": parquet_fault,
    "npy": npy_fault,
    "llm.c": llmc_fault,
    "jsonl": jsonl_fault,
    "text": text_fault,
    "nanoGPT": nanogpt_fault,
}
