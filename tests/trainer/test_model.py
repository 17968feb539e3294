"""The model, on a CPU, in double precision where that tells more."""

import math

import pytest
import torch
from torch.nn import functional

from gputel.trainer import model as model_file
from gputel.trainer.model import (
    LOGITS_AT_ONCE,
    Model,
    _chunks,
    _Norm,
    capped_logits,
    mean_loss,
    norm,
    relu_squared,
)
from gputel.trainer.shape import shape_of

from .small_model import CPU, stirred


def test_first_loss_is_the_logarithm_of_the_vocabulary(model: Model) -> None:
    ids = torch.randint(256, (2, 33), generator=torch.Generator().manual_seed(0))
    assert model(ids[:, :-1], ids[:, 1:]).item() == pytest.approx(math.log(256), abs=1e-5)


def test_position_does_not_see_what_comes_after_it(model: Model) -> None:
    stirred(model)
    ids = torch.randint(256, (1, 33), generator=torch.Generator().manual_seed(0))
    other = ids.clone()
    other[0, 20:] = 7
    one = model(ids[:, :-1], ids[:, 1:], per_token=True)
    two = model(other[:, :-1], ids[:, 1:], per_token=True)
    assert torch.equal(one[0, :19], two[0, :19])
    assert not torch.equal(one[0, 20:], two[0, 20:])


def test_mean_of_the_losses_of_tokens_is_the_loss(model: Model) -> None:
    stirred(model)
    ids = torch.randint(256, (2, 33), generator=torch.Generator().manual_seed(0))
    mean = model(ids[:, :-1], ids[:, 1:], per_token=True).mean()
    assert mean.item() == pytest.approx(model(ids[:, :-1], ids[:, 1:]).item(), abs=1e-6)


@pytest.mark.parametrize("at_once", [LOGITS_AT_ONCE, 128 * 8])
def test_padding_of_the_vocabulary_is_never_predicted_and_stays_zero(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_file, "LOGITS_AT_ONCE", at_once)
    model = Model(shape_of(2, vocab=65, seq=32, dim=32, heads=2)).on(CPU)
    model.initialize(seed=1)
    training = torch.optim.AdamW(model.parameters())
    ids = torch.randint(65, (2, 33), generator=torch.Generator().manual_seed(0))
    loss = model(ids[:, :-1], ids[:, 1:])
    assert loss.item() == pytest.approx(math.log(65), abs=1e-5)
    loss.backward()
    training.step()
    assert model(ids[:, :-1]).shape == (2, 65)
    for weight in (model.embedding.weight, model.head.weight):
        assert weight.shape == (128, 32)
        assert weight[:65].any()
        assert not weight[65:].any()
        assert not training.state[weight]["exp_avg"][65:].any()


def test_recomputing_activations_changes_no_gradient(model: Model) -> None:
    stirred(model)
    ids = torch.randint(256, (2, 33), generator=torch.Generator().manual_seed(0))

    def gradients() -> list[torch.Tensor]:
        model.zero_grad()
        model(ids[:, :-1], ids[:, 1:]).backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    kept = gradients()
    model.recompute = True
    assert all(torch.equal(one, other) for one, other in zip(kept, gradients(), strict=True))


def test_bf16_model_works_in_bf16_between_embedding_and_loss_and_learns_as_autocast_does() -> None:
    """No norm and no residual goes back to fp32; only rounding differs from autocast."""
    shape = shape_of(2, vocab=256, seq=32, dim=32, heads=2)
    ids = torch.randint(256, (2, 33), generator=torch.Generator().manual_seed(0))
    results = []
    for dtype in (torch.bfloat16, torch.float32):
        model = Model(shape, dtype=dtype).on(CPU)
        model.initialize(seed=1)
        stirred(model)
        kinds: set[torch.dtype] = set()
        for block in model.blocks:
            block.register_forward_hook(
                lambda _, inputs, out, kinds=kinds: kinds.update({inputs[0].dtype, out.dtype})
            )
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.float32):
            loss = model(ids[:, :-1], ids[:, 1:])
        torch.autograd.backward(loss)
        assert kinds == {dtype}
        assert {weight.dtype for weight in model.parameters()} == {torch.float32}
        results.append(loss.item())
    assert results[0] == pytest.approx(results[1], abs=0.02)


@pytest.mark.parametrize("vocab", [50, 43])
def test_loss_in_chunks_has_the_value_and_the_gradients_of_one_in_a_piece(
    monkeypatch: pytest.MonkeyPatch, vocab: int
) -> None:
    dice = torch.Generator().manual_seed(3)
    hidden = torch.randn(37, 16, generator=dice)
    head = torch.randn(50, 16, generator=dice)
    targets = torch.randint(vocab, (37,), generator=dice)

    def both() -> list[torch.Tensor]:
        h, w = hidden.clone().requires_grad_(), head.clone().requires_grad_()
        value = mean_loss(h, w, targets, vocab)
        torch.autograd.backward(value * 0.5)
        assert h.grad is not None
        assert w.grad is not None
        return [value.detach(), h.grad, w.grad]

    whole = both()
    monkeypatch.setattr(model_file, "LOGITS_AT_ONCE", 50 * 8)
    assert len(_chunks(hidden, head, targets)) == 5
    for one, other in zip(whole, both(), strict=True):
        torch.testing.assert_close(one, other)
    assert not whole[2][vocab:].any()


def test_norm_and_relu_squared_have_the_values_and_gradients_that_torch_would_give() -> None:
    dice = torch.Generator().manual_seed(5)
    x = torch.randn(7, 16, generator=dice, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(_Norm.apply, (x,))
    assert torch.autograd.gradcheck(relu_squared, (x,))
    torch.testing.assert_close(norm(x.float()), functional.rms_norm(x.float(), (16,)))
    torch.testing.assert_close(relu_squared(x), functional.relu(x).square())


def test_logits_are_capped() -> None:
    capped = capped_logits(torch.full((1, 4), 100.0), torch.ones(3, 4), 3)
    assert capped.max() <= 15
    torch.testing.assert_close(capped, 15 * functional.hardtanh(capped / 15))
