"""Loops of evaluation are told apart by the line that announces them and by their total."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from gputel.analysis.logs.infer import announcements, candidates, loops, shape_roles, shapes
from gputel.analysis.logs.log import Log


def found(*lines: str) -> tuple[list[candidates.Candidate], list[bytes]]:
    rows = [line.encode() for line in lines]
    made = (shape_roles.make_candidate(shape, rows) for shape in shapes.line_shapes(rows, rows))
    return [candidate for candidate in made if candidate], rows


def epoch(number: int, announcement: str) -> list[str]:
    train = [f"epoch: {number} iter: {i}/18 loss: {9 / i:.3f}" for i in range(1, 19)]
    return [*train, announcement, *(f"iter: {i}/46 loss: {1 / i:.3f}" for i in range(1, 47))]


@pytest.mark.parametrize(
    ("announcement", "left"),
    [(">>>> Start Evaluation >>>>", [18]), ("开始验证", [18]), ("Saving the model", [18, 46])],
)
def test_loop_below_an_announcement_is_left_out(announcement: str, left: list[int]) -> None:
    made, lines = found(*epoch(1, announcement), *epoch(2, announcement))
    kept = [line for line in loops.without_evaluations(made, lines) if line.metrics]
    assert [announcements.total(line) for line in kept] == left


def test_loop_that_looks_like_the_records_is_announced_by_a_pattern() -> None:
    lines = [f"step {i}/60 - loss: {9 / i:.3f}" for i in range(10, 70, 10)]
    evaluation = [f"step {i}/30 - loss: {1 / i:.3f}" for i in (10, 20, 30)]
    made, rows = found(*lines, "Eval 1 begins...", *evaluation, *lines, "Eval 2 begins...", *evaluation)
    (table,) = announcements.patterns(made[0], rows)
    assert (table.role, table.line, table.needle) == ("evaluates", r"Eval \d+ begins\.\.\.", "begins")


def test_lines_of_both_kinds_are_no_loop_where_one_of_their_totals_is_never_announced() -> None:
    train = [f"step {i}/20 - loss: {9 / i:.3f}" for i in (5, 10, 15, 20)]
    evaluation = ["Eval begin...", "step 5/5 - loss: 0.625"]
    made, lines = found(*(["Epoch 1/2", *train, *evaluation] * 2), *evaluation)
    kept = [line for line in loops.without_evaluations(made, lines) if line.metrics]
    assert [announcements.total(line) for line in kept] == [20]


def test_bar_whose_end_has_another_shape_is_told_from_that_of_an_evaluation(
    read: Callable[[str], Log],
) -> None:
    def bar(total: int, loss: float) -> str:
        rows = [
            f"\rstep {i}/{total} [{'=' * i}>..] - loss: {loss + 1 / i:.4f} - ETA: 2s"
            for i in range(2, total, 2)
        ]
        return "".join([*rows, f"\rstep {total}/{total} [{'=' * total}] - loss: {loss:.4f} - 18ms/step\n"])

    log = read("".join(f"Epoch {i}/3\n{bar(20, 9 / i)}Eval begin...\n{bar(6, 8 / i)}" for i in (1, 2, 3)))
    assert log.records.select("step", "loss").rows() == [(1, 9.0), (2, 4.5), (3, 3.0)]
    assert log.evals.select("step", "name", "value").rows() == [
        (1, "val_loss", 8.0),
        (2, "val_loss", 4.0),
        (3, "val_loss", 2.6667),
    ]


def blocks(announcement: str) -> str:
    """Epochs whose figures look like those of an evaluation below every fifth of them."""
    train = "[03.24.23|09:{0:02}:03] Training epoch: {0}\n[03.24.23|09:{0:02}:13] \tmean_loss: {1}\n"
    evaluation = (
        f"[03.24.23|09:{{0:02}}:33] {announcement}\n[03.24.23|09:{{0:02}}:43] \tmean_loss: 9.{{0:02}}\n"
    )
    epochs = [(train + evaluation if i % 5 == 4 else train).format(i, 3 / (i + 1)) for i in range(30)]
    return "".join(epochs)


def test_figures_below_the_heading_of_an_evaluation_are_its_result(read: Callable[[str], Log]) -> None:
    log = read(blocks("Eval epoch: {0}"))
    assert log.records["step"].to_list() == list(range(30))
    assert log.records["loss"].max() == 3.0
    assert log.evals["name"].unique().to_list() == ["val_loss"]
    assert log.evals.select("step", "value").rows() == [(i, 9 + i / 100) for i in range(4, 30, 5)]


def test_figures_below_any_other_heading_are_no_evaluation(read: Callable[[str], Log]) -> None:
    assert read(blocks("Saved epoch: {0}")).evals.height == 0


@pytest.mark.parametrize("often", [2, 3, 5])
def test_line_above_the_first_figures_of_an_epoch_announces_no_evaluation(
    often: int, read: Callable[[str], Log]
) -> None:
    epoch = "Training epoch: {0}\n{2}\tmean_loss: {1:.4f}\n"
    log = read(
        "".join(
            epoch.format(e, 9 / e, "Testing how fast the disk of the data is...\n" if e % often == 0 else "")
            for e in range(1, 31)
        )
    )
    assert (log.records.height, log.evals.height, log.records["loss"].max()) == (30, 0, 9.0)


def loop_of(number: int, result: str = "") -> str:
    train = [f"step {i}/60 - loss: {9 / i:.3f} - acc: 0.5\n" for i in range(10, 70, 10)]
    evaluation = [f"step {i}/30 - loss: {number}.{i} - acc: 0.{i}\n" for i in (10, 20, 30)]
    return "".join([f"Epoch {number}/9\n", *train, "Eval begins...\n", *evaluation, result])


def test_last_figures_of_a_loop_are_its_result_where_no_line_gives_one(read: Callable[[str], Log]) -> None:
    log = read("".join(map(loop_of, range(1, 6))))
    losses = log.evals.filter(name="val_loss")
    assert losses["value"].to_list() == [1.3, 2.3, 3.3, 4.3, 5.3]
    assert log.records["loss"].max() == 0.9


def test_figures_of_a_loop_are_left_to_the_line_with_its_result(read: Callable[[str], Log]) -> None:
    log = read("".join(loop_of(i, f"val loss: {i}.5\n") for i in range(1, 6)))
    assert log.evals["value"].to_list() == [1.5, 2.5, 3.5, 4.5, 5.5]


def test_set_that_begins_a_line_is_that_of_all_its_figures(read: Callable[[str], Log]) -> None:
    line = "2023.01.18 17:{0}:14 [Epoch: {0}] {1} acc: 0.8{0} | loss: {2}.15{0}\n"
    log = read("".join(line.format(e, *each) for e in range(10, 20) for each in (("Train", 2), ("Valid", 3))))
    assert log.records["step"].to_list() == list(range(10, 20))
    assert log.records["loss"].is_between(2, 3).all()
    assert log.evals.filter(name="val_loss")["value"].is_between(3, 4).all()


def test_accuracy_of_a_set_beside_the_training_loss_leaves_the_line_a_record(
    read: Callable[[str], Log],
) -> None:
    log = read("".join(f"[Epoch: {e}] valid acc: 0.8{e} | loss: 2.15{e}\n" for e in range(10, 20)))
    assert log.records["loss"].len() == 10


def test_loop_that_is_cut_off_has_no_result(read: Callable[[str], Log]) -> None:
    log = read("".join(map(loop_of, range(1, 6))).removesuffix("step 30/30 - loss: 5.30 - acc: 0.30\n"))
    assert log.evals.filter(name="val_loss")["value"].to_list() == [1.3, 2.3, 3.3, 4.3]


def test_evaluation_that_has_given_its_figure_announces_nothing() -> None:
    lines = [f"step {i}/60 - loss: {9 / i:.3f}" for i in range(10, 70, 10)]
    made, rows = found(*lines, "eval loss: 0.5", *(line.replace("/60", "/50") for line in lines))
    assert announcements.patterns(made[0], rows) == []


BLOCKS = ["[train] step: {i}00, time: 6.1", "\tloss: 4.{i}"]


def test_steps_of_an_evaluation_that_count_to_no_total_are_left_out() -> None:
    evaluation = ["Evaluation:", *(f"\tstep {i}00: loss: 2.{i}" for i in (1, 2, 3))]
    lines = [line.format(i=i) for i in range(1, 9) for line in (*BLOCKS, *(evaluation if i % 4 == 0 else []))]
    made, rows = found(*lines)
    assert ["step", "loss"] in [line.columns for line in made]
    kept = loops.without_evaluations(made, rows)
    assert ["step", "loss"] not in [line.columns for line in kept]
    assert ["loss"] in [line.columns for line in kept]


def test_records_below_an_evaluation_without_a_figure_stay() -> None:
    epochs = [[f"step {i}00: loss: {e}.{i}" for i in (1, 2, 3)] + ["Evaluating..."] for e in (5, 4, 3)]
    made, rows = found(*(line for epoch in epochs for line in epoch))
    assert loops.without_evaluations(made, rows) == made


RUNNING = [f"Sample: {i}, Validation pixAcc: 1.{i}, mIoU: 0.{i}" for i in range(1, 9)]


def test_running_figures_of_an_evaluation_are_left_out() -> None:
    once = ["Iters: {e}0/90 || Lr: 0.{e}", "Start validation, Total sample: 8", *RUNNING]
    once.append("Overall validation pixAcc: 2.{e}, mIoU: 0.{e}")
    made, rows = found(*(line.format(e=e) for e in (1, 2, 3) for line in once))
    kept = [line.shape.count for line in loops.without_evaluations(made, rows) if line.role == "eval"]
    assert kept == [3]


def passes(word: str, values: list[float], announcement: str = "Start validation") -> list[str]:
    """A log of three evaluations, each of which prints these figures and no other."""
    pass_ = [f"{word}: {i}, Validation pixAcc: {value:.3f}" for i, value in enumerate(values, start=1)]
    return [line for e in (1, 2, 3) for line in (f"Iters: {e}0/90 || Lr: 0.{e}", announcement, *pass_)]


SETTLING = [0.5 + 0.4 / i for i in range(1, 41)]
EACH = [0.5 + 0.04 * (7 * i % 11) for i in range(1, 41)]


def test_figure_of_all_items_so_far_counts_when_the_last_is_in(read: Callable[[str], Log]) -> None:
    log = read("\n".join(passes("Sample", SETTLING)))
    assert log.evals["value"].to_list() == [0.51] * 3


def test_evaluation_that_is_longer_than_what_is_kept_says_its_size(read: Callable[[str], Log]) -> None:
    values = [0.5 + 0.4 / i for i in range(1, 501)]
    log = read("\n".join(passes("Sample", values, "Start validation, Total sample: 500")))
    assert log.evals["value"].to_list() == [0.501] * 3


def test_figures_of_each_item_are_no_evaluation(read: Callable[[str], Log]) -> None:
    assert read("\n".join(passes("Image", EACH))).evals.is_empty()


@pytest.mark.parametrize(("first", "count"), [("nan", 3), ("1,234.5", 3), ("N/A", 117)])
def test_first_figure_of_a_pass_may_be_no_plain_number(
    first: str, count: int, read: Callable[[str], Log]
) -> None:
    """Where it is a word, nothing says whether the figures settle, and all of them stay."""
    values = read("\n".join(passes("Sample", SETTLING)).replace("0.900", first)).evals["value"]
    assert (len(values), values[-1]) == (count, 0.51)


@pytest.mark.parametrize("word", ["Fold", "Class", "Task"])
def test_evaluations_of_parts_stay(word: str) -> None:
    made, rows = found(*passes(word, SETTLING))
    assert loops.without_evaluations(made, rows) == made


@pytest.mark.parametrize(
    ("mean", "left"),
    [
        ("loss_avg: 3.{e} top1_avg: 0.1{e}", 1),
        ("summary loss: 3.{e} top1: 0.1{e}", 1),
        ("other: 3.{e} more: 0.1{e}", 2),
    ],
)
def test_batches_of_an_evaluation_are_left_out_where_a_line_gives_their_mean(mean: str, left: int) -> None:
    epochs = [
        f"epoch:[ {e}/9 ] val step:0 loss: 3.2{e} top1: 0.12\nEND epoch:{e} val {mean}\n".format(e=e)
        for e in range(1, 8)
    ]
    made, rows = found(*"".join(epochs).splitlines())
    kept = loops.without_evaluations(made, rows)
    assert sum(line.role == "eval" for line in kept) <= left
    assert [line.metrics for line in kept if line.role == "running"] == [[]] * (left == 1)


@pytest.mark.parametrize(("heading", "role"), [("TEST DATA EVALUATION", "eval"), ("SECOND STAGE", "train")])
def test_loss_without_a_place_below_a_test_is_its_result(heading: str, role: str) -> None:
    once = [f"# TASK {{e}} {heading}", "Average Loss: 3.8{e}, Average Accuracy: 0.3{e}"]
    made, rows = found(*(line.format(e=e) for e in range(5) for line in once))
    assert role in [line.role for line in loops.without_evaluations(made, rows)]


def evaluated(count: int, result: str = "", *, of: int = 46, every: int = 5) -> str:
    """Passes of a loop of evaluation that says itself what it is, below records of another."""
    lines = []
    for number in range(1, count + 1):
        lines += [f"train {i}/180 loss {9 / (number * 180 + i):.4f}\n" for i in range(0, 180, 10)]
        lines += [f"eval {i}/{of} loss {number}.{i:02}\n" for i in range(0, of, every)]
        lines += [result.format(number)] if result else []
    return "".join(lines)


def test_loop_that_says_that_it_evaluates_gives_its_last_figure(read: Callable[[str], Log]) -> None:
    log = read(evaluated(3))
    assert log.records.height == 54
    assert log.evals.select("attempt", "step", "value").rows() == [
        (1, 170, 1.45),
        (2, 170, 2.45),
        (3, 170, 3.45),
    ]


def test_loop_gives_no_figure_beside_the_line_of_its_result(read: Callable[[str], Log]) -> None:
    assert read(evaluated(3, "eval done: loss {0}.9\n")).evals["value"].to_list() == [1.9, 2.9, 3.9]


def test_lines_of_a_few_sets_are_all_evaluations(read: Callable[[str], Log]) -> None:
    assert read(evaluated(3, of=4, every=1)).evals.height == 12


def test_evaluations_that_count_as_training_does_are_no_loop(read: Callable[[str], Log]) -> None:
    steps = [f"train {i}/180 loss {9 / i:.4f}\neval {i}/180 loss {1 / i:.4f}\n" for i in range(10, 190, 10)]
    assert read("".join(steps)).evals["step"].to_list() == [*range(10, 190, 10)]


def test_loop_that_is_not_seen_to_end_keeps_its_figures(read: Callable[[str], Log]) -> None:
    """Its last printed figure may be of any batch; a loop has ended if its next line would be beyond the total."""
    ended = evaluated(3, every=20, of=50)
    assert read(ended).evals["value"].to_list() == [1.4, 2.4, 3.4]
    assert read(re.sub("eval 40/50.*\n", "", ended)).evals.height == 6


@pytest.mark.parametrize(("name", "evaluations"), [("train loss", 6), ("loss of the run", 0)])
def test_loss_that_is_better_beside_that_of_training_is_of_held_out_data(
    read: Callable[[str], Log], name: str, evaluations: int
) -> None:
    text = "".join(
        f"{name} = {0.9 / i:.4f}\nloss: {1 / i:.4f}, Performance is better... saving the model\n"
        for i in range(1, 7)
    )
    log = read(text)
    assert log.evals.filter(name="val_loss").height == evaluations
    assert (0.9 in log.records["loss"]) == (evaluations > 0)


@pytest.mark.parametrize(("last", "steps"), [(28, [100]), (20, [4, 8, 12, 16, 20])])
def test_last_line_of_one_loop_with_a_total_of_its_own_is_its_result(
    read: Callable[[str], Log], last: int, steps: list[int]
) -> None:
    """It ended if the next of its steps would be beyond the total."""
    train = "".join(f"[Train {i}/100] loss: {9 / i:.4f}\n" for i in range(10, 101, 10))
    evaluated = "".join(f"Evaluated {i}/30 with L2 loss {1 / i:.4f}\n" for i in range(4, last + 1, 4))
    log = read(train + evaluated)
    assert log.records.height == 10
    assert log.evals["step"].to_list() == steps


def test_loss_right_below_the_last_line_of_a_test_is_its_result(read: Callable[[str], Log]) -> None:
    train = "".join(f"Epoch: [{{0}}][{i}/18] Loss {9 / (i + 1):.3f} (2.5)\n" for i in range(18))
    test = "".join(f"Test: [{i}/46] Loss 1.{i} (1.3)\n" for i in range(0, 46, 5))
    log = read("".join(f"{train.format(epoch)}{test} * Loss 1.{epoch}25\n" for epoch in range(3)))
    assert log.evals.filter(name="val_loss")["value"].to_list() == [1.025, 1.125, 1.225]
    assert log.records.height == 54


def test_accuracy_below_its_epoch_is_an_evaluation_where_nothing_else_is_printed(
    read: Callable[[str], Log],
) -> None:
    log = read("".join(f" epoch {epoch}\ntest accuracy 0.{60 + epoch}\n" for epoch in range(6)))
    assert log.evals.filter(name="test_accuracy").height == 6
    assert read("".join(f" version {v}\ntest accuracy 0.{60 + v}\n" for v in range(6))).is_empty


def test_line_of_both_means_gives_the_result_of_a_loop(read: Callable[[str], Log]) -> None:
    text = ""
    for epoch in range(1, 5):
        text += "".join(f"Epoch: [{epoch}][{b}/40] Loss: {3 / (epoch + b / 40):.4f}\n" for b in (0, 20, 39))
        text += "".join(f"EVAL: [{b}/10] Elapsed 0m 1s Loss: {4 / epoch:.4f}\n" for b in (0, 5, 9))
        text += f"Epoch {epoch} - avg_train_loss: {2 / epoch:.4f}  avg_val_loss: {5 / epoch:.4f}  time: 10s\n"
    log = read(text)
    validated = log.evals.filter(name="val_loss")["value"].to_list()
    assert validated == [round(5 / epoch, 4) for epoch in range(1, 5)]
    assert log.records.height == 12


@pytest.mark.parametrize(("rows", "figures"), [(12, set()), (3, {"val_loss", "acc", "acc_avg"})])
def test_long_rows_of_a_test_with_averages_so_far_are_batches(
    rows: int, figures: set[str], read: Callable[[str], Log]
) -> None:
    """A few rows may be of as many sets."""
    tested = "".join(
        f"Test: loss {2 + at % 3 / 8:.4f} (2.{at:02}) acc 4{at % 7}.5 (43.{at})\n" for at in range(rows)
    )
    log = read(
        "".join(f"step {n} loss {9 / n:.4f} lr 0.1\n{tested if n % 5 == 0 else ''}" for n in range(1, 30))
    )
    assert {*log.evals["name"]} == figures
    assert log.records.height == 29


def test_mean_that_sums_up_a_log_makes_no_evaluation_of_its_records(read: Callable[[str], Log]) -> None:
    """The line above them names both sets, and says nothing of a loop."""
    epochs = "".join(f"[00{e}/4], Train loss: {9 / e:.4f}, Val loss: {8 / e:.4f}\n" for e in range(1, 5))
    log = read("train samples: 45000, val samples: 5000\n" + epochs + "Mean loss: 0.3128\n")
    assert log.records["loss"].to_list() == [9.0, 4.5, 3.0, 2.25]
    assert log.evals["value"].to_list() == [8.0, 4.0, 2.6667, 2.0]


def test_sizes_of_both_sets_announce_no_evaluation(read: Callable[[str], Log]) -> None:
    steps = "".join(f"Step {s}, Avg loss: {9 - s / 100:.4f} || lr: 0.001\n" for s in range(0, 240, 10))
    log = read(("train samples: 45000, val samples: 5000\n" + steps + "Mean loss: 0.3128\n") * 3)
    assert log.records["step"].to_list() == [*range(0, 240, 10)] * 3


@pytest.mark.parametrize(("size", "steps"), [(0, [0, 500] * 3), (7, [100, 600, 0, 600, 1, 600])])
def test_heading_that_says_epoch_and_batch_places_the_evaluation(
    size: int, steps: list[int], read: Callable[[str], Log]
) -> None:
    """The batch is the step, also where an epoch begins with an evaluation; any other number says nothing."""
    text = ""
    for batch in range(0, 3000, 100):
        if batch % 500 == 0 and batch % 1000 < 600:
            number = 7 * batch + size if size else batch % 1000
            text += f"Validating at epoch {batch // 1000}, batch {number}\nval loss {9 / (batch + 9):.4f}\n"
        text += f"epoch {batch // 1000} batch {batch % 1000 + 100} loss {8 / (batch + 9):.4f}\n"
    assert read(text).evals["step"].to_list() == steps


@pytest.mark.parametrize(
    ("result", "losses"), [("mean ELBO -{0:.4f}, ppl {1:.4f}", 0), ("mean accuracy {0:.4f}, iou {1:.4f}", 5)]
)
def test_last_batch_gives_no_loss_where_the_result_has_it_by_another_name(
    result: str, losses: int, read: Callable[[str], Log]
) -> None:
    text = ""
    for e in range(1, 6):
        text += "".join(
            f"TRAIN batch {b:04}/1200, loss {3 / (e + b / 1200):.4f}\n" for b in range(0, 1201, 200)
        )
        text += "".join(f"VALID batch {b:04}/0060, loss {4 / (e + b / 60):.4f}\n" for b in range(0, 61, 10))
        text += f"VALID epoch {e:02}/5, {result.format(5 / e, 9 / e)}\n"
    log = read(text)
    assert log.records.height == 35
    assert log.evals.filter(name="val_loss").height == losses
    assert log.evals["name"].n_unique() == 2 + (losses > 0)


@pytest.mark.parametrize(("total", "records"), [(46, 20), (180, 36)])
def test_loop_names_its_set_at_the_first_measure_where_it_counts_to_another_total(
    total: int, records: int, read: Callable[[str], Log]
) -> None:
    text = ""
    for e in range(4):
        rows = (
            f"epoch: {e}, {b}/180, acc: 0.{50 + e}, loss: {4 / (e + 1 + b):.4f}\n" for b in range(0, 180, 40)
        )
        tested = range(0, total, total // 4 + 1)
        text += "".join(rows) + "".join(
            f"epoch: {e}, {b}/{total}, eval_acc: 0.{60 + e}, loss: {5 / (e + 1 + b):.4f}\n" for b in tested
        )
    log = read(text)
    assert log.records.height == records
    assert (log.evals.filter(name="val_loss").height > 0) == (total == 46)
