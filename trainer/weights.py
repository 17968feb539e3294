"""A trained model from disk: a checkpoint folder or the exported weights file in, text out."""

import pickle
from pathlib import Path
from typing import Any

import torch

from gputel.trainer.checkpoint import manifest, pieces
from gputel.trainer.data.tokenizer import Tokenizer, remade
from gputel.trainer.errors import TrainerError
from gputel.trainer.model import Model
from gputel.trainer.sample import sampled
from gputel.trainer.shape import Shape


def text_from(place: Path, prompt: str, *, tokens: int, temperature: float, seed: int) -> str:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model, tokenizer = loaded(place, device)
    return sampled(
        model,
        tokenizer,
        prompt,
        tokens=tokens,
        seq=model.shape.seq,
        device=device,
        temperature=temperature,
        seed=seed,
    )


def loaded(place: Path, device: torch.device) -> tuple[Model, Tokenizer]:
    held = _from_checkpoint(place) if place.is_dir() else _from_file(place)
    if held["tokenizer"] is None:
        raise TrainerError(
            str(place), "was trained on tokens of an unknown tokenizer", "train with --tokenizer"
        )
    with torch.device("meta"):
        model = Model(Shape(**held["shape"]))
    model.on(device).eval()
    model.load_state_dict(held["weights"])
    return model, remade(held["tokenizer"])


def _from_checkpoint(folder: Path) -> dict[str, Any]:
    about, held = manifest(folder), pieces(folder, "model")
    weights = {name: held.whole(name) for name in held.found}
    return {"shape": about["shape"], "tokenizer": about["tokenizer"], "weights": weights}


def _from_file(path: Path) -> dict[str, Any]:
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as fault:
        raise TrainerError(
            str(path), "is no weights file of this trainer", "give weights.pt or a checkpoint"
        ) from fault
    if not isinstance(held, dict) or {"shape", "tokenizer", "weights"} - set(held):
        raise TrainerError(str(path), "is no weights file of this trainer", "give weights.pt or a checkpoint")
    return held
