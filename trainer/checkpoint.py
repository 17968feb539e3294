"""Checkpoints on disk: a folder each, which exists under its name only when it is whole; and resuming from one.

Every rank writes what it holds of each tensor into `step_000200.part`; rank 0 then writes the manifest with sizes
and hashes and renames the folder. `latest`, `best` and `epoch_k` are links that are replaced in one move. Files are
plain tensors, which torch loads without running code; the metadata of torch.distributed.checkpoint is a pickle.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from gputel.trainer.optim import Optimizer
from gputel.trainer.options import Options
from gputel.trainer.ranks import World, local_rows, placed
from gputel.trainer.say import TrainerError

MANIFEST = "manifest.json"
SCHEMA = 4
HASHED_AT_ONCE = 2**22


class Store:
    """The checkpoints of a run. All ranks call `save` together; it raises RankError on all of them, or on none.
    Rank 0 keeps the tensors that are whole, every rank its rows of those that are sharded."""

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

    def save(self, model: nn.Module, optimizer: Optimizer, about: dict[str, Any]) -> Path:
        final = self.folder / f"step_{about['progress']['step']:06d}"
        part = final.with_suffix(".part")
        self.where.from_main(self.tidy)
        try:
            with self.where.together():
                part.mkdir(exist_ok=True)
                own_files = dict[str, Any]()
                for kind, tensors in _tensors(model, optimizer):
                    held = {
                        name: local_rows(name, tensor, about["shape"]["vocab"])
                        for name, tensor in tensors
                        if isinstance(tensor, DTensor) or self.where.main
                    }
                    if held:
                        name = f"{kind}_{self.where.rank:05d}.pt"
                        with durable(part / name) as file:
                            torch.save(held, file)
                        own_files[name] = _described(part / name)
            files = {name: entry for own in self.where.gather(own_files) for name, entry in own.items()}
            self.where.from_main(lambda: self._publish(part, final, {**about, "files": files}))
        finally:
            if self.where.main:
                shutil.rmtree(part, ignore_errors=True)
        return final

    def mark(self, name: str, checkpoint: Path) -> None:
        """Links a checkpoint, on rank 0 alone. Then only the newest ones stay, and those to which a link points."""
        link = self.folder / f".{name}.link"
        link.unlink(missing_ok=True)
        link.symlink_to(checkpoint.name)
        link.replace(self.folder / name)
        linked = {link.resolve().name for link in self.folder.iterdir() if link.is_symlink()}
        for path in newest_first(self.folder)[self.keep :]:
            if path.name not in linked:
                shutil.rmtree(path, ignore_errors=True)

    def _publish(self, part: Path, final: Path, about: dict[str, Any]) -> None:
        _write_manifest(part, {"schema": SCHEMA, "saved": time.time(), **about})
        old = final.with_suffix(".old")
        if final.exists():
            final.rename(old)
        part.rename(final)
        _sync(self.folder)
        shutil.rmtree(old, ignore_errors=True)
        self.mark("latest", final)


def _write_manifest(folder: Path, about: dict[str, Any]) -> None:
    with durable(folder / MANIFEST) as file:
        file.write(json.dumps(about, indent=1).encode())
    _sync(folder)


def _tensors(model: nn.Module, optimizer: Optimizer) -> list[tuple[str, Iterable[tuple[str, Tensor]]]]:
    return [("model", model.named_parameters()), ("optimizer", optimizer.tensors())]


@torch.no_grad()
def restore(checkpoint: Path, model: nn.Module, optimizer: Optimizer) -> None:
    """However many ranks wrote it, and however many there are now."""
    for kind, tensors in _tensors(model, optimizer):
        own = dict(tensors)
        for name, whole in saved_tensors(checkpoint, kind):
            tensor = own.pop(name)
            tensor.copy_(placed(whole, tensor))
        assert not own, f"{checkpoint} lacks {', '.join(own)}"


def saved_tensors(checkpoint: Path, kind: str) -> Iterator[tuple[str, Tensor]]:
    """One at a time, put together from what all ranks held; files are mapped, not read."""
    names = sorted(name for name in manifest(checkpoint)["files"] if name.startswith(kind))
    files = [torch.load(checkpoint / n, map_location="cpu", weights_only=True, mmap=True) for n in names]
    parts: dict[str, list[Tensor]] = {}
    for name, tensor in (item for file in files for item in file.items()):
        parts.setdefault(name, []).append(tensor)
    for name, held in parts.items():
        yield name, torch.cat(held) if len(held) > 1 else held[0]


def export(checkpoint: Path, target: Path) -> None:
    """One plain file of whole weights, with what is needed to use them."""
    about, fresh = manifest(checkpoint), target.with_suffix(".part")
    weights = dict(saved_tensors(checkpoint, "model"))
    try:
        with durable(fresh) as file:
            torch.save({"shape": about["shape"], "tokenizer": about["tokenizer"], "weights": weights}, file)
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)


def run_folder(options: Options) -> Path:
    """Rank 0's decision. A folder that holds checkpoints is only entered to go on."""
    folder = Path(options.out or f"runs/d{options.depth}")
    if (folder / "checkpoints").exists() and not options.resume:
        hint = "go on with --resume auto, or take another --out"
        raise TrainerError(str(folder), "holds a run already", hint)
    return folder


def resumed_from(resume: str, folder: Path, say: Callable[[str], None]) -> Path | None:
    """What `--resume` means, verified. `auto` takes the newest that is whole, and passes over damaged ones with a
    line; a name or a path must be right."""
    if resume != "auto":
        checkpoint = folder / resume if resume in ("latest", "best") else Path(resume)
        if not checkpoint.is_dir():
            raise TrainerError(f"--resume {resume}", f"there is no {checkpoint}", f"see {folder}")
        verify(checkpoint.resolve())
        return checkpoint.resolve()
    for checkpoint in newest_first(folder):
        try:
            verify(checkpoint)
        except TrainerError as fault:
            say(f"passed over {checkpoint.name}: {fault}")
        else:
            return checkpoint
    return None


def same_run(checkpoint: Path, now: dict[str, Any]) -> list[str]:
    """Raise where a checkpoint cannot go on as this model; say what else differs, which may be meant."""
    then = manifest(checkpoint)
    before, after = then["options"], now["options"]
    kind, was = ({**about["shape"], "optimizer": about["options"]["optimizer"]} for about in (now, then))
    for name in (name for name in kind if was[name] != kind[name]):
        fault = f"was trained with {name} {was[name]}, asked is {kind[name]}"
        raise TrainerError(str(checkpoint), fault, f"see --{name}")
    if then["data"] != now["data"]:
        hint = "give the same --data, or start anew in another --out"
        raise TrainerError(str(checkpoint), "was trained on other data (its hash differs)", hint)
    recipes = [{**(about["tokenizer"] or {}), "path": ""} for about in (then, now)]
    if recipes[0] != recipes[1]:  # the same file may lie elsewhere on another machine
        raise TrainerError(str(checkpoint), "was trained with another tokenizer", "see --tokenizer")
    meant = [name for name in after if name not in ("out", "resume") and before.get(name) != after[name]]
    return [f"{name}: {before.get(name)} -> {after[name]}" for name in meant]


def manifest(checkpoint: Path) -> dict[str, Any]:
    try:
        content = json.loads((checkpoint / MANIFEST).read_text())
    except (OSError, ValueError) as fault:
        raise TrainerError(str(checkpoint), "is no complete checkpoint", "take another one") from fault
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        hint = "start anew in another --out"
        raise TrainerError(str(checkpoint), "is of another version of this trainer", hint)
    if any(Path(name).name != name for name in content["files"]):
        hint = "do not use it: this trainer writes no such checkpoint"
        raise TrainerError(str(checkpoint), "names files outside of its own folder", hint)
    return content


def verify(checkpoint: Path) -> None:
    """Every file is there, as long as it was, and holds the same bytes."""
    for name, entry in manifest(checkpoint)["files"].items():
        path = checkpoint / name
        if not path.is_file() or path.stat().st_size != entry["bytes"] or _described(path) != entry:
            raise TrainerError(str(path), "is not what was saved", "resume from another checkpoint")


def newest_first(folder: Path) -> list[Path]:
    """Sorted by when they were saved: after a resume from an earlier one the highest step is not the newest."""
    saved = dict[Path, float]()
    for path in folder.glob("step_*"):
        with suppress(TrainerError):  # one that is not whole
            if not path.suffix:
                saved[path] = manifest(path)["saved"]
    return sorted(saved, key=lambda path: -saved[path])


@contextmanager
def durable(path: Path) -> Iterator[IO[bytes]]:
    """A file that is on the disk at the end of the block. A full disk is an OSError that names it: torch says
    `unexpected pos 960 vs 854`, and tells nothing of the disk where it opens the file itself."""
    try:
        with path.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except (OSError, RuntimeError) as fault:
        cause: BaseException | None = fault
        while cause and not isinstance(cause, OSError):
            cause = cause.__context__
        if not isinstance(cause, OSError):
            raise
        raise OSError(cause.errno, cause.strerror, str(path)) from fault


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _described(path: Path) -> dict[str, Any]:
    digest = hashlib.blake2b(digest_size=20)
    with path.open("rb") as file:
        while block := file.read(HASHED_AT_ONCE):
            digest.update(block)
        return {"bytes": file.tell(), "blake2b": digest.hexdigest()}
