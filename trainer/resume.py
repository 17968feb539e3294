"""Going on: what `--resume` says in, a verified checkpoint out, and the model and optimizers as it left them.

`auto` takes the newest that is whole, and passes over damaged ones with a line; a name or a path must be right.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gputel.trainer.checkpoint import Saved, is_resumable, manifest, newest_first, verify
from gputel.trainer.errors import TrainerError
from gputel.trainer.optimizer import Optimizers
from gputel.trainer.parallel import placed


def chosen(resume: str, folder: Path, say: Callable[[str], None]) -> Path | None:
    if resume == "auto":
        return _newest_whole(folder, say)
    checkpoint = folder / resume if resume in ("latest", "best") else Path(resume)
    if not checkpoint.is_dir():
        raise TrainerError(f"--resume {resume}", f"there is no {checkpoint}", "see `checkpoints DIR`")
    _check(checkpoint.resolve())
    return checkpoint.resolve()


def _newest_whole(folder: Path, say: Callable[[str], None]) -> Path | None:
    for checkpoint in newest_first(folder):
        try:
            _check(checkpoint)
        except TrainerError as fault:
            say(f"passed over {checkpoint.name}: {fault}")
        else:
            return checkpoint
    return None


def _check(checkpoint: Path) -> None:
    if not is_resumable(manifest(checkpoint)):
        hint = "resume from a checkpoint that was not pruned"
        raise TrainerError(str(checkpoint), "holds weights only", hint)
    verify(checkpoint)


def same_run(checkpoint: Path, now: dict[str, Any]) -> list[str]:
    """Raise where a checkpoint cannot go on as this model; say what else differs, which may be meant."""
    then = manifest(checkpoint)
    for name, value in now["shape"].items():
        if then["shape"][name] != value:
            fault = f"was trained with {name} {then['shape'][name]}, asked is {value}"
            raise TrainerError(str(checkpoint), fault, f"see --{name}")
    if then["data"] != now["data"]:
        hint = "give the same --data, or start anew in another --out"
        raise TrainerError(str(checkpoint), "was trained on other data (its hash differs)", hint)
    if _without_path(then["tokenizer"]) != _without_path(now["tokenizer"]):
        raise TrainerError(str(checkpoint), "was trained with another tokenizer", "see --tokenizer")
    before, after = then["options"], now["options"]
    meant = [name for name in after if name not in ("out", "resume") and before.get(name) != after[name]]
    return [f"{name}: {before.get(name)} -> {after[name]}" for name in meant]


def _without_path(recipe: dict[str, str] | None) -> dict[str, str]:
    """The same file may lie elsewhere on another machine."""
    return {key: value for key, value in (recipe or {}).items() if key != "path"}


@torch.no_grad()
def restore(checkpoint: Path, model: nn.Module, optimizers: Optimizers) -> None:
    """However many ranks wrote it, and however many there are now."""
    weights, states = Saved(checkpoint, "model"), Saved(checkpoint, "optimizer")
    weight_of = dict(model.named_parameters())
    for name, weight in weight_of.items():
        weight.copy_(placed(weights.whole(name), weight))
    for name in states.parts:
        owner, _, key = name.rpartition("/")
        weight = weight_of[owner]
        optimizers.of(weight).state[weight][key] = placed(states.whole(name), weight).clone()
