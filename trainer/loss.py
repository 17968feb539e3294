"""Cross-entropy of soft-capped logits, a chunk of tokens at a time: hidden states and head weight in, nats out.

The logits of a batch at vocabulary 65,536 in fp32 would need more memory than the model. The gradient is
taken chunk by chunk in the forward pass, while the chunk's logits are at hand, so that nothing is computed
twice. The head has more rows than the vocabulary where that is no multiple of 128: their logits are dropped, and
their gradient is zero.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

SOFTCAP = 15.0
LOGITS_AT_ONCE = 2**27


def capped_logits(hidden: Tensor, head: Tensor, vocab: int) -> Tensor:
    logits = (hidden @ head.to(hidden.dtype).T)[:, :vocab]
    return SOFTCAP * torch.tanh(logits.float() / SOFTCAP)


def mean_loss(hidden: Tensor, head: Tensor, targets: Tensor, vocab: int) -> Tensor:
    if hidden.shape[0] * head.shape[0] <= LOGITS_AT_ONCE:
        return functional.cross_entropy(capped_logits(hidden, head, vocab), targets)
    loss: Tensor = _ChunkedLoss.apply(hidden, head, targets, vocab)  # type: ignore[no-untyped-call]
    return loss


def token_losses(hidden: Tensor, head: Tensor, targets: Tensor, vocab: int) -> Tensor:
    """One figure per token, for evaluation; builds no graph over more than a chunk."""
    chunks = [
        functional.cross_entropy(capped_logits(h, head, vocab), t, reduction="none")
        for h, t in _chunks(hidden, head, targets)
    ]
    return torch.cat(chunks)


def _chunks(hidden: Tensor, head: Tensor, targets: Tensor) -> list[tuple[Tensor, Tensor]]:
    size = max(1, LOGITS_AT_ONCE // head.shape[0])
    return list(zip(torch.split(hidden, size), torch.split(targets, size), strict=True))


class _ChunkedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head: Tensor, targets: Tensor, vocab: int) -> Tensor:
        weight, padding = head.to(hidden.dtype), head.shape[0] - vocab
        grad_head = torch.zeros_like(head, dtype=torch.float32)
        total, grads = hidden.new_zeros((), dtype=torch.float32), []
        for h, t in _chunks(hidden, weight, targets):
            loss, grad_logits = _loss_and_gradient((h @ weight.T)[:, :vocab].float(), t)
            grad_logits = functional.pad((grad_logits / len(targets)).to(h.dtype), (0, padding))
            total = total + loss
            grads.append(grad_logits @ weight)
            grad_head += (grad_logits.T @ h).float()
        ctx.save_for_backward(torch.cat(grads), grad_head.to(head.dtype))
        return total / len(targets)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor, None, None]:
        grad_hidden, grad_head = ctx.saved_tensors
        scale = grad_outputs[0]
        return grad_hidden * scale.to(grad_hidden.dtype), grad_head * scale.to(grad_head.dtype), None, None


def _loss_and_gradient(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of a chunk's losses, and its gradient by the raw logits: softmax less one, times the cap's slope."""
    slope = torch.tanh(logits / SOFTCAP)
    log_probabilities = functional.log_softmax(SOFTCAP * slope, dim=-1)
    picked = targets.unsqueeze(1)
    loss = -log_probabilities.gather(1, picked).sum()
    gradient = log_probabilities.exp().scatter_add(1, picked, torch.full_like(picked, -1, dtype=logits.dtype))
    return loss, gradient * (1 - slope * slope)
