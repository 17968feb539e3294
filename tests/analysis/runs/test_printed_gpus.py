"""How many GPUs a log says that it uses, in the spellings of users' scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.runs import RunData, read_run

RECORDS = "".join(f"step {step} | loss: {3 - step / 300:.4f} | dt: 500.00ms\n" for step in range(30))


def run_with(tmp_path: Path, *banner: str) -> RunData:
    path = tmp_path / "train.log"
    path.write_text("\n".join(banner) + "\n" + RECORDS)
    return read_run(path)


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("num GPUs: 2", 2),
        ("Number of GPUs: 4", 4),
        ("num_gpus=2, batch=4", 2),
        ("n_gpus=4", 4),
        ("WORLD_SIZE=8", 8),
        ("Using 8 GPUs", 8),
        ("[rank0]: Using 8 GPUs", 8),
        ("2026-03-01 10:00:00 INFO Using 8 GPUs", 8),
        ("Using 2 GPU(s)", 2),
        ("Training on 4 GPUs", 4),
        ("running on 2 NVIDIA A100 GPUs", 2),
        ("Using 8 x H100 GPUs", 8),
        ("GPUs: 8", 8),
        ("2026-03-01 10:00:00,123 - INFO - GPUs: 8 x NVIDIA H100", 8),
        ("2 GPUs available", 2),
        ("4 GPU(s) detected", 4),
        ("Found 4 GPUs", 4),
        ("gpu_count: 4", 4),
        ('{"gpu_count": 4, "seed": 1}', 4),
        ("Trainer(accelerator='gpu', devices=4)", 4),
        ("+ torchrun --nproc_per_node=8 train.py", 8),
        ("+ torchrun --nproc-per-node 8 --nnodes 4 train.py", 32),
        ("+ torchrun --nnodes=2 --nproc_per_node=8 train.py", 16),
        ("DDP world size 8", 8),
        ("world_size is 4", 4),
    ],
)
def test_printed_number_of_gpus_is_that_of_the_run(tmp_path: Path, line: str, count: int) -> None:
    run = run_with(tmp_path, line)
    assert run.facts.gpus is not None
    assert (run.facts.gpus.value, run.facts.gpus.origin) == (count, "printed")
    assert run.log.records.height == 30


@pytest.mark.parametrize(
    "line",
    [
        "Using GPU 0",
        "Using GPU: 1",
        "using 85% of GPU",
        "Using 4 GPUs per node",
        "Number of GPUs used per node: 4",
        "Visible GPUs: 0",
        "GPUs: 0,1,2,3",
        "GPUs: 0",
        "devices: 3 of them are busy",
        "devices=[0, 1]",
    ],
)
def test_number_of_a_gpu_or_of_those_of_a_node_is_not_that_of_the_run(tmp_path: Path, line: str) -> None:
    assert run_with(tmp_path, line).facts.gpus is None


def test_number_of_ranks_wins_over_that_of_gpus_which_may_be_those_of_one_node(tmp_path: Path) -> None:
    run = run_with(tmp_path, "World size: 16", "Using 8 GPUs")
    assert run.facts.gpus is not None
    assert run.facts.gpus.value == 16


def test_gpus_that_are_used_win_over_those_that_are_there(tmp_path: Path) -> None:
    run = run_with(tmp_path, "Found 8 GPUs", "Using 2 GPUs")
    assert run.facts.gpus is not None
    assert run.facts.gpus.value == 2


def test_micro_batches_of_one_rank_and_of_all_tell_the_ranks(tmp_path: Path) -> None:
    """An MFU that is printed of half the peak must not make it four GPUs."""
    run = run_with(tmp_path, "Tokens / micro-batch / rank: 8 x 2048 = 16,384", "Tokens / micro-batch: 32,768")
    assert run.facts.gpus is not None
    assert run.facts.gpus.value == 2
    assert run.facts.gpus.origin == "computed from the printed micro-batches"
