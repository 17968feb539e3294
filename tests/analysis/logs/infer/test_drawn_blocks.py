"""Records in drawn boxes and panels, and below drawn headings."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs.log import Log
from tests.analysis.logs.infer.epochs import EPOCHS, log_of

Read = Callable[[str], Log]


@pytest.mark.parametrize(
    ("lines", "each"),
    [
        ("╭──────── Step {s}/300 ────────╮\n│ loss      {loss:.4f}      │\n╰──────────────╯\n", 10),
        ("╭─ Epoch {e} ─╮\n│ train loss: {loss:.4f} │\n│ val loss: {val:.4f} │\n╰───────╯\n", 1),
        (
            "┌───────────┬────────┐\n│ iteration │ {s:6d} │\n│ loss      │ {loss:.4f} │\n└───────────┴────────┘\n",
            10,
        ),
        (
            "┏━━━━┳━━━━┓\n┃ Metric ┃ Value ┃\n┡━━━━╇━━━━┩\n│ epoch │ {e} │\n│ loss │ {loss:.4f} │\n└──┴──┘\n",
            1,
        ),
        (
            "### Epoch {e}\n\n| metric | train | val |\n|---|---|---|\n| loss | {loss:.4f} | {val:.4f} |\n\n",
            1,
        ),
        (
            "Epoch {e}/30\n           Training |  Validation\nloss     | {loss:8.4f} | {val:8.4f}\n"
            "accuracy | {acc:8.4f} | {acc:8.4f}\n",
            1,
        ),
        ("===== 第 {e} 轮 =====\n训练损失: {loss:.4f}\n验证损失: {val:.4f}\n", 1),
        ("== Epoch {e} ==\n[train]\n  loss: {loss:.4f}\n  acc: {acc:.3f}\n[val]\n  loss: {val:.4f}\n", 1),
        ("- epoch: {e}\n  train:\n    loss: {loss:.4f}\n  val:\n    loss: {val:.4f}\n", 1),
    ],
)
def test_drawn_block_is_a_record_of_its_heading(lines: str, each: int, read: Read) -> None:
    log = read(log_of(lines))
    assert log.records["step"].to_list() == [each * e for e in EPOCHS]
    assert log.records["loss"].to_list() == [round(3 / e, 4) for e in EPOCHS]
    losses = log.evals.filter(name="val_loss")
    assert losses["value"].to_list() == [round(3.3 / e, 4) for e in EPOCHS if "{val" in lines]
    assert not log.doubts


def test_bar_with_lines_drawn_in_it_is_a_bar(read: Read) -> None:
    log = read(log_of("Epoch {e}\n━━━━━━━━━━━━━━━━ 100% 40/40 loss: {loss:.4f}\n"))
    assert log.records.height == 30
    assert log.records["loss"][0] == 3.0


def test_figures_of_a_box_of_evaluation_are_in_no_record(read: Read) -> None:
    """A box of an evaluation has rows of the training, too. What stands between boxes is in none of them."""
    boxes = []
    for e in EPOCHS:
        rollout = "| rollout/       |      |\n|    ep_rew_mean |  9.5 |\n"
        if e % 5 == 0:
            boxes.append(f"Eval num_timesteps={100 * e}, episode_reward={e + 0.5:.2f} +/- 0.00\n")
            boxes.append(f"Episode length: {160 + e:.2f} +/- 0.00\n")
            rollout = (
                f"| eval/  |    |\n|    mean_ep_length | {160.5 + e} |\n|    mean_reward | {e + 0.5} |\n"
            )
        train = (
            f"| train/         |      |\n|    loss        | {3 / e:.4f} |\n|    n_updates   | {10 * e} |\n"
        )
        boxes += ["---------------\n", rollout, train, "---------------\n"]
    log = read("".join(boxes))
    assert log.records["step"].to_list() == [10 * e for e in EPOCHS]
    assert not {"mean_reward", "mean_ep_length", "Episode_length"} & {*log.records.columns}
    for name in ("mean_reward", "mean_ep_length", "episode_reward", "Episode_length"):
        assert log.evals.filter(name=name)["step"].to_list() == [10 * e for e in EPOCHS if e % 5 == 0]


def test_whole_numbers_in_a_box_of_evaluation_are_figures(read: Read) -> None:
    boxes = (
        f"| eval/  |    |\n|    mean_ep_length | {20 * e} |\n|    mean_reward | {20 * e} |\n"
        f"| train/ |    |\n|    loss | {3 / e:.4f} |\n|    n_updates | {10 * e} |\n---------------\n"
        for e in EPOCHS
    )
    log = read("---------------\n" + "".join(boxes))
    assert log.evals.filter(name="mean_reward")["value"].to_list() == [20 * e for e in EPOCHS]


def box(*rows: tuple[str, object]) -> str:
    lines = [f"| {name:<18} | {value:<10} |\n" for name, value in rows]
    return "\n".join(["-" * 35, "".join(lines) + "-" * 35, ""])


@pytest.mark.parametrize("late", [2, 4])
def test_first_boxes_may_lack_the_rows_that_others_begin_with(late: int, read: Read) -> None:
    """An agent's rewards have a row once an episode has ended, and losses once it has learned."""
    boxes = []
    for e in EPOCHS:
        if e % 5 == 0:
            boxes.append(box(("eval/", ""), ("   mean_reward", e + 0.5), ("   total_timesteps", 100 * e)))
        rollout = [("rollout/", ""), ("   ep_rew_mean", e + 0.25)] if late <= e < 28 else []
        train = [("train/", ""), ("   loss", round(3 / e, 4)), ("   n_updates", 10 * e)] if e > 1 else []
        time = [("time/", ""), ("   fps", 900 + e), ("   total_timesteps", 100 * e)]
        boxes.append(box(*rollout, *time, *train))
    log = read("".join(boxes))
    assert log.records["step"].to_list() == [None, *range(20, 310, 10)]
    assert log.records["total_timesteps"].to_list() == [100 * e for e in EPOCHS]
    assert log.records["fps"].to_list() == [900 + e for e in EPOCHS]
    rewards = [e + 0.25 if late <= e < 28 else None for e in EPOCHS]
    assert log.records["ep_rew_mean"].to_list() == rewards
    assert log.evals["name"].unique().to_list() == ["mean_reward"]
    assert log.evals["step"].to_list() == [50, 100, 150, 200, 250, 300]
    assert not log.doubts


def test_box_of_an_evaluation_may_have_the_step_and_lack_the_speed(read: Read) -> None:
    """Every second box is of an evaluation, which gives the losses of the updates before it."""
    train = [("train/", ""), ("   loss", 0.0), ("   n_updates", 0)]
    boxes = []
    for e in EPOCHS:
        train = [("train/", ""), ("   loss", round(3 / e, 4)), ("   n_updates", 10 * e)]
        rollout = [("rollout/", ""), ("   ep_rew_mean", e + 0.25), ("time/", ""), ("   fps", 900 + e)]
        evaluated = [
            ("eval/", ""),
            ("   mean_reward", e + 0.5),
            ("time/", ""),
            ("   total_timesteps", 100 * e),
        ]
        boxes.append(box(*rollout, *train) if e % 3 == 0 else box(*rollout) + box(*evaluated, *train))
    log = read("".join(boxes))
    assert log.records["step"].drop_nulls().to_list() == [10 * e for e in EPOCHS]
    assert log.records["fps"].drop_nulls().to_list() == [900 + e for e in EPOCHS]
    assert log.records.filter(fps=901.0)["loss"].to_list() == [None]


def test_line_between_the_rows_of_a_box_ends_no_record(read: Read) -> None:
    rule = "+" + "-" * 30 + "+"
    lines = f"{rule}\n| step | {{s}} |\n{rule}\n| loss | {{loss:.4f}} |\n| lr | {{lr:.5f}} |\n{rule}\n"
    log = read(log_of(lines))
    assert log.records["step"].to_list() == [10 * e for e in EPOCHS]
    assert log.records["loss"].to_list() == [round(3 / e, 4) for e in EPOCHS]
    assert log.records["lr"].null_count() == 0
