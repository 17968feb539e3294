"""Which checkpoint a run goes on from: what `--resume` says in, a verified checkpoint or None out.

`auto` takes the newest that is whole, and passes over damaged ones with a line; a name or a path must be right.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gputel.trainer.checkpoint import is_resumable, manifest, newest_first, verify
from gputel.trainer.errors import TrainerError


def chosen(resume: str, folder: Path, say: Callable[[str], None]) -> Path | None:
    if resume == "auto":
        return _newest_whole(folder, say)
    checkpoint = folder / resume if resume in ("latest", "best") else Path(resume)
    if not checkpoint.is_dir():
        raise TrainerError(f"--resume {resume}", f"there is no {checkpoint}", "see `checkpoints DIR`")
    checkpoint = checkpoint.resolve()
    _check(checkpoint)
    return checkpoint


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
    if not is_resumable(checkpoint):
        raise TrainerError(
            str(checkpoint), "holds weights only", "resume from a checkpoint that was not pruned"
        )
    verify(checkpoint)


def same_run(checkpoint: Path, now: dict[str, Any]) -> list[str]:
    """Raise where a checkpoint cannot go on as this model; say what else differs, which may be meant."""
    then = manifest(checkpoint)
    for name, value in now["shape"].items():
        if then["shape"][name] != value:
            raise TrainerError(
                str(checkpoint),
                f"was trained with {name} {then['shape'][name]}, asked is {value}",
                f"see --{name}",
            )
    if then["data"] != now["data"]:
        raise TrainerError(
            str(checkpoint),
            "was trained on other data (its hash differs)",
            "give the same --data, or start anew in another --out",
        )
    if _without_path(then["tokenizer"]) != _without_path(now["tokenizer"]):
        raise TrainerError(str(checkpoint), "was trained with another tokenizer", "see --tokenizer")
    before, after = then["options"], now["options"]
    return [
        f"{name}: {before.get(name)} -> {after[name]}" for name in after if before.get(name) != after[name]
    ]


def _without_path(recipe: dict[str, str] | None) -> dict[str, str]:
    """The same file may lie elsewhere on another machine."""
    return {key: value for key, value in (recipe or {}).items() if key != "path"}
