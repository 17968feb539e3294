"""GPUs and model sizes of a plan."""

from __future__ import annotations

import pytest

from gputel.analysis.plan import inputs
from gputel.analysis.plan.inputs import machine
from gputel.telemetry.errors import GputelError


@pytest.mark.parametrize(("words", "count"), [("H100", 1), ("2xH100", 2), (" 8 x A100 80GB PCIe ", 8)])
def test_gpus_are_named_with_or_without_a_number(words: str, count: int) -> None:
    assert inputs.machine(words).count == count


def test_shorter_sequence_needs_less_attention_but_as_many_parameters() -> None:
    size = inputs.of_depth(12)
    short = inputs.with_seq(size, 1024)
    assert short.parameters == size.parameters
    assert short.flops_per_token < size.flops_per_token


def test_tied_head_is_counted_once_and_works_as_much() -> None:
    apart = inputs.of_layers(12, 768, 12, vocab=50_257, seq=1024)
    tied = inputs.of_layers(12, 768, 12, vocab=50_257, seq=1024, tied=True)
    assert apart.parameters - tied.parameters == 50_257 * 768
    assert tied.parameters == 123_532_032
    assert tied.flops_per_token == apart.flops_per_token


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("2xMI300", "--on 2xMI300: no such GPU in the table; it has H100, H100-PCIe, "),
        ("2xH900", "--on 2xH900: no such GPU in the table; did you mean 2xH100?"),
        ("0xH100", "--on 0xH100: at least one GPU is needed; say 1 or more"),
    ],
)
def test_unknown_gpu_is_refused_with_the_list(words: str, line: str) -> None:
    with pytest.raises(GputelError) as error:
        machine(words)
    assert str(error.value).startswith(line)
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("words", "name", "count"),
    [("H100", "H100", 1), ("8 x A100 80GB PCIe", "A100-PCIe", 8), ("4×h200", "H200", 4)],
)
def test_gpus_are_named_as_people_and_drivers_do(words: str, name: str, count: int) -> None:
    result = machine(words)
    assert (result.gpu.name, result.count) == (name, count)


def test_nodes_must_divide_the_gpus_and_name_their_link() -> None:
    with pytest.raises(GputelError, match="8 GPUs do not spread evenly over 3 nodes"):
        machine("8xA100", nodes=3, link_bytes_s=1e9)
    with pytest.raises(GputelError, match="give it, such as --link 10Gbit"):
        machine("8xA100", nodes=4)
