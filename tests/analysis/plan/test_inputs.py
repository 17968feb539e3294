"""GPUs and model sizes of a plan."""

from __future__ import annotations

import pytest

from gputel.analysis.plan import inputs
from gputel.telemetry.errors import GputelError


@pytest.mark.parametrize(("words", "count"), [("H100", 1), ("2xH100", 2), (" 8 x A100 80GB PCIe ", 8)])
def test_gpus_are_named_with_or_without_a_number(words: str, count: int) -> None:
    assert inputs.machine(words).count == count


def test_gpus_must_spread_evenly_over_nodes() -> None:
    with pytest.raises(GputelError, match="3 GPUs do not spread evenly over 2 nodes"):
        inputs.machine("3xH100", nodes=2, link_bytes_s=1e9)


def test_tied_embedding_is_counted_once() -> None:
    free, tied = (inputs.of_layers(12, 768, 12, tied=tied) for tied in (False, True))
    assert free.parameters - tied.parameters == inputs.VOCAB * 768
    assert free.flops_per_token == tied.flops_per_token


def test_shorter_sequence_needs_less_attention_but_as_many_parameters() -> None:
    size = inputs.of_depth(12)
    short = inputs.with_seq(size, 1024)
    assert short.parameters == size.parameters
    assert short.flops_per_token < size.flops_per_token
