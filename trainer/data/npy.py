"""Shards of tokens as numpy wrote them (edufineweb_train_000001.npy): one dimension, uint16 or wider."""

from pathlib import Path

import numpy as np

from gputel.trainer.data.layout import Layout
from gputel.trainer.data.shard import Shard

MAGIC = b"\x93NUMPY"
GPT2_VOCAB = 50_257


def shard(path: Path) -> Shard:
    return Shard(str(path), lambda: np.load(path, mmap_mode="r", allow_pickle=False))


def fault(path: Path) -> str | None:
    try:
        tokens = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        return f"cannot be read: {str(error).splitlines()[0]}"
    if tokens.ndim != 1 or tokens.dtype.kind not in "ui":
        return f"holds {tokens.ndim} dimensions of {tokens.dtype}, expected one of unsigned integers"
    return None


NPY = Layout(
    "npy", (".npy",), lambda head: head.startswith(MAGIC), fault, shard=shard, vocab=lambda _: GPT2_VOCAB
)
