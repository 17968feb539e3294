"""Text from a model: a prompt in, the prompt and what follows out. The same seed writes the same text."""

import torch
from torch import nn

from gputel.trainer.data.tokenizer import Tokenizer


@torch.no_grad()
def sampled(
    engine: nn.Module,
    tokenizer: Tokenizer,
    prompt: str,
    *,
    tokens: int,
    seq: int,
    device: torch.device,
    temperature: float = 0.8,
    top_k: int = 50,
    seed: int = 0,
) -> str:
    """Run by all ranks alike where the model is sharded. Eager: a compiled model would be made anew for
    each length."""
    dice = torch.Generator().manual_seed(seed)
    ids = [int(i) for i in tokenizer.encode([prompt])[0]] or list(tokenizer.separator) or [0]
    with torch.compiler.set_stance("force_eager"):
        for _ in range(tokens):
            window = torch.tensor([ids[-seq:]], device=device)
            ids.append(
                _picked(engine(window)[0].float().cpu(), temperature, min(top_k, tokenizer.vocab), dice)
            )
    return tokenizer.decode(ids)


def _picked(logits: torch.Tensor, temperature: float, top_k: int, dice: torch.Generator) -> int:
    if temperature == 0:
        return int(logits.argmax())
    best = torch.topk(logits, min(top_k, len(logits)))
    return int(
        best.indices[torch.multinomial(torch.softmax(best.values / temperature, -1), 1, generator=dice)]
    )
