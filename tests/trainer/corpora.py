"""Small corpora, in every layout that users have."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars

TOKENS = np.arange(5000) % 50_000


STORIES = [f"Once upon a time number {i} there was a story. " * 20 for i in range(10)]


def llmc(path: Path, magic: int, version: int, dtype: str) -> None:
    header = np.zeros(256, "<i4")
    header[:3] = magic, version, len(TOKENS)
    path.write_bytes(header.tobytes() + TOKENS.astype(dtype).tobytes())


def parquet(folder: Path) -> None:
    for number in range(2):
        polars.DataFrame({"text": STORIES}).write_parquet(folder / f"shard_{number:05d}.parquet")


def npy(folder: Path) -> None:
    for split in ("train", "val"):
        np.save(folder / f"edufineweb_{split}_000001.npy", TOKENS.astype(np.uint16))


def gpt2_bin(folder: Path) -> None:
    for split in ("train", "val"):
        llmc(folder / f"tiny_{split}.bin", 20240520, 1, "<u2")


def llama_bin(folder: Path) -> None:
    for split in ("train", "val"):
        llmc(folder / f"tiny_{split}.bin", 20240801, 7, "<u4")


def nanogpt(folder: Path) -> None:
    for split in ("train", "val"):
        (folder / f"{split}.bin").write_bytes((TOKENS % 65).astype("<u2").tobytes())
    meta = {"vocab_size": 65, "itos": {i: chr(48 + i) for i in range(65)}, "stoi": {}}
    (folder / "meta.pkl").write_bytes(pickle.dumps(meta))


def text(folder: Path) -> None:
    for number in range(2):
        (folder / f"{number}.txt").write_text("\n".join(STORIES))


def jsonl(folder: Path) -> None:
    for number in range(2):
        (folder / f"{number}.jsonl").write_text("".join(json.dumps({"text": s}) + "\n" for s in STORIES))


def made(layout: str, folder: Path) -> Path:
    """Two files of a layout, as its users have them: training and validation."""
    folder.mkdir()
    MAKERS[layout](folder)
    return folder


MAKERS: dict[str, Callable[[Path], None]] = {
    "parquet": parquet,
    "npy": npy,
    "llm.c": gpt2_bin,
    "llm.c of llama-3": llama_bin,
    "nanoGPT": nanogpt,
    "text": text,
    "jsonl": jsonl,
}


LAYOUTS = {
    "parquet": ("parquet", 256),
    "npy": ("npy", 50_257),
    "llm.c": ("llm.c", 50_257),
    "llm.c of llama-3": ("llm.c", 128_256),
    "nanoGPT": ("nanoGPT", 65),
    "text": ("text", 256),
    "jsonl": ("jsonl", 256),
}
