"""What the trainer's model keeps for the backward pass: numbers per token, layer and width, and bytes per logit.

Counted by torch's hooks for saved tensors on a CPU under bf16 autocast, as it is and compiled; `gputel plan`
reckons activations and logits by these. `python benchmarks/kept.py`
"""

from __future__ import annotations

import argparse
import json
import platform
from datetime import date
from pathlib import Path
from typing import Any

import torch

from gputel.trainer.model import Model
from gputel.trainer.shape import shape_of

WIDTH, SEQ, BATCH, NUMBER_BYTES = 256, 256, 5, 2  # no tensor of tokens is as large as a weight
TOKENS = SEQ * BATCH
SMALL_VOCAB, LARGE_VOCAB = 32, 8192
RESULT = Path(__file__).parent / "results" / "kept.json"


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--out", type=Path, default=RESULT)
    out = words.parse_args().out
    found = {
        "date": str(date.today()),
        "machine": {"torch": torch.__version__, "python": platform.python_version()},
        "width": WIDTH,
        "tokens": TOKENS,
        "eager": figures(compiled=False),
        "compiled": figures(compiled=True),
    }
    out.write_text(json.dumps(found, indent=2) + "\n")
    print(out.read_text(), end="")


def figures(*, compiled: bool) -> dict[str, float]:
    """Per layer, by the difference of two depths; per logit, by that of two vocabularies."""
    layer = kept(2, SMALL_VOCAB, compiled) - kept(1, SMALL_VOCAB, compiled)
    logits = kept(1, LARGE_VOCAB, compiled) - kept(1, SMALL_VOCAB, compiled)
    return {
        "numbers_per_token_layer_and_width": round(layer / (NUMBER_BYTES * TOKENS * WIDTH), 2),
        "bytes_per_logit": round(logits / (TOKENS * (LARGE_VOCAB - SMALL_VOCAB)), 2),
    }


def kept(depth: int, vocab: int, compiled: bool) -> int:
    """Bytes of all tensors that a forward pass leaves behind, but for weights and their copies in 16 bits."""
    model = Model(shape_of(depth, vocab=vocab, seq=SEQ, dim=WIDTH))
    model.initialise(0)
    weights = {tuple(sorted(weight.shape)) for weight in model.parameters()}
    seen: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        if tuple(sorted(tensor.shape)) not in weights:
            storage = tensor.untyped_storage()
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    run: Any = torch.compile(model, dynamic=False) if compiled else model
    ids = torch.randint(vocab, (BATCH, SEQ))
    with (
        torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor),
        torch.autocast("cpu", dtype=torch.bfloat16),
    ):
        loss = run(ids, ids)
    assert loss.isfinite()
    return sum(seen.values())


if __name__ == "__main__":
    main()
