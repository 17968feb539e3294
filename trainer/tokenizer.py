"""Text to token ids and back: bytes, the characters that a nanoGPT corpus lists, or a local tokenizers file.

A tokenizer also knows how many bytes each of its tokens stands for, which is what bits per byte need. What was
tokenized is kept in a cache that every run on this machine shares.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gputel.trainer.say import LeftOut, TrainerError, optional

Ids = NDArray[np.integer[Any]]

UNKNOWN = "\N{REPLACEMENT CHARACTER}"
DOCUMENTS_AT_ONCE = 256
SPECIALS = ("<|bos|>", "<|endoftext|>", "<|begin_of_text|>", "<s>")


@dataclass(frozen=True)
class Tokenizer:
    """`separator` comes before every document; `recipe` is what a checkpoint keeps to make it again."""

    recipe: dict[str, str]
    vocab: int
    encode: Callable[[list[str]], list[Ids]]
    decode: Callable[[list[int]], str]
    byte_lengths: NDArray[np.int64]
    separator: tuple[int, ...] = ()

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.uint8 if self.vocab <= 2**8 else np.uint16 if self.vocab <= 2**16 else np.uint32)

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(repr(sorted(self.recipe.items())).encode()).hexdigest()[:16]


def tokenized(
    paths: list[Path],
    read: Callable[[list[Path]], Iterator[str]],
    tokenizer: Tokenizer,
    left_out: LeftOut | None = None,
) -> Ids:
    """The tokens of these files. The first rank of a machine tokenizes, the others wait for it at a lock. Where the
    cache cannot be written the tokens stay in memory; and where something was left out, so that every run notes
    it."""
    described = [(str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns) for p in paths]
    key = hashlib.sha256(repr((tokenizer.fingerprint, described)).encode()).hexdigest()[:32]
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gputel" / "tokens"
    kept, fresh = home / f"{key}.bin", home / f"{key}.{os.getpid()}.part"
    try:
        home.mkdir(parents=True, exist_ok=True)
        with (home / f"{key}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                ids = _encoded(read(paths), tokenizer)
                if any(place.startswith(str(path)) for place in left_out or () for path in paths):
                    return ids
                ids.tofile(fresh)
                fresh.rename(kept)
        empty = np.zeros(0, tokenizer.dtype)
        return np.memmap(kept, tokenizer.dtype, mode="r") if kept.stat().st_size else empty
    except OSError:
        fresh.unlink(missing_ok=True)
        return _encoded(read(paths), tokenizer)


def _encoded(texts: Iterator[str], tokenizer: Tokenizer) -> Ids:
    parts: list[Ids] = [np.zeros(0, tokenizer.dtype)]
    between = np.array(tokenizer.separator, tokenizer.dtype)
    while batch := list(islice(texts, DOCUMENTS_AT_ONCE)):
        for ids in tokenizer.encode(batch):
            parts += [between, ids.astype(tokenizer.dtype)]
    return np.concatenate(parts)


def tokenizer_from(name: str) -> Tokenizer:
    """`bytes`, or a file of the package tokenizers."""
    if name == "bytes":
        return remade({"kind": "bytes"})
    path = Path(name)
    if not path.is_file():
        raise TrainerError(f"--tokenizer {name}", "is no file", "give bytes or a tokenizer.json")
    return remade({"kind": "tokenizers", "path": str(path.resolve()), "sha256": _hash(path)})


def remade(recipe: dict[str, str]) -> Tokenizer:
    """The tokenizer of a checkpoint; its file must still be the one with which the run was trained."""
    path = Path(recipe["path"]) if "path" in recipe else None
    if path and not (path.is_file() and _hash(path) == recipe["sha256"]):
        raise TrainerError(str(path), "is not the tokenizer of this run any more", "restore the file")
    return MAKERS[recipe["kind"]](recipe)


def _bytes(recipe: dict[str, str]) -> Tokenizer:
    return Tokenizer(
        recipe,
        vocab=256,
        encode=lambda texts: [np.frombuffer(t.encode("utf-8", "surrogateescape"), np.uint8) for t in texts],
        decode=lambda ids: bytes(i for i in ids if i < 256).decode("utf-8", "replace"),
        byte_lengths=np.ones(256, np.int64),
        separator=tuple(b"\n"),
    )


def _chars(recipe: dict[str, str]) -> Tokenizer:
    """An id is a place in the alphabet; what the alphabet lacks is id 0."""
    characters = recipe["characters"]
    number = {character: i for i, character in enumerate(characters)}
    lengths = [len(character.encode("utf-8", "surrogateescape")) for character in characters]
    return Tokenizer(
        recipe,
        vocab=len(characters),
        encode=lambda texts: [np.array([number.get(c, 0) for c in text], np.uint32) for text in texts],
        decode=lambda ids: "".join(characters[i] if i < len(characters) else UNKNOWN for i in ids),
        byte_lengths=np.array(lengths, np.int64),
        separator=(number["\n"],) if "\n" in number else (),
    )


def _tokenizers(recipe: dict[str, str]) -> Tokenizer:
    """Special tokens stand for no text. Between two known tokens a piece decodes to itself, also with its space; in
    a byte-level vocabulary every character of a piece is one byte."""
    module = optional("tokenizers", "tokenizers", f"--tokenizer {recipe['path']}")
    try:
        made = module.Tokenizer.from_file(recipe["path"])
    except Exception as fault:  # the package raises bare Exception for a file that it cannot read
        raise TrainerError(recipe["path"], f"is no tokenizers file: {fault}") from fault

    def encode(texts: list[str]) -> list[Ids]:
        encoded = made.encode_batch_fast(texts, add_special_tokens=False)
        return [np.array(text.ids, np.uint32) for text in encoded]

    special = {i for i, token in made.get_added_tokens_decoder().items() if token.special}
    byte_level = "ByteLevel" in made.to_str()
    lengths = np.zeros(made.get_vocab_size(), np.int64)
    for i in {*range(len(lengths))} - special:
        if piece := made.id_to_token(i):
            lengths[i] = len(piece) if byte_level else len(piece.replace("▁", " ").encode())
    separator = next(((i,) for i in map(made.token_to_id, SPECIALS) if i is not None), ())
    return Tokenizer(recipe, len(lengths), encode, made.decode, lengths, separator)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


MAKERS = {"bytes": _bytes, "chars": _chars, "tokenizers": _tokenizers}
