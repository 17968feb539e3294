"""Lines that set a loss or a step are no records, wherever they stand and whatever reads them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs import setting_lines
from gputel.analysis.logs.log import Log
from gputel.analysis.logs.parser import make_parser

Read = Callable[[str], Log]

PIPES = "".join(f"step={step} | loss={9 - step / 100:.4f} | lr=1.00e-03\n" for step in range(10, 310, 10))
PLAIN = "".join(f"step {step} loss {9 - step / 100:.4f}\n" for step in range(10, 310, 10))
LOGFMT = "".join(f"step={step}, loss={9 - step / 100:.4f}, lr=0.001\n" for step in range(10, 310, 10))
BLOCKS = "".join(f"step: {step}\nloss: {9 - step / 100:.4f}\n" for step in range(10, 310, 10))
CHINESE = "".join(f"步数={step} | 损失={9 - step / 100:.4f}\n" for step in range(10, 310, 10))


@pytest.mark.parametrize(
    ("settings", "records"),
    [
        ("Config: lr=0.1 | step=10 | loss=1.0\n", PIPES),
        ("Config: step=10 | loss=1.0 | lr=0.1\n", PIPES),
        ("2026-03-01 10:00:00,000 INFO args: seed=1 loss=0.5 step=5\n", LOGFMT),
        ("Data args: step=1 loss=0.5 seed=3\nModel args: step=2 loss=0.25 depth=3\n", LOGFMT),
        ("Namespace(step=100, loss=0.5, lr=0.001)\n", LOGFMT),
        ("python train.py --lr 0.001 --loss 0.5 --step 100\n", PLAIN),
        ("+ torchrun --nproc 2 train.py --loss 0.5 --step 100\n", PLAIN),
        ("INFO options: --step 100 --loss 0.5\n", PLAIN),
        ("Hyperparameters:\n  step: 100\n  loss: 0.5\n\n", BLOCKS),
        ("=== Config ===\nstep: 100\nloss: 0.5\n", BLOCKS),
        ("参数: 学习率=0.1 | 步数=10 | 损失=1.0\n", CHINESE),
        (
            "| Parameter | Value |\n|-----------|-------|\n| loss      | 0.5   |\n| step      | 100   |\n",
            BLOCKS,
        ),
        ("Launching: train.py loss=0.5 step=100 lr=0.1\n", LOGFMT),
        ("Loaded checkpoint (step=5, loss=0.4321, lr=0.1)\n", LOGFMT),
        ("=> resume from checkpoint: step 5 loss 0.4321\n", PLAIN),
        ("EarlyStopping(patience=5, min_delta=0.001, val_loss=0.5)\n", PLAIN),
    ],
)
def test_settings_above_the_records_are_none(settings: str, records: str, read: Read) -> None:
    log = read(settings + records)
    assert log.records["step"].to_list() == list(range(10, 310, 10))
    assert log.records["loss"][0] == 8.9
    assert log.evals.is_empty()
    assert not log.doubts


@pytest.mark.parametrize(
    "settings", ["Namespace(step=100, loss=0.5, lr=0.001)\n", "python train.py --loss 0.5 --step 100\n"]
)
def test_settings_of_a_second_start_are_no_records(settings: str, read: Read) -> None:
    half = LOGFMT.find("step=160")
    log = read(settings + LOGFMT[:half] + settings + LOGFMT[half:])
    assert log.records["step"].to_list() == list(range(10, 310, 10))


def test_settings_of_each_run_of_a_sweep_are_no_records(read: Read) -> None:
    log = read("".join(f"Config: lr={lr} | step=10 | loss=1.0\n{PIPES}" for lr in (0.1, 0.01)))
    assert log.records["step"].to_list() == 2 * list(range(10, 310, 10))


def test_printed_settings_are_the_configuration(read: Read) -> None:
    log = read("Config: lr=0.1 | step=10 | loss=1.0\n" + PIPES)
    assert log.config == {"lr": 0.1, "step": 10.0, "loss": 1.0}


@pytest.mark.parametrize(
    "record",
    [
        "Train: step={}, loss={}, batch_size=8\n",
        "TrainResult(step={}, loss={}, seed=1)\n",
        "--- Step {} --- loss: {}\n",
    ],
)
def test_records_that_look_like_settings_are_records(record: str, read: Read) -> None:
    log = read("".join(record.format(step, f"{9 - step / 100:.4f}") for step in range(10, 310, 10)))
    assert log.records["step"].to_list() == list(range(10, 310, 10))
    assert not log.rejects


def test_first_of_records_behind_a_word_is_missed_and_named(read: Read) -> None:
    log = read(
        "".join(f"params: step={step} loss={9 - step / 100:.4f} lr=0.001\n" for step in range(10, 310, 10))
    )
    assert log.records["step"].to_list() == list(range(20, 310, 10))
    assert [reject.line for reject in log.rejects] == [2]


def test_command_in_front_of_every_record_leaves_the_records(read: Read) -> None:
    rows = (
        f"python train.py | step={step} | loss={9 - step / 1000:.4f} | lr=0.1\n" for step in range(1, 501)
    )
    log = read("".join(rows))
    assert log.records["step"].to_list()[-400:] == list(range(101, 501))
    assert log.rejects


def test_result_of_what_was_set_is_no_setting(read: Read) -> None:
    log = read(LOGFMT + "Best params: lr=0.1, step=300, loss=5.5\n" + LOGFMT)
    assert log.records.height >= 60


def test_block_of_settings_ends_where_a_name_comes_again() -> None:
    block = [b"Hyperparameters:", b"step: 100", b"loss: 0.5"]
    assert setting_lines.below_heading(block, 2)
    assert not setting_lines.below_heading([*block, b"step: 10"], 3)
    assert not setting_lines.below_heading([*block, b"", b"acc: 0.5"], 4)
    assert not setting_lines.below_heading([b"Verifying settings ...", b"Epoch 1 | iter 1 | loss: 8.5"], 1)
    assert not setting_lines.below_heading([b"Loading the parameters of step 3", b"loss: 8.5"], 1)


def test_pieces_give_the_rows_of_the_whole() -> None:
    text = ("Hyperparameters:\n  step: 100\n  loss: 0.5\n\n" + BLOCKS).encode()
    whole, pieces = make_parser(), make_parser()
    whole.feed(text)
    for line in text.splitlines(keepends=True):
        pieces.feed(line)
    whole.finish()
    pieces.finish()
    first = ("step", "loss", "line")
    assert whole.records.steps.frame(first).equals(pieces.records.steps.frame(first))


def test_records_beside_a_checkpoint_are_records(read: Read) -> None:
    log = read("".join(f"step={step}, loss={9 - step / 100:.4f}, ckpt=a.pt\n" for step in range(10, 310, 10)))
    assert log.records.height == 30


def test_first_record_of_a_later_step_is_doubtful(read: Read) -> None:
    rows = "".join(f'{{"epoch": {epoch}, "loss": {3 - epoch / 20:.2f}}}\n' for epoch in range(1, 31))
    log = read('{"lr": 0.1, "epoch": 10, "loss": 0.5, "batch_size": 8}\n' + rows)
    assert [doubt.what for doubt in log.doubts] == ["first-record"]
    assert not read(rows).doubts
