"""Data files named before step 0 if they are not what they should be: paths in, the layout they share out.

The usual culprit is a download that failed and left an error page under the name of a shard.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from gputel.trainer.data.jsonl import JSONL
from gputel.trainer.data.layout import Layout
from gputel.trainer.data.llmc import LLMC
from gputel.trainer.data.nanogpt import NANOGPT
from gputel.trainer.data.npy import NPY
from gputel.trainer.data.parquet import PARQUET
from gputel.trainer.data.plaintext import TEXT
from gputel.trainer.data.shard import Shard
from gputel.trainer.errors import TrainerError

LAYOUTS = (PARQUET, NPY, LLMC, JSONL, TEXT, NANOGPT)
PAGES = (b"<!doctype html", b"<html", b"<?xml", b"<error")
HEAD_BYTES = 4096
TOKENS_AT_ONCE = 2**24
WINDOWS, WINDOW_TOKENS = 64, 2048


def data_files(place: Path) -> list[Path]:
    """The file itself, or what a folder holds that bears a data file's ending, sorted by path."""
    if place.is_file():
        return [place]
    if not place.exists():
        raise TrainerError(str(place), "does not exist", "see --data")
    endings = {suffix for layout in LAYOUTS for suffix in layout.suffixes}
    inside = (
        p for p in place.rglob("*") if not any(part.startswith(".") for part in p.relative_to(place).parts)
    )
    files = sorted(p for p in inside if p.suffix.lower() in endings and p.is_file())
    if not files:
        raise TrainerError(
            str(place), "holds no data files", f"data files end in {', '.join(sorted(endings))}"
        )
    return files


def common_layout(paths: list[Path]) -> Layout:
    """What most of the files are; any other is an error that names it."""
    layouts = {path: recognized(path) for path in paths}
    most = Counter(layout.name for layout in layouts.values()).most_common(1)[0][0]
    for path, layout in layouts.items():
        if layout.name != most:
            raise TrainerError(
                str(path), f"looks like {layout.name}, its neighbors are {most}", "fetch it again"
            )
    return next(layout for layout in LAYOUTS if layout.name == most)


def recognized(path: Path) -> Layout:
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        raise TrainerError(str(path), "is empty", "fetch it again")
    if head.lstrip().lower().startswith(PAGES):
        raise TrainerError(str(path), f"is a page, not data: {_first_words(head)}", "fetch it again")
    if not head.strip(b"\0"):
        raise TrainerError(str(path), "is full of zeros", "fetch it again")
    layout = next((layout for layout in LAYOUTS if layout.recognizes(head)), None)
    if layout is None or not _keeps_promise(path, layout):
        raise TrainerError(
            str(path), f"is no {path.suffix.lstrip('.')} file: {_first_words(head)}", "fetch it again"
        )
    return layout


def check_files(paths: Iterable[Path], layout: Layout) -> None:
    for path in paths:
        fault = layout.fault(path)
        if fault:
            raise TrainerError(str(path), fault, "fetch it again")


def check_ids(shard: Shard, vocab: int) -> None:
    """Every id of a shard of tokens; a wrong one would end a run on a GPU with an assertion of the device."""
    tokens = shard.tokens
    if np.iinfo(tokens.dtype).max < vocab:
        return
    for start in range(0, len(tokens), TOKENS_AT_ONCE):
        piece = tokens[start : start + TOKENS_AT_ONCE]
        worst = piece.max() if piece.min() >= 0 else piece.min()
        if not 0 <= worst < vocab:
            raise TrainerError(
                shard.name, f"holds the token {worst:,}, the vocabulary has {vocab:,}", "see --vocab"
            )


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


def _keeps_promise(path: Path, layout: Layout) -> bool:
    promising = [other for other in LAYOUTS if path.suffix.lower() in other.suffixes]
    return not promising or layout in promising


def _first_words(head: bytes) -> str:
    words = head[:200].decode("ascii", "replace").split()
    return repr(" ".join(words)[:60])
