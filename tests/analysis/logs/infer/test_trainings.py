"""Several trainings in one log: what heads each, what sums up all of them, and whose evaluations stand between."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs.log import Log

HEADINGS = {
    "run": "Run {}/3",
    "seed": "seed: {}",
    "fold": "2026-05-04 10:00:0{} - INFO - ===== Fold {} =====",
    "model": "Fitting model: net{} ...",
}


def epochs(begins: float, *, last: int = 4) -> list[str]:
    """A training whose epochs have headings, and an accuracy below each."""
    lines = []
    for epoch in range(1, last + 1):
        lines += [f"Epoch {epoch}/{last}", f"Train loss: {begins - epoch / 8:.4f}"]
        lines += [f"Test acc: {0.25 + begins / 16 + epoch / 128:.4f}"]
    return lines


def steps(log: Log) -> list[list[int | None]]:
    """The steps of each attempt."""
    return [part["step"].to_list() for part in log.records.partition_by("phase", "attempt")]


def first_of_each(log: Log) -> list[tuple[int, float]]:
    """The first evaluation of each attempt: its step and its value."""
    return [part.select("step", "value").row(0) for part in log.evals.partition_by("attempt")]


@pytest.mark.parametrize("heading", HEADINGS.values(), ids=HEADINGS)
def test_evaluation_below_a_heading_is_of_the_training_that_begins(
    heading: str, read: Callable[[str], Log]
) -> None:
    lines: list[str] = []
    for at in (1, 2, 3):
        lines += [heading.replace("{}", str(at)), f"Test acc: 0.{at}0625", *epochs(3.0 + at, last=8)]
    log = read("\n".join(lines) + "\n")
    assert steps(log) == [[*range(1, 9)]] * 3
    assert first_of_each(log) == [(1, 0.10625), (1, 0.20625), (1, 0.30625)]
    assert log.evals.height == 27
    assert not log.doubts


def test_heading_below_each_training_begins_none(read: Callable[[str], Log]) -> None:
    lines: list[str] = []
    for at in (1, 2, 3):
        lines += [*epochs(3.0 + at), f"Fold {at} of 3", f"Test acc: 0.{at}0625"]
    log = read("\n".join(lines) + "\n")
    last = log.evals.filter(log.evals["line"].is_in([14, 28]))
    assert last.select("attempt", "value").rows() == [(1, 0.10625), (2, 0.20625)]


def test_heading_begins_a_training_of_records_without_a_place(read: Callable[[str], Log]) -> None:
    lines: list[str] = []
    for at in (1, 2, 3):
        lines += [f"Trial {at}", *(f"loss: {at + 1 / k:.4f}" for k in range(2, 8)), f"Test acc: 0.{at}125"]
    log = read("\n".join(lines) + "\n")
    assert steps(log) == [[None] * 6] * 3
    assert log.evals.select("attempt", "value").rows() == [(1, 0.1125), (2, 0.2125), (3, 0.3125)]


def test_heading_begins_a_training_whose_only_epoch_is_that_of_the_one_above(
    read: Callable[[str], Log],
) -> None:
    lines = [line for at in range(1, 7) for line in (f"Fold {at}", f"epoch 10 loss {at + 0.125:.4f}")]
    assert steps(read("\n".join(lines) + "\n")) == [[10]] * 6


def test_name_of_a_saved_model_begins_no_training(read: Callable[[str], Log]) -> None:
    lines = ["Model: net"]
    for step in range(100, 700, 100):
        lines += [f"step {step} loss {5 - step / 1024:.4f}", f"Model: net-{step}.ckpt"]
    assert steps(read("\n".join(lines) + "\n")) == [[100, 200, 300, 400, 500, 600]]


def test_evaluations_of_another_model_are_an_attempt_of_their_own(read: Callable[[str], Log]) -> None:
    boosted = [f"[{k}]\tvalid_set's binary_error: {0.5 - k / 512:.4f}" for k in range(1, 41)]
    trained = [f"Epoch {e}. Train loss: {1 / e:.4f}, Val accuracy: {1 - 1 / e:.4f}" for e in range(1, 7)]
    log = read("\n".join(["Fitting model: Boosted ...", *boosted, "Fitting model: Net ...", *trained]) + "\n")
    assert log.places == [("train", 1), ("train", 2)]
    assert log.evals["attempt"].to_list() == [1] * 40 + [2] * 6
    assert steps(log) == [[1, 2, 3, 4, 5, 6]]


RESULTS = {
    "runs": [f"Run {at}: val acc 0.8{at}25, test acc 0.7{at}25" for at in (1, 2, 3)],
    "names": [f"{name}: test acc 0.8{at}25" for at, name in enumerate(("gcn", "gat", "mlp"))],
    "apart": [line for at in (1, 2, 3) for line in (f"Net {at} again", f"Test loss: 0.8{at}25")],
    "deviation": ["test acc: 0.8125 ± 0.0125"],
    "deviation by name": ["mean test acc: 0.8125 std: 0.0125"],
    "mean": ["Average val loss: 0.8125"],
    "mean of folds": ["Test accuracy over 3 folds: 0.8125"],
    "cross-validation": ["CV score: 0.8125"],
    "out of fold": ["out-of-fold test loss: 0.8125"],
}


@pytest.mark.parametrize("results", RESULTS.values(), ids=RESULTS)
def test_results_of_all_trainings_are_not_those_of_the_last(
    results: list[str], read: Callable[[str], Log]
) -> None:
    lines = [
        f"Epoch {e}, loss {at + 1 / e:.4f}, val acc {1 - 1 / e:.4f}" for at in (1, 2, 3) for e in range(1, 7)
    ]
    log = read("\n".join([*lines, *results]) + "\n")
    assert len(log.evals) == 18
    assert steps(log) == [[*range(1, 7)]] * 3


def test_result_of_the_last_of_several_trainings_is_its_own(read: Callable[[str], Log]) -> None:
    lines = []
    for at in (1, 2, 3):
        lines += [f"Epoch {e}, loss {at + 1 / e:.4f}, val acc {1 - 1 / e:.4f}" for e in range(1, 7)]
        lines += [f"Test loss: 0.8{at}25", f"Test acc: 0.7{at}25"]
    results = read("\n".join(lines) + "\n").evals
    assert results.filter(results["line"] > 20)["value"].to_list()[-2:] == [0.8325, 0.7325]
    assert len(results) == 24


@pytest.mark.parametrize("result", ["Mean reward: 210.25", "Test loss: 0.8125", "Overall accuracy: 0.8125"])
def test_result_that_may_be_of_the_last_training_stays(result: str, read: Callable[[str], Log]) -> None:
    lines = [
        f"Epoch {e}, loss {at + 1 / e:.4f}, val acc {1 - 1 / e:.4f}" for at in (1, 2) for e in range(1, 7)
    ]
    log = read("\n".join([*lines, result]) + "\n")
    assert log.evals.height == 12 or log.evals["attempt"][-1] == 2


def test_mean_below_each_training_is_its_own(read: Callable[[str], Log]) -> None:
    lines = []
    for at in (1, 2, 3):
        lines += [f"Epoch {e}, loss {at + 1 / e:.4f}, val acc {1 - 1 / e:.4f}" for e in range(1, 7)]
        lines += [f"Average test loss: 0.8{at}25"]
    log = read("\n".join(lines) + "\n")
    assert log.evals.filter(log.evals["value"].is_in([0.8125, 0.8225, 0.8325]))["attempt"].to_list() == [
        1,
        2,
        3,
    ]


def test_results_of_one_training_stay(read: Callable[[str], Log]) -> None:
    lines = [f"Epoch {e}, loss {1 / e:.4f}, val acc {1 - 1 / e:.4f}" for e in range(1, 7)]
    log = read("\n".join([*lines, "test acc: 0.8125 ± 0.0125"]) + "\n")
    assert log.evals["value"][-1] == 0.8125


def test_numbered_rows_of_a_list_are_no_steps(read: Callable[[str], Log]) -> None:
    lines = [
        f"Epoch {e}: loss {at + 1 / e:.4f}, val_acc {1 - 1 / e:.4f}" for at in (1, 2) for e in range(1, 7)
    ]
    lines += ["Best settings:", *(f"{at}. lr=0.0{at}_width=8: val_acc=0.9{at}5" for at in range(1, 6))]
    log = read("\n".join(lines) + "\n")
    assert log.evals.height == 12
    assert [kind.lines for kind in log.unread_kinds] == [5]


def test_epochs_may_be_counted_alone_in_brackets(read: Callable[[str], Log]) -> None:
    lines = []
    for epoch in range(1, 5):
        losses = (6 - epoch - k / 256 for k in range(0, 250, 50))
        lines += [
            f"[{epoch}/4]",
            *(f"Step [{k}/250] loss: {loss:.4f}" for k, loss in zip(range(0, 250, 50), losses, strict=True)),
        ]
    log = read("\n".join(lines) + "\n")
    assert log.records["epoch"].to_list() == [epoch for epoch in (1, 2, 3, 4) for _ in range(5)]
    assert log.places == [("train", 1)]
    assert not log.doubts


def test_count_in_brackets_is_no_epoch_where_losses_begin_anew(read: Callable[[str], Log]) -> None:
    lines = []
    for at in range(1, 5):
        lines += [f"[{at}/4]", *(f"Step [{k}/250] loss: {6 - k / 64:.4f}" for k in range(0, 250, 50))]
    log = read("\n".join(lines) + "\n")
    assert len(log.places) == 4


def test_boxes_of_trials_are_no_records(read: Callable[[str], Log]) -> None:
    lines = []
    for at in range(4):
        lines += [f"Trial f_{at} completed after 5 iterations", "╭────────────────────╮"]
        lines += [f"│ Trial f_{at} result   │", "├────────────────────┤", "│ iteration        5 │"]
        lines += [f"│ loss           0.{at}5 │", "╰────────────────────╯"]
    log = read("\n".join(lines) + "\n")
    assert log.records.is_empty()


@pytest.mark.parametrize("measure", ["l2", "mape", "ndcg@5"])
@pytest.mark.parametrize("data", ["valid_0's", "cv_agg's", "cv_agg's valid"])
def test_boosters_give_any_measure_by_the_data_it_is_of(
    data: str, measure: str, read: Callable[[str], Log]
) -> None:
    deviation = " + 0.00125" if "agg" in data else ""
    log = read("".join(f"[{k}]\t{data} {measure}: {1 / k:.6f}{deviation}\n" for k in range(10, 90, 10)))
    assert log.evals["step"].to_list() == [*range(10, 90, 10)]
    assert log.evals["value"][0] == 0.1


def test_means_of_both_sets_over_folds_are_records(read: Callable[[str], Log]) -> None:
    line = "[{}]\tcv_agg's train auc: 0.8{} + 0.00125\tcv_agg's valid auc: 0.7{} + 0.00225\n"
    log = read("".join(line.format(k, k, k) for k in range(10, 90, 10)))
    assert log.records["step"].to_list() == [*range(10, 90, 10)]
    assert log.evals["name"].unique().to_list() == ["cv_agg_s_valid_auc"]


@pytest.mark.parametrize("trained", ["\ttraining's auc: 0.9{}1{}", ""], ids=["both", "held out"])
def test_folds_in_turn_are_doubtful(trained: str, read: Callable[[str], Log]) -> None:
    line = f"[{{}}]{trained}\tvalid_1's auc: 0.7{{}}1{{}}\n"
    rows = [(k, fold, k) for k in range(100, 700, 100) for fold in range(3)]
    text = "".join(line.format(k, *(fold, k) * (1 + bool(trained))) for k, fold, _ in rows)
    assert {doubt.what for doubt in read(text).doubts} & {"several-records", "two-losses"}


def test_numbered_results_among_records_without_a_place_are_doubtful(read: Callable[[str], Log]) -> None:
    lines = []
    for at in (1, 2, 3):
        lines += [*(f"loss: {at + 1 / k:.4f}" for k in range(2, 8)), f"run {at}: test acc 0.8{at}25"]
    assert "several-trainings" in [doubt.what for doubt in read("\n".join(lines) + "\n").doubts]


@pytest.mark.parametrize("place", ["", " at epoch {0}"])
def test_list_that_numbers_the_trainings_is_none_of_the_last(place: str, read: Callable[[str], Log]) -> None:
    lines = [
        f"Epoch {e}, loss {at + 1 / e:.4f}, val acc {1 - 1 / e:.4f}" for at in (1, 2, 3) for e in range(1, 7)
    ]
    lines += [f"Fold {at}: val acc 0.8{at}25{place.format(7 - at)}" for at in (1, 2, 3)]
    assert len(read("\n".join(lines) + "\n").evals) == 18


def test_lists_of_results_below_every_third_training_are_doubtful(read: Callable[[str], Log]) -> None:
    lines = []
    for at in range(1, 7):
        lines += [f"epoch={e} loss={at + 1 / e:.4f} val_acc={1 - 1 / e:.4f}" for e in range(1, 7)]
        lines += [f"fold {k}: val_acc=0.8{at}{k}5" for k in (1, 2, 3) if at % 3 == 0]
    assert "listed-evaluations" in [doubt.what for doubt in read("\n".join(lines) + "\n").doubts]


def test_list_of_results_below_a_known_format_is_doubtful(read: Callable[[str], Log]) -> None:
    lines = [
        f"iter {k}: loss {at + 1 / (k + 100):.4f}, time 5.00ms"
        for at in (1, 2, 3)
        for k in range(0, 600, 100)
    ]
    lines += [f"run {at}: test acc 0.8{at}25" for at in (1, 2, 3)]
    log = read("\n".join(lines) + "\n")
    assert log.evals.is_empty() or "listed-evaluations" in [doubt.what for doubt in log.doubts]


RESULT = "Result for net_{}:\n  date: 2026-05-04\n  loss: {:.4f}\n  config:\n    lr: 0.1\n  iteration: {}\n\n"


def test_results_of_several_trials_are_no_records(read: Callable[[str], Log]) -> None:
    rows = [(trial, trial + 1 / k, k) for k in range(1, 6) for trial in range(2)]
    assert read("".join(RESULT.format(*row) for row in rows)).records.is_empty()


def test_results_of_the_only_trial_are_records(read: Callable[[str], Log]) -> None:
    log = read("".join(RESULT.format(0, 1 / k, k) for k in range(1, 6)))
    assert steps(log) == [[1, 2, 3, 4, 5]]


@pytest.mark.parametrize(("line", "is_doubtful"), [("Fold {} | Epoch 1", True), ("Part {} | Epoch 1", False)])
def test_only_epochs_of_several_folds_are_doubtful(
    line: str, is_doubtful: bool, read: Callable[[str], Log]
) -> None:
    log = read("".join(f"{line.format(at)} | Train Loss {1 / at:.4f}\n" for at in range(1, 7)))
    assert ("one-step" in [doubt.what for doubt in log.doubts]) == is_doubtful


@pytest.mark.parametrize("said", ["Epoch 1 took 9.50 seconds", "Saved"])
def test_mean_of_trainings_that_count_steps_is_none_of_the_last(
    said: str, read: Callable[[str], Log]
) -> None:
    lines = []
    for at in (1, 2):
        lines += [f"step {k}: loss {at + 1 / k:.4f}" for k in range(10, 90, 10)]
        lines += [said, f"Test acc: 0.8{at}25"]
    log = read("\n".join([*lines, "Average test acc: 0.8375"]) + "\n")
    assert log.evals["value"].to_list() == [0.8125, 0.8225]


def test_mean_of_batches_in_epochs_is_of_the_training(read: Callable[[str], Log]) -> None:
    lines = []
    for epoch in (1, 2, 3):
        lines += [f"Epoch {epoch}", *(f"step {k}: loss {epoch + 1 / k:.4f}" for k in range(10, 90, 10))]
    log = read("\n".join([*lines, "Average test acc: 0.8375"]) + "\n")
    assert log.evals["value"].to_list() == [0.8375]


def opened(heading: str) -> list[str]:
    """Three trainings with a validation above the first epoch of each, and one below each epoch."""
    lines = []
    for at in (1, 2, 3):
        lines += [heading.format(at), f"val_loss: {at + 0.5:.4f}"]
        for epoch in range(1, 7):
            lines += [
                f"Epoch {epoch}",
                f"train_loss: {at + 1 / epoch:.4f}",
                f"val_loss: {at + 2 / epoch:.4f}",
            ]
    return lines


def test_evaluations_that_may_open_the_next_training_are_doubtful(read: Callable[[str], Log]) -> None:
    """No rule knows the heading, so those above the second and third training stay in the one before."""
    log = read("\n".join(opened(">> width=0.{}")) + "\n")
    assert "evaluations-of-next" in [doubt.what for doubt in log.doubts]
    assert not read("\n".join(opened("Run {}/3")) + "\n").doubts


@pytest.mark.parametrize("measures", ["loss: {:.4f}", "loss: {:.4f} | KL: 0.0265"])
def test_epoch_that_counts_to_another_total_is_of_the_next_training(
    measures: str, read: Callable[[str], Log]
) -> None:
    first = "".join(f"Epoch {e}/2 | loss: {2.5 - e / 4:.4f}\n" for e in range(2))
    second = "".join(f"Epoch {e}/8 | {measures.format(2 - e / 8)}\n" for e in range(1, 9))
    assert steps(read(first + second)) == [[0, 1], [*range(1, 9)]]


def test_step_that_is_printed_twice_with_its_total_begins_no_training(read: Callable[[str], Log]) -> None:
    line = "step {0}/9 | loss {1:.3f}\nstep {0}/9 | lr 1.0e-03 | norm 0.5{0}\n"
    assert steps(read("".join(line.format(n, 3 - n / 4) for n in range(1, 9)))) == [[*range(1, 9)]]


def test_epochs_whose_number_of_batches_varies_are_of_one_training(read: Callable[[str], Log]) -> None:
    log = "".join(
        f"Epoch {e}, batch {b}/{40 + e}, loss {3 - e / 4:.3f}\n" for e in range(1, 5) for b in (10, 20, 40)
    )
    assert len(steps(read(log))) == 1
