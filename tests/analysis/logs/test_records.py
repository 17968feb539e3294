"""What counts as a record, a step, an attempt, a phase: the rules of docs/parse.md, one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gputel.analysis.runs import paths


def test_step_that_falls_starts_the_next_attempt_and_an_equal_one_does_not(
    rows: Callable[..., Any], iteration: Callable[..., Any]
) -> None:
    text = "".join(iteration(step, 3.0) for step in (0, 10, 10, 20, 10, 20))
    assert rows(text, "attempt", "step") == [(1, 0), (1, 10), (1, 10), (1, 20), (2, 10), (2, 20)]


def test_later_attempt_supersedes_and_nothing_is_thrown_away(
    read: Callable[..., Any], iteration: Callable[..., Any]
) -> None:
    log = read("".join(iteration(step, loss) for step, loss in ((0, 5.0), (10, 4.0), (20, 3.5), (10, 4.5))))
    assert log.steps.select("step", "loss").rows() == [(0, 5.0), (10, 4.5), (20, 3.5)]
    assert log.records.height == 4


def test_stage_that_is_announced_is_another_phase(read: Callable[..., Any]) -> None:
    sft = "Loading model from x/mid_checkpoints/d20 with step 9\nStep 00000/00009 | Training loss: 0.5| lrm: 1.0\n"
    log = read("step 00005 (0.12%) | loss: 2.5 | lrm: 1.00\nSaved model to: x/mid_checkpoints/a.pt\n" + sft)
    assert log.places == [("mid", 1), ("sft", 1)]


def test_phase_may_hold_evaluations_alone(read: Callable[..., Any]) -> None:
    log = read("Step 00010 | Validation bpb: 1.5\n")
    assert (log.records.height, log.places) == (0, [("train", 1)])


def test_every_ranks_copy_counts_and_steps_have_their_mean(
    read: Callable[..., Any], iteration: Callable[..., Any]
) -> None:
    log = read("".join(iteration(5, 3.0 + rank, f"[rank{rank}]: ") for rank in range(2)))
    assert log.records.select("rank", "loss").rows() == [("0", 3.0), ("1", 4.0)]
    assert log.steps.select("step", "loss").rows() == [(5, 3.5)]


def test_ranks_that_run_apart_start_no_attempt(
    read: Callable[..., Any], iteration: Callable[..., Any]
) -> None:
    text = "".join(iteration(step, 3.0, f"[rank{rank}]: ") for rank in range(2) for step in (0, 10, 20))
    assert read(text).places == [("train", 1)]


def test_lines_of_different_shape_that_report_one_step_are_one_record(rows: Callable[..., Any]) -> None:
    text = """[Rank 0] step=10, skipped=0, lr=[1e-05], mom=[(0.9, 0.95)]
epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=1.2, CurrSamplesPerSec=1.5
"""
    assert rows(text, "step", "lr", "CurrSamplesPerSec") == [(10, 1e-05, 1.5)]


def test_bar_that_names_its_epoch_gives_one_record_from_its_last_redraw(read: Callable[..., Any]) -> None:
    text = "".join(
        f"\rEpoch 1: {p}%|#| {p}/100 [00:01<00:01, 5.0it/s, loss={3 - p / 100}]" for p in (10, 50, 100)
    )
    log = read(text + "\rEpoch 2: 10%|#| 10/100 [00:01<00:01, 5.0it/s, loss=1.5]\n")
    assert log.records.select("step", "loss").rows() == [(1, 2.0), (2, 1.5)]
    assert log.partials.height == 2


def test_another_bar_gives_one_record_for_each_count(rows: Callable[..., Any]) -> None:
    text = "".join(
        f"\r 1%|#| {n}/100 [00:01<00:01, 5.0it/s, loss={loss}]" for n, loss in ((1, 3.0), (1, 2.9), (2, 2.5))
    )
    assert rows(text, "step", "total_steps", "loss") == [(1, 100, 2.9), (2, 100, 2.5)]


def test_bar_without_a_metric_is_no_record(rows: Callable[..., Any]) -> None:
    assert rows("\r 10%|#| 10/100 [00:01<00:01, 5.0it/s]\n", "step") == []


def test_text_glued_to_a_record_does_not_undo_it(
    rows: Callable[..., Any], iteration: Callable[..., Any]
) -> None:
    text = f"  5%|#| 5/100 [00:01<00:01, 5.0it/s]{iteration(3, 2.5).strip()}WARNING: something\n"
    assert rows(text, "step", "loss") == [(3, 2.5)]


def test_step_is_computed_from_epoch_and_index(rows: Callable[..., Any]) -> None:
    text = "Epoch [2][50/100]\tlr: 1e-3, eta: 0:00:10, time: 0.744, loss: 3.5\n"
    assert rows(text, "step", "epoch", "dt_ms") == [(150, 2.0, 744.0)]


def test_whole_epoch_on_the_line_before_is_the_step(
    rows: Callable[..., Any], evals: Callable[..., Any]
) -> None:
    text = "Epoch 7/50\n3083s - loss: 1.5 - acc: 0.5 - val_loss: 0.25\n"
    assert rows(text, "step", "total_steps", "loss") == [(7, 50, 1.5)]
    assert evals(text) == [(7, "val_loss", 0.25)]


def test_epoch_with_a_fraction_is_no_step(rows: Callable[..., Any]) -> None:
    assert rows("{'loss': 2.5, 'learning_rate': 1e-5, 'epoch': 1.0}\n", "step", "epoch") == [(None, 1.0)]


def test_average_beside_a_loss_is_no_loss(rows: Callable[..., Any]) -> None:
    text = "Epoch: [0]  [ 3/50]  eta: 0:01  lr: 0.1  loss: 6.5 (6.9)  time: 2.5  data: 0.1\n"
    assert rows(text, "loss", "loss_avg") == [(6.5, 6.9)]


def test_training_loss_of_an_evaluation_is_an_evaluation(
    rows: Callable[..., Any], evals: Callable[..., Any]
) -> None:
    text = "step 10: train loss 3.5, val loss 3.75\n"
    assert rows(text, "step") == []
    assert evals(text) == [(10, "train_loss", 3.5), (10, "val_loss", 3.75)]


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("validation loss: 5.5\nstep 7 | loss: 5.0 | lr 1e-4\n", 7),
        ("step 7 | loss: 5.0 | lr 1e-4\nvalidation loss: 5.5\n", 7),
        ("step 7 | loss: 5.0 | lr 1e-4\nvalidation loss: 5.5\nstep 8 | loss: 5.0 | lr 1e-4\n", 8),
    ],
)
def test_evaluation_without_a_step_takes_the_next_records_else_the_lasts(
    text: str, step: int, evals: Callable[..., Any]
) -> None:
    assert evals(text) == [(step, "val_loss", 5.5)]


def test_evaluation_before_a_restart_belongs_to_the_attempt_that_follows(
    read: Callable[..., Any], iteration: Callable[..., Any]
) -> None:
    text = iteration(100, 3.0) + "step 50: train loss 3.1, val loss 3.2\n" + iteration(50, 3.1)
    assert read(text).evals["attempt"].to_list() == [2, 2]


def test_summaries_are_neither_records_nor_evaluations(read: Callable[..., Any]) -> None:
    log = read("{'train_runtime': 10.5, 'train_loss': 2.5, 'epoch': 1.0}\nMinimum validation bpb: 0.5\n")
    assert (log.records.height, log.evals.height) == (0, 0)
    assert log.summary["train_runtime"] == 10.5


def test_declared_placeholder_is_null_and_an_undeclared_number_is_kept(
    read: Callable[..., Any], iteration: Callable[..., Any]
) -> None:
    log = read(
        iteration(0, 3.5).replace("20.00%", "-100.00%") + iteration(1, 3.5).replace("20.00%", "-1.00%")
    )
    assert log.records["mfu"].to_list() == [None, -1.0]


def test_units_are_brought_to_those_of_the_columns_without_losing_a_digit(rows: Callable[..., Any]) -> None:
    text = (
        "iteration: 5 / 9 | consumed_tokens: 85.8G | elapsed_time_per_iteration_ms: 11.5K | lm_loss: 2.38\n"
    )
    assert rows(text, "tokens", "dt_ms") == [(85.8e9, 11500.0)]


def test_unknown_pairs_become_metrics_with_their_printed_name(rows: Callable[..., Any]) -> None:
    text = "step 1 | loss: 2.5 | router entropy: 0.75 | cache: 12.5MiB | note: fine\n"
    assert rows(text, "router_entropy", "cache_mib") == [(0.75, 12.5)]


def test_log_that_ends_in_the_middle_of_a_number_has_that_line_rejected(read: Callable[..., Any]) -> None:
    line = "step 1 | loss: 2.512345 | lr 1e-4 | dt: 10.00ms\n"
    log = read(line + "step 2 | loss: 2.5")
    assert log.records["step"].to_list() == [1]
    assert [reject.line for reject in log.rejects] == [2]


def test_log_without_a_line_feed_at_its_end_keeps_its_last_record(
    rows: Callable[..., Any], iteration: Callable[..., Any]
) -> None:
    assert rows((iteration(0, 3.5) + iteration(10, 3.25)).strip(), "loss") == [(3.5,), (3.25,)]


def test_events_have_the_step_before_them(read: Callable[..., Any], iteration: Callable[..., Any]) -> None:
    log = read(iteration(10, 3.5) + "saving checkpoint to out\n" + iteration(20, 3.5))
    assert log.events.select("kind", "line", "step").rows() == [("checkpoint", 2, 10)]


def test_frames_have_their_types_even_where_nothing_was_read(read: Callable[..., Any]) -> None:
    empty, full = read("nothing\n").evals, read("Step 00010 | Validation bpb: 1.5\n").evals
    assert empty.schema == full.schema
    assert full["time"].dtype == pl.Datetime("ns", "UTC")


def test_batches_that_begin_again_with_a_later_epoch_are_no_restart(read: Callable[..., Any]) -> None:
    """Their length is not printed, so that the step is the batch; `.steps` keeps every epoch's."""
    lines = [f"Epoch {e} Batch {b} Loss {9 - 3 * e - b / 200:.4f}\n" for e in (1, 2) for b in (0, 100, 200)]
    log = read("".join([*lines, *lines[3:]]))
    assert log.places == [("train", 1), ("train", 2)]
    assert log.records["step"].to_list() == [0, 100, 200] * 3
    assert log.steps.select("epoch", "step", "attempt").rows() == [
        *[(1, step, 1) for step in (0, 100, 200)],
        *[(2, step, 2) for step in (0, 100, 200)],
    ]


def test_lines_of_another_shape_that_report_the_same_step_are_one_record(read: Callable[..., Any]) -> None:
    """Also where both print the loss: DeepSpeed's line, and that of the trainer that uses it."""
    log = read(
        "".join(
            f"steps: {i} loss: {9 / i:.4f} iter time (s): 0.500 samples/sec: 63.7\n"
            f" iteration {i:8d}/  320000 | learning rate: 6.0E-04 | lm_loss: {9 / i:.6E} | loss scale: 4096.0 |\n"
            for i in range(1, 9)
        )
    )
    assert log.records["step"].to_list() == list(range(1, 9))
    assert log.records.select("loss", "dt_ms", "lr").row(0) == (9.0, 500.0, 0.0006)


def test_last_step_of_the_last_epoch_ends_a_run(read: Callable[..., Any]) -> None:
    lines = [
        f"Epoch [{e}/3], Step [{s}/600], Loss: {9 - e - s / 600:.4f}\n" for e in (1, 2, 3) for s in (300, 600)
    ]
    assert read("".join(lines)).status == "completed"
    assert read("".join(lines[:-1])).status == "unknown"


def test_step_that_is_printed_again_after_a_resume_is_a_record_of_its_own(read: Callable[..., Any]) -> None:
    """Although it lacks a value that is not measured yet."""
    line = "iter {}: loss 3.5, time 10.00ms, mfu {}%\n"
    log = read(
        line.format(10, "20.00") + line.format(20, "20.00") + "Resuming\n" + line.format(20, "-100.00")
    )
    assert log.records["step"].to_list() == [10, 20, 20]


def test_batches_under_a_line_that_says_the_epoch_belong_to_that_epoch(read: Callable[..., Any]) -> None:
    """A resume begins epoch 2 again: its batches supersede the first ones."""
    epoch = "Epoch {0}\n" + "".join(f"  batch {b}: loss={{0}}.{b}5\n" for b in range(0, 60, 10))
    failed = "Traceback (most recent call last):\nRuntimeError: boom\n"
    log = read("".join(epoch.format(e) for e in (1, 2)) + failed + "".join(epoch.format(e) for e in (2, 3)))
    assert log.places == [("train", 1), ("train", 2)]
    assert log.records["epoch"].to_list() == [1.0] * 6 + [2.0] * 12 + [3.0] * 6
    steps = log.steps.select("attempt", "epoch", "step").rows()
    assert steps == [(min(e, 2), e, b) for e in (1.0, 2.0, 3.0) for b in range(0, 60, 10)]


def test_batch_of_the_last_of_its_epoch_does_not_end_the_run(read: Callable[..., Any]) -> None:
    epoch = "===== EPOCH {0} =====\n" + "".join(f"[{b}/40] loss {{0}}.{b}5\n" for b in range(10, 50, 10))
    log = read("".join(epoch.format(e) for e in range(3)))
    assert (log.records.height, len(log.places), log.status) == (12, 1, "unknown")


def test_line_that_repeats_an_earlier_one_is_ignored(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        """[[lines]]
name = "train"
role = "train"
needle = "loss"
line = '^<step> loss <loss>'
[[lines]]
name = "best"
role = "again"
needle = "best"
line = '^best:$'
"""
    )
    log = tmp_path / "x.log"
    for gap in ("", "\n"):
        log.write_text(f"1 loss 3.5\n2 loss 3.0\nbest:\n{gap}1 loss 3.5\n")
        assert paths.parse(log, format=mine).records["step"].to_list() == ([1, 2] if not gap else [1, 2, 1])


def test_format_without_a_record_gives_way_to_an_inferred_one(
    read: Callable[..., Any],
) -> None:
    """`Train ...` is what Composer prints below a line with the batch, which here there is none of."""
    log = read("".join(f"Epoch {i}/40\n  Train Loss: {9 / i:.4f}\n  LR: 0.001\n\n" for i in range(1, 41)))
    assert log.format == "inferred"
    assert log.records.select("step", "loss", "lr").row(0) == (1, 9.0, 0.001)


def box(*rows: tuple[str, object]) -> str:
    cells = "".join(f"|    {name:<18}| {value:<9}|\n" for name, value in rows)
    return f"{'-' * 35}\n{cells}{'-' * 35}\n"


def updates(step: int, *first: tuple[str, object]) -> str:
    return box(*first, ("total_timesteps", 2048 * step), ("loss", 9 - step / 8), ("n_updates", 10 * step))


def test_box_without_its_first_row_is_a_record(read: Callable[..., Any]) -> None:
    boxes = [updates(step, *[("ep_rew_mean", 20.5 + step)] * (step != 8)) for step in range(1, 13)]
    records = read("".join(boxes)).records
    assert records["step"].to_list() == [10 * step for step in range(1, 13)]
    assert records["loss"].to_list() == [9 - step / 8 for step in range(1, 13)]
    assert records["ep_rew_mean"].null_count() == 1


def test_box_that_repeats_the_step_is_no_record(read: Callable[..., Any]) -> None:
    boxes = [
        updates(step, ("ep_rew_mean", 20.5 + step)) + updates(step) * (step == 8) for step in range(1, 13)
    ]
    assert read("".join(boxes)).records["step"].to_list() == [10 * step for step in range(1, 13)]


def test_loss_that_two_lines_print_has_all_its_digits(rows: Callable[..., Any]) -> None:
    text = """steps: 7 loss: 12.6435 iter time (s): 28.759 samples/sec: 0.556
 iteration        7/      20 | consumed samples:           16 | lm loss: {} | grad norm: 1.938 |
"""
    assert rows(text.format("1.264354E+01"), "step", "loss") == [(7, 12.64354)]
    assert rows(text.format("1.27E+01"), "step", "loss") == [(7, 12.6435)]


def test_bars_of_which_only_the_ends_are_printed_are_a_record_each(rows: Callable[..., Any]) -> None:
    end = "100%|#####| 938/938 [00:12<00:00, 75.4it/s, loss={}]\n"
    assert rows("".join(end.format(loss) for loss in (2.5, 2.25, 2.0)), "step", "loss") == [
        (None, 2.5),
        (None, 2.25),
        (None, 2.0),
    ]
    assert rows(end.format(2.5) * 2, "step", "loss") == [(938, 2.5)]
    begun = " 50%|##   | 469/938 [00:06<00:06, 75.4it/s, loss=2.75]\n"
    assert rows(begun + end.format(2.5) + end.format(2.25), "step", "loss") == [(469, 2.75), (938, 2.25)]
    keras = "125/125 [==============================] - 3s 21ms/step - loss: {}\n"
    assert rows(keras.format(2.5) + "Epoch 2/5\n" + keras.format(2.25), "step")[-1] == (2,)
    fits = "".join(f"== Epoch {e} ==\n" + keras.format(2.5 - e) + keras.format(2.25 - e) for e in (1, 2))
    assert rows(fits, "step", "loss") == [(1, 1.5), (1, 1.25), (2, 0.5), (2, 0.25)]
    assert rows("Epoch 1/5\n" + keras.format(2.5) * 2, "step", "loss") == [(1, 2.5)]


def test_bar_that_shortens_the_name_of_its_epoch_names_it(rows: Callable[..., Any]) -> None:
    end = (
        "miniE {} s {} prog 20.00% : ppl 5.4 loss {} lr 3.3e-04: 100%|###| 833/833 [03:17<00:00,  4.2it/s]\n"
    )
    text = end.format(1, 833, 1.5) + end.format(2, 1666, 1.25)
    assert rows(text, "step", "loss") == [(1, 1.5), (2, 1.25)]


def test_average_that_is_the_only_loss_of_a_bar_is_the_loss(rows: Callable[..., Any]) -> None:
    bar = "steps:  {0}%|#| {0}/100 [00:01<00:01, 5.0it/s, {1}]\n"
    text = bar.format(1, "avr_loss=2.5") + bar.format(2, "avr_loss=2.25")
    assert rows(text, "step", "loss") == [(1, 2.5), (2, 2.25)]
    text = bar.format(1, "loss=3.0, avr_loss=2.5") + bar.format(2, "avr_loss=2.25")
    assert rows(text, "step", "loss", "loss_avg") == [(1, 3.0, 2.5), (2, None, 2.25)]


def test_of_redraws_on_one_line_the_last_counts(rows: Callable[..., Any], evals: Callable[..., Any]) -> None:
    first = "40/80 [===>...] - ETA: 1s - loss: 2.75 - acc: 0.25"
    last = "80/80 [=======] - 2s - loss: {} - acc: 0.5 - val_loss: 2.25"
    lines = [f"Epoch {e}/2\n{first}{last.format(3 - e)}\n" for e in (1, 2)]
    assert rows("".join(lines), "step", "loss", "acc") == [(1, 2, 0.5), (2, 1, 0.5)]
    unbarred = (
        "Epoch 1/2\n80/80 [=======] - ETA: 0s - loss: 2.75 - acc: 0.25 - 2s - loss: 2.5 - val_loss: 2.25\n"
    )
    assert rows(unbarred, "step", "loss", "acc") == [(1, 2.5, 0.25)]
    assert evals(unbarred) == [(1, "val_loss", 2.25)]


@pytest.mark.parametrize(("off", "steps"), [(0.0004, [100, 200, 300]), (0.5, [1, 100, 2, 200, 3, 300])])
def test_line_below_the_bar_of_an_epoch_gives_its_step(
    off: float, steps: list[int], rows: Callable[..., Any]
) -> None:
    """The bar rounds what the line gives; a line of other figures is another record."""
    losses = {e: round(2.5 / e + off, 4) for e in (1, 2, 3)}
    text = "".join(
        f"Epoch {e}/3: {n}%|{'#' * n}| {n}/100 [00:01<00:01, 9.5it/s, critic_loss={2.5 / e + 99 - n:.2f}]\r"
        + f"\n[info] run: epoch={e} step={100 * e} critic_loss={losses[e]}\n" * (n == 99)
        for e in (1, 2, 3)
        for n in (33, 66, 99)
    )
    found = rows(text, "step", "critic_loss")
    assert [step for step, _ in found] == steps
    assert [loss for step, loss in found if step >= 100] == [*losses.values()]


@pytest.mark.parametrize("count", [4, 200])
def test_epoch_that_falls_starts_the_next_attempt_where_records_have_no_step(
    count: int, read: Callable[..., Any]
) -> None:
    first = "".join(f"{{'loss': {4 - at / count}, 'epoch': {at / 50}}}\n" for at in range(1, count + 1))
    rows = read(first + first).records
    assert rows["attempt"].to_list() == [1] * count + [2] * count
    assert rows["step"].null_count() == 2 * count


def test_epoch_that_stays_starts_no_attempt(read: Callable[..., Any]) -> None:
    text = "".join(f"{{'loss': {4 - at / 100}, 'epoch': {at // 30 / 4}}}\n" for at in range(100))
    assert read(text).records["attempt"].unique().to_list() == [1]


def test_best_of_the_epoch_above_is_no_second_evaluation(read: Callable[..., Any]) -> None:
    lines = []
    for e in range(12):
        lines += [
            f"Epoch {e}/11  train_loss={9 / (e + 1):.6f}  val_l2re={8.12345 / (e + 1):.6f}  epoch_time=21.3s"
        ]
        lines += [f"[CHECKPOINT] Saved best checkpoint at epoch {e} to out/best.pth"]
        lines += [f"[CHECKPOINT] New best model at epoch {e}  val_l2re={8.12345 / (e + 1):.6f}"]
    log = read("\n".join(lines) + "\n")
    assert log.evals.filter(name="val_l2re")["step"].to_list() == [*range(12)]
