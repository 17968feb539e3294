"""Checkpoints on disk: a folder each, which exists under its name only when it is whole.

Every rank writes what it holds of each tensor into `step_000200.part`; rank 0 then writes the manifest with sizes
and hashes and renames the folder. `latest`, `best` and `epoch_k` are links that are replaced in one move. Files are
plain tensors, which torch loads without running code; the metadata of torch.distributed.checkpoint is a pickle.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from gputel.trainer.distributed import World
from gputel.trainer.errors import TrainerError
from gputel.trainer.optimizer import Optimizers
from gputel.trainer.parallel import local_rows

MANIFEST = "manifest.json"
SCHEMA = 2
HASHED_AT_ONCE = 2**22


class Store:
    """The checkpoints of a run. All ranks call `save` together; it raises RankError on all of them, or on none."""

    def __init__(self, folder: Path, where: World, *, keep: int) -> None:
        self.folder, self.where, self.keep = folder, where, keep

    def tidy(self) -> None:
        """What a killed save left: half a folder goes, an old one whose successor never came returns."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for old in self.folder.glob("step_*.old"):
            if not old.with_suffix("").exists():
                old.rename(old.with_suffix(""))
        for left in (*self.folder.glob("step_*.part"), *self.folder.glob("step_*.old")):
            shutil.rmtree(left, ignore_errors=True)

    def path(self, step: int) -> Path:
        return self.folder / f"step_{step:06d}"

    def save(self, model: nn.Module, optimizers: Optimizers, about: dict[str, Any]) -> Path:
        final = self.path(about["progress"]["step"])
        part = final.with_suffix(".part")
        contents = {"model": model.named_parameters(), "optimizer": states(model, optimizers)}
        self.where.from_main(lambda: _fresh(part))
        files: dict[str, Any] = {}
        try:
            with self.where.together():
                for kind, tensors in contents.items():
                    if own_parts := self._local(tensors, about["shape"]["vocab"]):
                        name = f"{kind}_{self.where.rank:05d}.pt"
                        files[name] = _written(part / name, own_parts)
            all_files = {
                name: entry for entries in self.where.gather(files) for name, entry in entries.items()
            }
            self.where.from_main(lambda: self._publish(part, final, {**about, "files": all_files}))
        finally:
            if self.where.main:
                shutil.rmtree(part, ignore_errors=True)
        return final

    def mark(self, name: str, checkpoint: Path) -> None:
        """For rank 0 alone, as the next."""
        link = self.folder / f".{name}.link"
        link.unlink(missing_ok=True)
        link.symlink_to(checkpoint.name)
        link.replace(self.folder / name)
        self._roll()

    def note_validation(self, checkpoint: Path, val_loss: float) -> None:
        _write_manifest(checkpoint, {**manifest(checkpoint), "val_loss": val_loss})

    def _local(self, tensors: Iterable[tuple[str, Tensor]], vocab: int) -> dict[str, Tensor]:
        """This rank's rows of sharded tensors, in the order of ranks; rank 0 keeps the tensors that are whole."""
        return {
            name: local_rows(name, tensor, vocab)
            for name, tensor in tensors
            if isinstance(tensor, DTensor) or self.where.main
        }

    def _publish(self, part: Path, final: Path, about: dict[str, Any]) -> None:
        _write_manifest(part, {"schema": SCHEMA, "saved": time.time(), "val_loss": None, **about})
        old = final.with_suffix(".old")
        if final.exists():
            final.rename(old)
        part.rename(final)
        _sync(self.folder)
        shutil.rmtree(old, ignore_errors=True)
        self.mark("latest", final)

    def _roll(self) -> None:
        """Only the newest stay; what a link points to stays as well."""
        linked = {link.resolve().name for link in self.folder.iterdir() if link.is_symlink()}
        for path in newest_first(self.folder)[self.keep :]:
            if path.name not in linked:
                shutil.rmtree(path, ignore_errors=True)


def states(model: nn.Module, optimizers: Optimizers) -> Iterator[tuple[str, Tensor]]:
    """What the optimizers remember of each weight, as `weight/part`."""
    for name, weight in model.named_parameters():
        for key, value in optimizers.of(weight).state.get(weight, {}).items():
            yield f"{name}/{key}", value


class Saved:
    """The tensors of a checkpoint, mapped rather than read, and put together from what all ranks held."""

    def __init__(self, checkpoint: Path, kind: str) -> None:
        names = sorted(name for name in manifest(checkpoint)["files"] if name.startswith(kind))
        files = [torch.load(checkpoint / n, map_location="cpu", weights_only=True, mmap=True) for n in names]
        self.parts: dict[str, list[Tensor]] = {}
        for name, tensor in (item for file in files for item in file.items()):
            self.parts.setdefault(name, []).append(tensor)

    def whole(self, name: str) -> Tensor:
        first, *more = self.parts[name]
        return torch.cat([first, *more]) if more else first

    def all(self) -> dict[str, Tensor]:
        return {name: self.whole(name) for name in self.parts}


def manifest(checkpoint: Path) -> dict[str, Any]:
    try:
        content = json.loads((checkpoint / MANIFEST).read_text())
    except (OSError, ValueError) as fault:
        raise TrainerError(str(checkpoint), "is no complete checkpoint", "see `checkpoints DIR`") from fault
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise TrainerError(str(checkpoint), "is of another version of this trainer", "see `checkpoints DIR`")
    if any(Path(name).name != name for name in content["files"]):
        hint = "do not use it: this trainer writes no such checkpoint"
        raise TrainerError(str(checkpoint), "names files outside of its own folder", hint)
    return content


def verify(checkpoint: Path) -> None:
    """Every file is there, as long as it was, and holds the same bytes."""
    for name, entry in manifest(checkpoint)["files"].items():
        path = checkpoint / name
        if not _has_size(path, entry["bytes"]) or _hash(path) != entry["blake2b"]:
            raise TrainerError(str(path), "is not what was saved", "resume from another checkpoint")


def is_resumable(about: dict[str, Any]) -> bool:
    return any(name.startswith("optimizer") for name in about["files"])


def newest_first(folder: Path) -> list[Path]:
    """By when they were saved: after a resume from an earlier one the highest step is not the newest."""
    whole = (Listed.of(path) for path in folder.glob("step_*") if path.is_dir() and not path.suffix)
    return [folder / row.name for row in sorted(whole, key=lambda row: -(row.saved or 0)) if row.saved]


@dataclass(frozen=True)
class Listed:
    """A row of `checkpoints DIR`."""

    name: str
    size: int
    state: str = "incomplete"
    step: int | None = None
    val_loss: float | None = None
    saved: float | None = None

    @classmethod
    def of(cls, path: Path) -> "Listed":
        size = sum(p.stat().st_size for p in path.iterdir())
        try:
            about = manifest(path)
        except TrainerError:
            return cls(path.name, size)
        whole = all(_has_size(path / name, entry["bytes"]) for name, entry in about["files"].items())
        state = "complete" if is_resumable(about) else "weights only"
        facts = about["progress"]["step"], about["val_loss"], about["saved"]
        return cls(path.name, size, state if whole and not path.suffix else "incomplete", *facts)


def listed(folder: Path) -> list[tuple[Listed, list[str]]]:
    """Every checkpoint with the names of the links to it."""
    links: dict[str, list[str]] = {}
    for link in sorted(p for p in folder.iterdir() if p.is_symlink()):
        links.setdefault(link.readlink().name, []).append(link.name)
    rows = []
    for path in sorted(p for p in folder.glob("step_*") if p.is_dir()):
        with suppress(FileNotFoundError):  # a run that goes on moves and removes them
            rows.append((Listed.of(path), links.get(path.name, [])))
    return rows


def prune(folder: Path) -> int:
    """Leave weights only; how many bytes that freed. Manifests first, so that nothing is listed that is gone."""
    freed = 0
    for row, _ in listed(folder):
        if row.state == "complete":
            path = folder / row.name
            about = manifest(path)
            gone = [name for name in about["files"] if name.startswith("optimizer")]
            freed += sum(about["files"].pop(name)["bytes"] for name in gone)
            _write_manifest(path, about)
            for name in gone:
                (path / name).unlink()
    return freed


def export(checkpoint: Path, target: Path) -> None:
    """One plain file of whole weights, with what is needed to use them."""
    about, fresh = manifest(checkpoint), target.with_suffix(".part")
    content = {name: about[name] for name in ("shape", "tokenizer")}
    try:
        write_tensors(fresh, {**content, "weights": Saved(checkpoint, "model").all()})
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)


def _fresh(part: Path) -> None:
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)


def _written(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    write_tensors(path, content)
    _sync(path)
    return {"bytes": path.stat().st_size, "blake2b": _hash(path)}


def write_tensors(path: Path, content: dict[str, Any]) -> None:
    """As torch writes them, but a full disk is an OSError that names the file: torch says `unexpected pos 960 vs
    854`, and tells nothing of the disk where it opens the file itself."""
    try:
        with path.open("wb") as file:
            torch.save(content, file)
    except (OSError, RuntimeError) as fault:
        cause = next((error for error in _chain(fault) if isinstance(error, OSError)), None)
        if cause is None:
            raise
        raise OSError(cause.errno, cause.strerror, str(path)) from fault


def _chain(fault: BaseException | None) -> Iterator[BaseException]:
    while fault:
        yield fault
        fault = fault.__context__


def _write_manifest(folder: Path, about: dict[str, Any]) -> None:
    fresh = folder / f"{MANIFEST}.part"
    fresh.write_text(json.dumps(about, indent=1))
    _sync(fresh)
    fresh.replace(folder / MANIFEST)
    _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as fault:
        raise OSError(fault.errno, fault.strerror, str(path)) from fault
    finally:
        os.close(handle)


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _hash(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=20)
    with path.open("rb") as file:
        while block := file.read(HASHED_AT_ONCE):
            digest.update(block)
    return digest.hexdigest()
