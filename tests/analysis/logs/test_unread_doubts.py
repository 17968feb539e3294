"""What a log prints and the reading has nowhere is a doubt, and what repeats or explains what was read is none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gputel.analysis.logs.log import Log
from gputel.analysis.logs.read_lines import ReadLines
from gputel.analysis.logs.unread_lines import Unread, UnreadLines

Read = Callable[[str], Log]


def found(text: str) -> Unread:
    lines = UnreadLines()
    for at, region in enumerate(text.encode().split(b"RECORD\n")):
        lines.add(region, np.arange(at, at + 9))
    return lines.found(ReadLines())


def lines_with(line: str) -> str:
    return "RECORD\n".join(line.format(0.5 + at / 10, at) + "\n" for at in range(4))


@pytest.mark.parametrize(
    "line",
    [
        "CP: {0:.2f}, CR: 0.25",
        "Evaluation over 10 episodes: {0:.3f}",
        "[info] step={1} L_x={0:.3f}",
        "|    EpRewMean     | {0:.3f}     |",
        "Rank-1  : {0:.2f}",
        "Top1: {0:.2f}%",
        "accuracy of the training ({0:.2f}%)",
    ],
)
def test_lines_that_recur_between_records_with_other_figures_are_found(line: str) -> None:
    (recurring,) = found(lines_with(line)).recurring
    assert (recurring.lines, recurring.line, recurring.text) == (4, 0, line.format(0.5, 0))
    assert {0.5, 0.6, 0.7, 0.8} in recurring.figures.values()


@pytest.mark.parametrize(
    "line",
    [
        "took: {0:.2f} s",
        "validation took {0:.2f}: {0:.2f}",
        "cache: {0:.2f}GB",
        "best score: {0:.2f}",
        "cat 0.8 {0:.2f}",
        "temperature: {0:.2f}",
        "at 2024-03-01 10:00:0{0:.2f}",
        "version: 1.{0:.2f}",
        "count: {1}",
        "pi: 3.14",
        "global_step/sec: {0:.2f}",
        "validation progress: {0:.2f}% [{1}/40]",
        "MEANS: [102.25, 115.5, 122.75]",  # the same settings for each part of a training
    ],
)
def test_times_settings_best_values_and_rows_of_tables_are_not(line: str) -> None:
    assert found(lines_with(line)).recurring == ()


def test_time_beside_other_figures_hides_none_of_them() -> None:
    (recurring,) = found(lines_with("time: {0:.3f} L_x: {0:.3f} D_real: 0.5")).recurring
    assert {*recurring.figures} == {"L_x", "D_real"}


def test_lines_in_one_place_are_a_report_unless_they_count() -> None:
    assert found("".join(f"score of set {at}: 0.{at}1\n" for at in range(9))).recurring == ()
    assert found("".join(f"score of step {at}: 0.{at}1\n" for at in range(9))).recurring


def training(between: str, epochs: int = 12) -> str:
    """A log whose epochs have two records each and, between them, a line that no pattern reads."""
    return "".join(
        f"epoch {epoch} step {2 * epoch + at} loss: {3 / (2 * epoch + at):.4f} lr: 1e-3\n"
        + between.format(epoch, 0.3 + epoch / 7, 3 / (2 * epoch + at)) * (at == 1)
        for epoch in range(1, epochs + 1)
        for at in (0, 1)
    )


def unread(log: Log) -> list[str]:
    return [doubt.what for doubt in log.doubts if doubt.what.startswith("unread")]


def test_figures_of_a_held_out_set_that_stand_nowhere_are_doubtful(read: Read) -> None:
    (doubt,) = read(training("test> x = {1:.4f}, y = 0.3\n")).doubts
    assert (doubt.what, doubt.line, doubt.figures["unread"]) == ("unread-figures", 3, 12)
    assert doubt.evidence == "12 lines such as `test> x = 0.4429, y = 0.3` were not read, beside 24 records"


def test_means_of_a_score_beside_records_of_nothing_but_times_are_doubtful(read: Read) -> None:
    score = "  Accuracy:\tMicro: 0.{0}51\tMacro: 0.{0}48\tWeighted: 0.{0}49\n"
    between = "  counts [{0}] of all\n" + score
    timed = "".join(f"Epoch: {epoch} \tTime: 3{epoch}s\n" + between.format(epoch) for epoch in range(1, 9))
    assert unread(read(timed)) == ["unread-figures"]
    trained = timed.replace("\tTime", "\tLoss: 2.5\tTime")
    assert unread(read(trained)) == []


@pytest.mark.parametrize(
    "between",
    [
        "-> CP: {1:.4f} of all\n",  # once an epoch: their mean
        "test> again: {2:.4f}\n",
        "test> the best is {1:.4f}: {1:.4f}\n",
    ],
)
def test_means_of_epochs_and_figures_that_are_read_elsewhere_are_not(read: Read, between: str) -> None:
    assert unread(read(training(between))) == []


@pytest.mark.parametrize("images", [0, 2_000])
def test_scores_of_captions_are_no_mean_of_the_records(images: int, read: Read) -> None:
    """Those of two sets stand below each other, and may stand below any number of lines without figures.

    Every third epoch is evaluated.
    """
    captions = "writing the caption of an image\n" * images
    parts = training("#" + captions + "Bleu_4: {1:.4f}\nof the test\nBleu_4: {1:.3f}\n#").split("#")
    lines = "".join(part for at, part in enumerate(parts) if at % 2 == 0 or at % 6 == 1)
    assert unread(read(lines)) == ["unread-figures"]


@pytest.mark.parametrize(("above", "doubts"), [(60, []), (30, ["unread-figures"])])
def test_score_that_an_evaluation_has_with_more_digits_is_read(
    above: int, doubts: list[str], read: Read
) -> None:
    lines = "".join(
        f"epoch {epoch} train_loss: {3 / epoch:.4f} val_loss: {4 / epoch:.4f} val_acc: {60 + epoch * 1.234:.3f}\n"
        f"Network on test images: {above + epoch * 1.234:.1f}%\n"
        for epoch in range(1, 12)
    )
    assert unread(read(lines)) == doubts


def test_figures_of_a_held_out_set_beside_one_that_is_read_are_doubtful(read: Read) -> None:
    assert unread(read(training("test> again: {2:.4f}, x = {1:.4f}\n"))) == []
    assert unread(read(training("again: {2:.4f}, test> x = {1:.4f}\n"))) == ["unread-figures"]


def test_epochs_above_evaluations_without_a_step_are_doubtful(read: Read) -> None:
    """Each heading has other words, so that no pattern reads them."""
    result = "val_loss={0:.4f} val_acc={1:.3f}\n"
    log = read(
        "".join(f"{'a' * at} epoch {at} {'b' * at}\n" + result.format(4 / at, at / 19) for at in range(1, 15))
    )
    assert unread(log) == ["unread-epochs"]
    assert log.evals["step"].null_count() == log.evals.height == 28
    assert unread(read("".join(result.format(4 / at, at / 19) for at in range(1, 15)))) == []


def test_epochs_above_records_without_a_step_are_doubtful(read: Read) -> None:
    heading = "===> now epoch {0} of the run\n"
    record = "loss: {0:.4f}, lr: 1e-3\n"
    log = read("".join(heading.format(at) + record.format(4 / at) for at in range(1, 15)))
    assert unread(log) == ["unread-epochs"] or log.records["step"].to_list() == [*range(1, 15)]
    assert unread(read("".join(record.format(4 / at) for at in range(1, 15)))) == []


@pytest.mark.parametrize(
    ("line", "doubted"),
    [
        ("Epoch {e} | GCN loss: {a:.3f} acc: 0.{e} | GAT loss: {b:.3f} acc: 0.1{e}", "acc"),
        ("epoch {e} step 100 loss: {a:.3f} step 200 loss: {b:.3f}", "loss"),
        ("epoch {e} loss: {a:.3f} acc: {a:.3f} | loss: {b:.3f} acc: {b:.3f}", "loss"),
        ("epoch {e} source loss {a:.3f} acc 0.{e} target loss {b:.3f} acc 0.1{e}", "acc"),
        ("epoch {e} loss {a:.3f} lr {a:.3f} mom 0.9 lr {b:.3f}", "lr"),
        ("epoch {e} loss: {a:.3f} recall=[0.1{e}, 0.2{e}], hit=[0.3{e}, 0.4{e}]", "recall"),
        ("epoch {e} loss: {a:.3f} mixture=[0.1{e}, 0.2{e}]", None),
        ("epoch {e} total loss {a:.3e}, pde loss {b:.3e}, bc loss 9.1{e}0e+00", None),
        ("epoch {e} train loss: {a:.3f} | val loss: {b:.3f}", None),
        ("epoch {e} loss: {a:.3f} lr: 0.1 loss: {a:.3f}", None),
        ("epoch {e} - ETA: 0s - loss: {b:.3f} - 2s - loss: {a:.3f}", None),
    ],
)
def test_second_value_of_a_name_on_the_lines_of_records_is_doubted(
    line: str, doubted: str | None, read: Read
) -> None:
    log = read("".join(line.format(e=e, a=3 / e, b=2 / e) + "\n" for e in range(1, 9)))
    assert [d.figures["name"] for d in log.doubts if d.what == "two-values"] == [doubted] * bool(doubted)


@pytest.mark.parametrize(
    ("lines", "kinds"),
    [
        (
            "error of the ensemble: 0.8032\n",
            ["error of the ensemble: 0.8032"],
        ),  # one line is enough for a measure
        ("error of the ensemble: 0.0938\n", []),  # the loss of step 32
        ("depth: 0.8032\n", []),
        ("took: 0.8032\n" * 4, []),
        ("depth: 0.81\ndepth: 0.82\ndepth: 0.83\n", ["depth: 0.81"]),
    ],
)
def test_kinds_of_lines_below_the_first_record_are_listed_if_their_figures_were_not_read(
    lines: str, kinds: list[str], read: Read
) -> None:
    records = "".join(f"step {step} loss {3 / step:.4f} lr 1e-3\n" for step in range(1, 40))
    assert [alike.text for alike in read(records + lines).unread_kinds] == kinds
    assert read(lines + records).unread_kinds == ()


def test_lines_above_the_first_record_of_an_excerpt_are_listed(read: Read) -> None:
    records = "".join(f"step {step} loss {3 / step:.4f} lr 1e-3\n" for step in range(700, 1200, 100))
    assert [alike.text for alike in read("ensemble error: 0.8032\n" + records).unread_kinds] == [
        "ensemble error: 0.8032"
    ]


def test_line_that_a_pattern_reads_and_no_row_has_is_listed(read: Read) -> None:
    """A record has one norm: a second one is lost, and said, also beside hundreds that are in their rows."""
    lines = [f"step {step} loss: {3 / step:.4f}\n  norm: {step / 7:.4f}\n" for step in range(1, 400)]
    lines[300] += "  norm: 8.1234\n"
    (lost,) = read("".join(lines)).unread_kinds
    assert (lost.text, lost.lines, lost.line, lost.figures) == (
        "norm: 8.1234",
        1,
        603,
        {"norm": frozenset({8.1234})},
    )
    lines[300] = lines[300].replace("8.1234", lines[300].split()[-3])
    assert read("".join(lines)).unread_kinds == ()
