"""Which values say where the training is, once their values are seen."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs.infer import naming, shapes
from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]


def columns(*lines: str) -> list[str | None]:
    rows = [line.encode() for line in lines]
    (shape,) = shapes.line_shapes(rows, rows)
    return [cell.column for cell in naming.name(shape, naming.vocabulary())]


def test_index_that_begins_again_with_each_epoch_is_an_index_within_it() -> None:
    lines = [f"Train: {e} [{i}/40] loss {9 - e}.5" for e in (1, 2, 3) for i in (0, 10, 20, 30)]
    assert columns(*lines) == ["epoch", "index", "length", "loss"]


def test_index_that_runs_on_over_epochs_is_the_step() -> None:
    lines = [f"Train: {i // 40} [{i}/120] loss {9 - i / 40}" for i in range(5, 120, 5)]
    assert columns(*lines) == ["epoch", "step", "total_steps", "loss"]


def test_index_that_grows_by_whole_batches_counts_samples() -> None:
    lines = [f"Train Epoch: {e} [{i}/60000] loss {9 - e}.5" for e in (1, 2) for i in range(0, 60000, 640)]
    assert columns(*lines)[:2] == ["epoch", "samples"]


@pytest.mark.parametrize(("first", "place"), [(16, "samples"), (10, "index"), (800, "index")])
def test_index_that_begins_each_epoch_with_a_batch_and_grows_by_many_counts_samples(
    first: int, place: str
) -> None:
    lines = [f"Epoch {e}[{i}/5011]: loss:{9 - e}.5" for e in (1, 2, 3) for i in range(first, 5011, 1600)]
    assert columns(*lines)[:2] == ["epoch", place]


def test_value_that_only_counts_is_the_step() -> None:
    assert columns(*(f"{i} {9 / i:.4f} loss" for i in range(100, 900, 100)))[0] == "step"


def test_share_of_correct_answers_is_no_place() -> None:
    lines = [f"step {i} loss {9 / i:.3f} Correct {60 + i}/100" for i in range(1, 9)]
    assert columns(*lines)[:2] == ["step", "loss"]
    assert not {"index", "total_steps", "length"} & set(columns(*lines))


def test_count_of_a_bar_is_no_step_of_its_own() -> None:
    lines = [f"{i}0%|{'#' * i:10}| {i}/10 [00:0{i}<00:09, 1.0it/s, loss={9 / i:.3f}]" for i in range(1, 9)]
    assert [name for name in columns(*lines) if name] == ["count", "total", "loss"]


def test_count_of_a_bar_is_the_pair_whose_total_stays() -> None:
    right = [f"[{'=' * i}>...] loss: 0.5{i} acc: 0.3{i} ({i * 3}/{i * 8}) {i}/9" for i in range(1, 10)]
    assert columns(*right) == ["loss", "acc", None, None, "count", "total"]
    whole = [f"[{'=' * i}>...] loss: 0.5{i} acc: 0.3{i} ({i * 3}/72)" for i in range(1, 10)]
    assert columns(*whole) == ["loss", "acc", "count", "total"]


def test_number_in_front_of_an_object_that_is_printed_below_it_is_its_step() -> None:
    assert columns(*(f"{i} {{" for i in range(5))) == ["step"]
    assert columns(*(f"{i} [" for i in range(5))) == [None]


def test_number_of_steps_that_stays_the_same_is_a_setting() -> None:
    lines = [f"step {i} of all, warmup steps 100, loss {9 / i:.3f}" for i in range(1, 9)]
    assert columns(*lines)[:2] == ["step", "warmup_steps"]


def test_batch_that_stays_the_same_from_epoch_to_epoch_is_a_size() -> None:
    lines = [f"epoch={e} batch=64 loss={9 - e}.5" for e in range(5)]
    assert columns(*lines) == ["epoch", None, "loss"]


def test_name_that_no_place_has_is_an_index_if_it_counts_within_epochs() -> None:
    lines = [f"epoch={e} j={i}/30 loss={9 - e}.{i}" for e in range(3) for i in range(0, 30, 5)]
    assert columns(*lines) == ["epoch", "index", "length", "loss"]
    right = [f"epoch={e} right={97 - 13 * e % 40}/100 loss={9 - e}.5" for e in range(6)]
    assert "index" not in columns(*right)


def test_bracket_that_rises_where_the_batches_begin_again_is_the_epoch() -> None:
    lines = [f"[{e}/9] batch {i}/40 loss={9 - e}.{i}" for e in (1, 2, 3) for i in (10, 20, 30, 40)]
    assert columns(*lines) == ["epoch", "epochs", "index", "length", "loss"]


def test_bracket_that_does_not_rise_with_the_batches_is_a_rank() -> None:
    lines = [f"[{r}/2] batch {i}/40 loss={9 - r}.{i}" for i in (10, 20, 30, 40) for r in (0, 1)]
    assert columns(*lines) == [None, None, "batch", "total_steps", "loss"]


def test_second_bracket_behind_the_epoch_is_the_batch() -> None:
    lines = [f"Epoch: [{e}][{i}] Loss {9 - e}.{i}" for e in range(6) for i in (0, 50)]
    assert columns(*lines) == ["epoch", "batch", "loss"]


def test_second_bracket_that_falls_within_an_epoch_is_no_batch() -> None:
    lines = [f"Epoch: [{e}][{i}] Loss {9 - e}.{i}" for e in range(6) for i in (50, 20, 10)]
    assert columns(*lines) == ["epoch", None, "loss"]


def test_counter_in_front_of_the_epoch_is_the_batch() -> None:
    lines = [f"train: {i} @ epoch:{e}/160 loss: {9 - e}.{i}" for e in (0, 1) for i in range(1, 9)]
    assert columns(*lines) == ["batch", "epoch", "epochs", "loss"]


def test_size_of_a_set_in_front_of_the_epoch_is_no_batch() -> None:
    lines = [f"train: 113 @ epoch:{e // 4}/160 loss: {9 / (e + 1):.3f}" for e in range(16)]
    assert columns(*lines) == [None, "epoch", "epochs", "loss"]


def test_number_of_something_else_in_front_of_the_epoch_is_no_batch() -> None:
    lines = [f"Pre-training layer {i // 4}, epoch {i // 2}, cost 0.{i}" for i in range(12)]
    assert columns(*lines) == ["Pre_training_layer", "epoch", "loss"]


def test_fraction_of_an_epoch_stands_for_the_whole_one_beside_it() -> None:
    lines = [f"epoch {i // 4} | step {i} | loss {9 / (i + 1):.3f} | {i / 4:.2f} epochs" for i in range(12)]
    assert columns(*lines) == [None, "step", "loss", "epoch"]


def test_fraction_of_an_epoch_that_stays_the_same_is_no_place() -> None:
    lines = [f"epoch {i} | loss {9 / (i + 1):.3f} | 1.5 epochs" for i in range(8)]
    assert columns(*lines) == ["epoch", "loss", None]


def test_batch_with_its_total_in_front_of_the_epoch_is_an_index_in_it() -> None:
    lines = [
        f"[batch {i}0/40, epoch {e}/3]: loss_total: {9 / (i + e):.3f}"
        for e in (1, 2, 3)
        for i in (1, 2, 3, 4)
    ]
    assert columns(*lines) == ["index", "length", "epoch", "epochs", "loss"]


@pytest.mark.parametrize("epoch", ["{}-epoch", "{}th epoch", "Epoch {}", "第{}轮"])
def test_count_in_brackets_behind_an_epoch_is_an_index_in_it(epoch: str) -> None:
    lines = [f"{epoch.format(i // 9)} ({i % 9}/9): total loss {99 - i}.5, lr 0.1" for i in range(40, 80)]
    assert columns(*lines) == ["epoch", "index", "length", "loss", "lr"]


def test_epoch_before_its_word_may_stay_the_same() -> None:
    lines = [f"0-epoch ({i}/178643): total loss {99 - i}.5, lr 0.1" for i in range(4, 84, 5)]
    assert columns(*lines) == ["epoch", "index", "length", "loss", "lr"]


def test_number_before_the_word_of_the_next_one_is_no_epoch() -> None:
    ranks = [f"{i % 2}-epoch ({i}/90): loss {99 - i}.5" for i in range(30)]
    assert columns(*ranks)[:2] == [None, "epoch"]
    runs = [f"3-epoch {i}: loss {99 - i}.5" for i in range(30)]
    assert columns(*runs) == [None, "epoch", "loss"]
    assert columns(*(f"loss {99 - i}.5-epoch {i}" for i in range(30))) == ["loss", "epoch"]


@pytest.mark.parametrize("length", [391, 78])
def test_length_behind_a_colon_makes_an_index_within_the_epoch(length: int) -> None:
    indices = range(0, length, length // 4)
    lines = [f"[Epoch {e}/9][{i:3}:{length}] Loss: {9 - e}.5" for e in (1, 2, 3) for i in indices]
    assert columns(*lines) == ["epoch", "epochs", "index", "length", "loss"]


def test_letter_between_two_counts_is_the_name_of_the_second() -> None:
    lines = [f"e: {e} s: {i} loss: {9 - e}.5" for e in (1, 2, 3) for i in (10, 20, 30, 40)]
    assert columns(*lines) == ["epoch", "step", "loss"]
    assert columns("step: 3 time: 2.5 s loss: 2.5") == ["step", "dt_ms", "loss"]


def test_second_number_in_brackets_that_changes_is_no_length() -> None:
    lines = [f"[Epoch {e}/9][{i}:{200 + i}] Loss: {9 - e}.5" for e in (1, 2, 3) for i in (0, 100, 300)]
    assert "length" not in columns(*lines)


def test_number_of_a_save_is_no_step(read: Callable[[str], Log]) -> None:
    log = read(
        "\n".join(
            f"Update {step} loss {3 - step / 1000:.3f}"
            + (f"\nCheckpoint [{step // 200}]\tvalid_loss={3.1 - step / 1000:.3f}" if step % 200 == 0 else "")
            for step in range(50, 850, 50)
        )
    )
    assert log.evals.select("step", "name").rows() == [
        (200, "val_loss"),
        (400, "val_loss"),
        (600, "val_loss"),
        (800, "val_loss"),
    ]


def test_step_of_the_best_figure_is_no_average(read: Callable[[str], Log]) -> None:
    log = read(
        "\n".join(f"{s}:\tlearn: 0.{90 - s}\ttest: 0.{91 - s}\tbest: 0.{91 - s} ({s})" for s in range(9))
    )
    assert "best_avg" not in log.records.columns
    assert log.records["step"].to_list() == [*range(9)]


def test_first_of_two_counts_is_the_epoch_if_it_rises_where_the_other_begins_again(
    read: Callable[[str], Log],
) -> None:
    line = "{e} {b} loss - {loss}\n"
    log = read(
        "".join(line.format(e=e, b=b, loss=7.5 - e - b / 100) for e in range(3) for b in range(0, 50, 10))
    )
    assert log.records.select("epoch", "step").rows() == [(e, b) for e in range(3) for b in range(0, 50, 10)]
    assert log.records["attempt"].unique().to_list() == [1]
    apart = read("".join(line.format(e=3, b=b, loss=7.5 - b / 100) for b in range(0, 50, 10)))
    assert apart.records["step"].to_list() == [0, 10, 20, 30, 40]


def test_iteration_behind_the_scale_of_a_growing_model_is_the_step(read: Callable[[str], Log]) -> None:
    """It begins again with each scale; a run that was started once more is another attempt."""
    rows = [(scale, at) for scale, runs in enumerate((9, 8, 7)) for at in range(100, 100 * runs, 100)]
    log = read(
        "".join(f"[{scale} : {at:6}] loss G : {at / 7:.3f} loss D : {-at / 9:.3f}\n" for scale, at in rows)
    )
    assert log.records.select("epoch", "step").rows() == rows


def test_number_of_a_client_is_no_batch() -> None:
    lines = [f"Epoch: {e}/90 Client: {c} training loss: {9 - e}.{c}" for e in (1, 2, 3) for c in (1, 2, 3)]
    assert columns(*lines) == ["epoch", "epochs", "Client", "loss"]


def test_count_without_a_name_is_the_epoch_where_an_evaluation_stands_below_each_record(
    read: Callable[[str], Log],
) -> None:
    """So the evaluation is of the record above it. Where one stands above the first record, it is a step."""
    record, evaluation = ">>>[{n}] Train loss: {loss:.4f}\n", "Val acc: 0.{n}5\n"
    passes = [(n, 3 / n) for n in range(1, 10)] * 2
    log = read("".join((record + evaluation).format(n=n, loss=loss) for n, loss in passes))
    assert log.evals.select("attempt", "step").rows() == log.records.select("attempt", "step").rows()
    assert log.evals["after"].null_count() == len(passes)
    above = read("".join((evaluation + record).format(n=n, loss=loss) for n, loss in passes))
    assert "epoch" not in above.records.columns


def test_bar_around_its_count_is_a_bar(read: Callable[[str], Log]) -> None:
    """That of a test has another length."""
    bar = " [======= {n}/{n} ======>]  Step: 71ms | Loss: {loss:.3f} | Acc: {acc:.3f}% (12/50)\n"
    text = ""
    for e in range(9):
        text += f"\nEpoch: {e}\n" + bar.format(n=40, loss=3 / (e + 1), acc=20 + e)
        text += bar.format(n=10, loss=4 / (e + 1), acc=10 + e)
    log = read(text)
    assert log.records.select("step", "loss").rows() == [(e, round(3 / (e + 1), 3)) for e in range(9)]
    losses = log.evals.filter(name="val_loss")
    assert losses.select("step", "value").rows() == [(e, round(4 / (e + 1), 3)) for e in range(9)]
    assert log.doubts == ()


@pytest.mark.parametrize("mark", [" *", " ✓"])
def test_mark_of_the_best_so_far_takes_no_place_from_its_line(mark: str, read: Callable[[str], Log]) -> None:
    """Marked lines come now and then: alone their number does not count from one to the next."""
    marked = {1, 2, 4, 9, 20}
    line = "chunk {n} | val_loss {loss:.4f} | best {best:.4f}{mark} | lr 1.{n}e-05\n"
    text = "".join(
        line.format(n=n, loss=5 / n, best=4 / n, mark=mark if n in marked else "") for n in range(1, 25)
    )
    log = read(text)
    assert log.records["step"].to_list() == log.evals["step"].to_list() == [*range(1, 25)]
    other = read(text.replace(mark, " tries"))
    assert other.records["step"].null_count() or other.records.height < 24


@pytest.mark.parametrize("trainings", [1, 3])
def test_pair_in_front_of_batches_is_the_epoch_also_where_trainings_follow(
    trainings: int, read: Read
) -> None:
    lines = [
        f"[{e}/4] | Batch {i}/50 | Loss: {9 / (e * 50 + i):.4f}" for e in range(1, 5) for i in (1, 11, 21)
    ]
    log = read("\n".join(lines * trainings) + "\n")
    assert log.records["epoch"].to_list() == [e for e in range(1, 5) for _ in range(3)] * trainings
    assert log.records["attempt"].n_unique() == trainings


@pytest.mark.parametrize("trainings", [1, 2])
def test_number_of_epochs_is_no_epoch(trainings: int, read: Read) -> None:
    lines = ["seed=42 batch_size=64 epochs=12"]
    for e in range(12):
        lines += [f"Epoch {e} Average Loss {9 / (e + 1):.4f}"]
        lines += [f"Test loss {8 / (e + 1):.4f}", f"Test dice 0.{e + 11}"] * (e % 3 == 2)
    log = read("\n".join(lines * trainings) + "\n")
    losses = log.evals.filter(name="val_loss")
    assert losses["step"].to_list() == [2, 5, 8, 11] * trainings


def test_second_value_that_is_called_a_step_leaves_the_line_its_place(read: Read) -> None:
    """What a figure with a fraction is called says nothing if the first place is there."""
    line = (
        "(epoch: {}, iters: {}, time: 0.235, data: 11.8) G_GAN: {:.3f} D_real: 0.280 NCE: 2.5 step: {}.000\n"
    )
    places = [(epoch, index) for epoch in (1, 2, 3) for index in (100, 200, 300)]
    text = (line.format(epoch, index, 2 / (epoch + index), 300 * epoch + index) for epoch, index in places)
    log = read("".join(text))
    assert log.records["step"].to_list() == [100, 200, 300] * 3
    assert log.records["epoch"].to_list() == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_seed_of_a_result_is_no_step(read: Read) -> None:
    log = read("".join(f"random   seed={s} F1=0.74{s}9 AUC=0.97{s}7 acc=0.82{s}4\n" for s in range(5)) * 2)
    assert not log.evals["step"].count()


def test_number_of_epochs_is_no_place(read: Callable[[str], Log]) -> None:
    rows = "".join(f"sample {10 * at} loss {3 / at:.3f}\n" for at in range(1, 12))
    assert "epoch" not in read(f"Training epochs: 30\n{rows}").records.columns
    assert read(f"Training epoch: 3\n{rows}").records["epoch"].to_list() == [3.0] * 11


def test_length_of_an_epoch_is_not_its_number(read: Read) -> None:
    run = "1 epoch = 41 batches\n" + "".join(
        f"step : {n}, loss : {9 - n / 4}, dt : 85.5ms\n" for n in range(6)
    )
    log = read(run * 3)
    assert "epoch" not in log.records.columns
    assert log.records["attempt"].n_unique() == 3


def test_word_behind_an_epoch_may_name_the_next_number() -> None:
    lines = [f"epoch {e} batches {b} loss {9 - e}.{b}" for e in (1, 2, 3) for b in (4, 8)]
    assert columns(*lines)[0] == "epoch"
