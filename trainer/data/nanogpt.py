"""nanoGPT's train.bin and val.bin: uint16 tokens and nothing else, the vocabulary in a meta.pkl beside them.

The pickle is read by an unpickler that knows no classes: dictionaries, words and numbers come out, code
does not run.
"""

import pickle
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from gputel.trainer.data.layout import Layout
from gputel.trainer.data.shard import Shard, mapped
from gputel.trainer.data.tokenizer import Tokenizer, remade
from gputel.trainer.errors import TrainerError

GPT2_VOCAB = 50_257


def shard(path: Path) -> Shard:
    return mapped(path, "<u2", count=path.stat().st_size // 2)


def fault(path: Path) -> str | None:
    return (
        "has an odd number of bytes, and its tokens are two each; was it cut?"
        if path.stat().st_size % 2
        else None
    )


def vocab(path: Path) -> int:
    meta = _meta(path.parent / "meta.pkl")
    return int(meta.get("vocab_size") or GPT2_VOCAB)


def tokenizer(folder: Path) -> Tokenizer | None:
    """The characters of meta.pkl, if their ids are those of a plain alphabet."""
    itos = _meta(folder / "meta.pkl").get("itos")
    if not isinstance(itos, dict) or sorted(itos) != list(range(len(itos))):
        return None
    return remade({"kind": "chars", "characters": "".join(itos[i] for i in range(len(itos)))})


def _meta(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        with path.open("rb") as file:
            meta = _Plain(file).load()
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError, KeyError) as fault:
        raise TrainerError(
            str(path), f"is no plain dictionary ({fault})", "give --vocab and remove it"
        ) from fault
    return meta if isinstance(meta, dict) else {}


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it wants to run {module}.{name}")


def recognizes(head: bytes) -> bool:
    return b"\0" in head or (len(np.unique(np.frombuffer(head, np.uint8))) > 128)


NANOGPT = Layout("nanoGPT", (".bin",), recognizes, fault, shard=shard, vocab=vocab)
