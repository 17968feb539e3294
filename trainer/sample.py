"""Text from a model, on its way or from disk: a prompt in, the prompt and what follows out.

The same seed writes the same text.
"""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gputel.trainer.checkpoint import Saved, manifest
from gputel.trainer.data.tokenizer import Tokenizer, remade
from gputel.trainer.errors import TrainerError
from gputel.trainer.model import Model
from gputel.trainer.parallel import placed
from gputel.trainer.shape import Shape

TOP_K = 50


def text_from(place: Path, prompt: str, *, tokens: int, temperature: float, seed: int) -> str:
    """With a checkpoint folder or the exported weights file."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    content = _from_checkpoint(place) if place.is_dir() else _from_file(place)
    if content["tokenizer"] is None:
        fault = "was trained on tokens of an unknown tokenizer"
        raise TrainerError(str(place), fault, "train with --tokenizer")
    with torch.device("meta"):
        model = Model(Shape(**content["shape"]))
    model.on(device).eval()
    weights = content["weights"].items()
    model.load_state_dict({name: placed(weight, model.get_parameter(name)) for name, weight in weights})
    tokenizer, seq = remade(content["tokenizer"]), model.shape.seq
    return sampled(model, tokenizer, prompt, tokens, seq, device, temperature=temperature, seed=seed)


@torch.no_grad()
def sampled(
    model: Callable[[Tensor], Tensor],
    tokenizer: Tokenizer,
    prompt: str,
    tokens: int,
    seq: int,
    device: torch.device,
    *,
    temperature: float = 0.8,
    seed: int = 0,
) -> str:
    """Run by all ranks alike where the model is sharded; eager, for a compiled one would be made anew by length."""
    dice = torch.Generator().manual_seed(seed)
    ids = [int(i) for i in tokenizer.encode([prompt])[0]] or list(tokenizer.separator) or [0]
    with torch.compiler.set_stance("force_eager"):
        for _ in range(tokens):
            logits = model(torch.tensor([ids[-seq:]], device=device))[0, : tokenizer.vocab]
            ids.append(_picked(logits.float().cpu(), temperature, dice))
    return tokenizer.decode(ids)


def _picked(logits: Tensor, temperature: float, dice: torch.Generator) -> int:
    if temperature == 0:
        return int(logits.argmax())
    best = torch.topk(logits, min(TOP_K, len(logits)))
    chances = torch.softmax(best.values / temperature, -1)
    return int(best.indices[torch.multinomial(chances, 1, generator=dice)])


def _from_checkpoint(folder: Path) -> dict[str, Any]:
    return {**manifest(folder), "weights": Saved(folder, "model").all()}


def _from_file(path: Path) -> dict[str, Any]:
    error = TrainerError(str(path), "is no weights file of this trainer", "give weights.pt or a checkpoint")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as fault:
        raise error from fault
    if not isinstance(content, dict) or {"shape", "tokenizer", "weights"} - set(content):
        raise error
    return content
