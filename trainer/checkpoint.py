"""Checkpoints on disk: a folder each, which exists under its name only when it is whole.

Every rank writes its pieces into `step_000200.part`; rank 0 then writes the manifest with sizes and hashes
and renames the folder. `latest`, `best` and `epoch_k` are links that are replaced in one move.
"""

import hashlib
import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gputel.trainer.distributed import World
from gputel.trainer.errors import TrainerError
from gputel.trainer.optimizer import Optimizers
from gputel.trainer.pieces import Pieces, mine, states_of, weights_of

MANIFEST, VALIDATION = "manifest.json", "validation.json"
SCHEMA = 1
HASHED_AT_ONCE = 2**22


class Store:
    """The checkpoints of a run. All ranks call `save` together; it raises OSError on all of them, or on none."""

    def __init__(self, folder: Path, where: World, *, keep: int) -> None:
        self.folder, self.where, self.keep = folder, where, keep

    def tidy(self) -> None:
        """What a killed save left: half a folder goes, an old one whose successor never came returns."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for old in self.folder.glob("step_*.old"):
            if old.with_suffix("").exists():
                shutil.rmtree(old, ignore_errors=True)
            else:
                old.rename(old.with_suffix(""))
        for part in self.folder.glob("step_*.part"):
            shutil.rmtree(part, ignore_errors=True)

    def save(self, model: nn.Module, optimizers: Optimizers, about: dict[str, Any]) -> Path:
        final = self.path(about["progress"]["step"])
        part = final.with_suffix(".part")
        self.where.from_main(lambda: _fresh(part))
        files = self._written(part, model, optimizers)
        self.where.from_main(lambda: self._publish(part, final, {**about, "files": files}))
        return final

    def path(self, step: int) -> Path:
        return self.folder / f"step_{step:06d}"

    def mark(self, name: str, checkpoint: Path) -> None:
        if self.where.main:
            link = self.folder / f".{name}.link"
            link.unlink(missing_ok=True)
            link.symlink_to(checkpoint.name)
            link.replace(self.folder / name)
            self._roll()

    def note_validation(self, checkpoint: Path, figures: dict[str, float | None]) -> None:
        if self.where.main and checkpoint.is_dir():
            _write(checkpoint / VALIDATION, json.dumps(figures))

    def _written(self, part: Path, model: nn.Module, optimizers: Optimizers) -> dict[str, Any]:
        """This rank's files; a fault of one rank is a fault of all, and leaves nothing behind."""
        rank = self.where.rank
        contents = {
            f"model_{rank:05d}.pt": mine(weights_of(model), self.where),
            f"optimizer_{rank:05d}.pt": mine(states_of(model, optimizers), self.where),
        }
        fault, files = None, {}
        try:
            for name, pieces in contents.items():
                if pieces:
                    files[name] = _written(part / name, pieces)
        except (OSError, RuntimeError) as error:  # torch tells of a full disk by a RuntimeError
            fault = f"{part.name}: {error}".splitlines()[0]
        try:
            self.where.agree(fault)
        except OSError:
            if self.where.main:
                shutil.rmtree(part, ignore_errors=True)
            raise
        return {name: entry for said in self.where.gather(files) for name, entry in said.items()}

    def _publish(self, part: Path, final: Path, about: dict[str, Any]) -> None:
        try:
            _write(part / MANIFEST, json.dumps({"schema": SCHEMA, "saved": time.time(), **about}, indent=1))
            _synced(part)
            old = final.with_suffix(".old")
            if final.exists():
                final.rename(old)
            part.rename(final)
            _synced(self.folder)
            shutil.rmtree(old, ignore_errors=True)
            self.mark("latest", final)
        except OSError:
            shutil.rmtree(part, ignore_errors=True)
            raise

    def _roll(self) -> None:
        """Only the newest stay; what a link points to stays as well."""
        linked = {link.resolve().name for link in self.folder.iterdir() if link.is_symlink()}
        for path in newest_first(self.folder)[self.keep :]:
            if path.name not in linked:
                shutil.rmtree(path, ignore_errors=True)


@dataclass(frozen=True)
class Listed:
    """A row of `checkpoints DIR`."""

    name: str
    step: int | None
    links: list[str]
    val_loss: float | None
    saved: float | None
    size: int
    state: str


def manifest(checkpoint: Path) -> dict[str, Any]:
    try:
        found = json.loads((checkpoint / MANIFEST).read_text())
    except (OSError, ValueError) as fault:
        raise TrainerError(str(checkpoint), "is no complete checkpoint", "see `checkpoints DIR`") from fault
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise TrainerError(str(checkpoint), "is of another version of this trainer", "see `checkpoints DIR`")
    return found


def verify(checkpoint: Path) -> None:
    """Every file is there, as long as it was, and holds the same bytes."""
    for name, entry in manifest(checkpoint)["files"].items():
        path = checkpoint / name
        if not path.is_file() or path.stat().st_size != entry["bytes"] or _hash(path) != entry["blake2b"]:
            raise TrainerError(str(path), "is not what was saved", "resume from another checkpoint")


def pieces(checkpoint: Path, kind: str) -> Pieces:
    return Pieces(checkpoint / name for name in manifest(checkpoint)["files"] if name.startswith(kind))


def newest_first(folder: Path) -> list[Path]:
    """By when they were saved: after a resume from an earlier one the highest step is not the newest."""
    found = [p for p in folder.glob("step_*") if p.is_dir() and not p.suffix and (p / MANIFEST).is_file()]
    return sorted(found, key=lambda p: (p / MANIFEST).stat().st_mtime_ns, reverse=True)


def listed(folder: Path) -> list[Listed]:
    links: dict[str, list[str]] = {}
    for link in sorted(folder.iterdir()):
        if link.is_symlink():
            links.setdefault(link.readlink().name, []).append(link.name)
    found = sorted(p for p in folder.glob("step_*") if p.is_dir() and not p.is_symlink())
    return [_listed(path, links.get(path.name, [])) for path in found]


def prune(folder: Path) -> int:
    """Leave weights only; how many bytes that freed. Manifests first, so that nothing is listed that is gone."""
    freed = 0
    for row in listed(folder):
        if row.state != "complete":
            continue
        path = folder / row.name
        about = manifest(path)
        gone = [name for name in about["files"] if name.startswith("optimizer")]
        about["files"] = {name: entry for name, entry in about["files"].items() if name not in gone}
        _write(path / MANIFEST, json.dumps(about, indent=1))
        for name in gone:
            freed += (path / name).stat().st_size
            (path / name).unlink()
    return freed


def export(checkpoint: Path, target: Path) -> None:
    """One plain file of whole weights, with what is needed to use them."""
    about, held = manifest(checkpoint), pieces(checkpoint, "model")
    whole = {name: held.whole(name) for name in held.found}
    fresh = target.with_suffix(".part")
    try:
        torch.save({"shape": about["shape"], "tokenizer": about["tokenizer"], "weights": whole}, fresh)
        fresh.replace(target)
    except (OSError, RuntimeError) as fault:
        fresh.unlink(missing_ok=True)
        raise OSError(f"{target.name}: {fault}".splitlines()[0]) from fault


def is_resumable(checkpoint: Path) -> bool:
    return any(name.startswith("optimizer") for name in manifest(checkpoint)["files"])


def _listed(path: Path, links: list[str]) -> Listed:
    size = sum(p.stat().st_size for p in path.iterdir())
    if path.suffix:
        return Listed(path.name, None, links, None, None, size, "incomplete")
    try:
        about = manifest(path)
        missing = [n for n, e in about["files"].items() if not _has_size(path / n, e["bytes"])]
    except TrainerError:
        return Listed(path.name, None, links, None, None, size, "incomplete")
    figures = json.loads((path / VALIDATION).read_text()) if (path / VALIDATION).exists() else {}
    state = "incomplete" if missing else "complete" if is_resumable(path) else "weights only"
    return Listed(
        path.name, about["progress"]["step"], links, figures.get("val_loss"), about["saved"], size, state
    )


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _fresh(part: Path) -> None:
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)


def _written(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    with path.open("wb") as file:
        torch.save(content, file)
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": path.stat().st_size, "blake2b": _hash(path)}


def _hash(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=20)
    with path.open("rb") as file:
        while block := file.read(HASHED_AT_ONCE):
            digest.update(block)
    return digest.hexdigest()


def _write(path: Path, text: str) -> None:
    fresh = path.with_name(path.name + ".part")
    with fresh.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _synced(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
