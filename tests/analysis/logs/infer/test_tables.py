"""Rows of numbers get the names of the heading above them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs.infer import naming, shapes, tables
from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]


@pytest.mark.parametrize("between", [",", " | ", "  "])
def test_rows_of_numbers_are_named_by_the_heading_above_them(between: str) -> None:
    table = [between.join(cells) for cells in (("epoch", "loss", "val_loss"), ("1", "2.5", "2.75"))]
    lines = [line.encode() for line in table]
    (shape,) = shapes.line_shapes(lines[1:], lines[1:])
    shape.lines = [1]
    cells = tables.column_name(shape, lines, naming.vocabulary())
    assert [cell.column for cell in cells or ()] == ["epoch", "loss", "val_loss"]


def test_words_between_numbers_are_no_table() -> None:
    lines = [b"epoch  loss", b"1 and 2.5"]
    (shape,) = shapes.line_shapes(lines[1:], lines[1:])
    assert tables.column_name(shape, lines, naming.vocabulary()) is None


def test_a_call_above_numbers_is_no_heading() -> None:
    lines = [b"prediction <- predict(model, x.test)", b"[1] 0.8125"]
    (shape,) = shapes.line_shapes(lines[1:], lines[1:])
    shape.lines = [1]
    assert tables.column_name(shape, lines, naming.vocabulary()) is None


HEADING = [
    b"|  Epoch  |  Iteration  |  Time Elapsed  |  Mini-batch  |  Validation  |  Base Learning  |",
    b"|         |             |   (hh:mm:ss)   |     Loss     |     Loss     |      Rate       |",
    b"|====================================================================================|",
]


def test_heading_of_two_lines_names_each_cell_by_both() -> None:
    rows = [b"|       1 |           1 |       00:00:02 |       2.0135 |       2.1000 |          0.0010 |"]
    (shape,) = shapes.line_shapes(rows, rows)
    shape.lines = [3]
    cells = tables.column_name(shape, [*HEADING, *rows], naming.vocabulary())
    columns = [cell.column for cell in cells or ()]
    assert columns == ["epoch", "iteration", "total_time_min", "loss", "val_loss", "lr"]


def test_row_of_units_names_no_cell() -> None:
    lines = [b"| epoch | time | loss |", b"|       | (s)  |      |", b"| 1 | 3.5 | 2.5 |"]
    (shape,) = shapes.line_shapes(lines[2:], lines[2:])
    shape.lines = [2]
    cells = tables.column_name(shape, lines, naming.vocabulary())
    assert [cell.source for cell in cells or ()] == ["epoch", "time", "loss"]


@pytest.mark.parametrize(
    "heading",
    [
        ("      |     train     |      valid    ", " epoch | loss    f1    | loss    f1    "),
        ("|       | train |      | valid |      |", "| epoch | loss  |  f1  | loss  |  f1  |"),
        ("              train              valid", " epoch     loss     f1     loss     f1"),
        ("| epoch | train | train | valid | valid |", "| epoch | loss  |  f1  | loss  |  f1  |"),
    ],
)
def test_sets_above_the_titles_name_the_figures_of_each_set(heading: tuple[str, str], read: Read) -> None:
    rows = (f" {e:5d} | {2 / e:.4f}  0.{e}1 | {3 / e:.4f}  0.{e}0" for e in range(1, 9))
    text = "\n".join([*heading, "-" * 40, *rows])
    if "|" not in heading[0]:
        text = text.replace("|", " ")
    log = read(text if not heading[0].startswith("|") else text.replace("  0", " | 0"))
    assert log.records.select("step", "loss", "train_f1").rows()[1] == (2, 1.0, 0.21)
    assert log.evals.filter(step=2).select("name", "value").rows() == [("val_loss", 1.5), ("valid_f1", 0.2)]


def test_measures_above_the_sets_name_the_figures_of_each_set(read: Read) -> None:
    heading = ("              loss               f1", " epoch     train     valid     train     valid")
    rows = (f" {e:5d}     {2 / e:.4f}     {3 / e:.4f}     0.{e}1     0.{e}0" for e in range(1, 9))
    log = read("\n".join([*heading, *rows]))
    assert log.records.select("step", "loss", "train_f1").rows()[1] == (2, 1.0, 0.21)
    assert log.evals.filter(step=2).select("name", "value").rows() == [("val_loss", 1.5), ("valid_f1", 0.2)]


def test_more_groups_of_titles_than_sets_are_numbered(read: Read) -> None:
    heading = ("          train      valid", " epoch   loss   loss   loss")
    rows = (f" {e:5d}   {2 / e:.4f}   {3 / e:.4f}   {4 / e:.4f}" for e in range(1, 9))
    log = read("\n".join([*heading, *rows]))
    assert log.evals.is_empty()
    assert log.records.select("loss", "loss_2", "loss_3").row(0) == (2.0, 3.0, 4.0)


@pytest.mark.parametrize(
    ("row", "names"),
    [
        (b"loss     |     2.876  |     2.958", ["loss", "val_loss"]),
        (b"accuracy |     0.111  |     0.000", ["training_accuracy", "validation_accuracy"]),
        (b"loss     |     2.876", None),
        (b"loss     |     2.876  |     2.958 | 4", None),
    ],
)
def test_heading_of_sets_names_the_cells_of_a_measure(row: bytes, names: list[str] | None) -> None:
    lines = [b"             Training |  Validation", row]
    (shape,) = shapes.line_shapes([row], [row])
    shape.lines = [1]
    cells = tables.column_name(shape, lines, naming.vocabulary())
    assert (None if cells is None else [cell.column for cell in cells]) == names


@pytest.mark.parametrize(("first", "place"), [(1, "epoch"), (0, "   ")])
def test_index_of_a_frame_is_the_step_where_no_column_is(first: int, place: str, read: Read) -> None:
    cells = [(str(row + 1) if place.strip() else "", 2 / (row + 1), 3 / (row + 1)) for row in range(9)]
    rows = "".join(f"{row}  {e:>5}  {t:10.4f}  {v:8.4f}\n" for row, (e, t, v) in enumerate(cells))
    log = read(f"   {place:>5}  train_loss  val_loss\n{rows}")
    assert log.records["step"].to_list() == [row + first for row in range(9)]
    assert log.records["loss"][0] == 2.0
    assert log.evals.filter(name="val_loss")["value"][0] == 3.0


def test_index_of_a_frame_is_no_step_beside_a_longer_name_of_one(read: Read) -> None:
    rows = "".join(f"{row}   {row + 1:>18}  {2 / (row + 1):19.4f}\n" for row in range(9))
    log = read(f"    training_iteration  episode_reward_mean\n{rows}")
    assert log.records["step"].to_list() == [*range(1, 10)]
    assert log.records["episode_reward_mean"][0] == 2.0


@pytest.mark.parametrize("between", [" | ", "\t"])
def test_title_of_the_timestamps_names_no_value(between: str, read: Read) -> None:
    rows = [[f"2025-04-22 22:56:{s:02}", str(10 * s), f"{9 / s:.4f}", f"{8 / s:.4f}"] for s in range(1, 10)]
    log = read(
        "".join(between.join(row) + "\n" for row in [["Time", "Step", "Train Loss", "Val Loss"], *rows])
    )
    assert log.records["step"].to_list() == [*range(10, 100, 10)]
    assert (log.records["loss"][0], log.evals["value"][0]) == (9.0, 8.0)
    assert log.records["time"].n_unique() == 9


def test_titles_that_end_elsewhere_name_no_frame() -> None:
    lines = [b"epoch   loss   val", b"0      1    2.5    2.75"]
    (shape,) = shapes.line_shapes(lines[1:], lines[1:])
    shape.lines = [1]
    assert tables.column_name(shape, lines, naming.vocabulary()) is None


def test_rows_of_measures_below_an_epoch_have_a_cell_for_each_set(read: Read) -> None:
    head = "Metric       Train      Val\n---------------------------\n"
    rows = "Loss        {t:.4f}   {v:.4f}\nAccuracy    0.{e}100   0.{e}200\n\n"
    log = read("".join(f"Epoch {e}\n" + head + rows.format(e=e, t=3 / e, v=4 / e) for e in range(1, 9)))
    assert log.records.select("step", "loss").rows() == [(e, round(3 / e, 4)) for e in range(1, 9)]
    validated = log.evals.filter(name="val_loss").select("step", "value").rows()
    assert validated == [(e, round(4 / e, 4)) for e in range(1, 9)]


def test_heading_without_a_name_for_its_index_is_one(read: Read) -> None:
    rows = "".join(f"{row},{2 / (row + 1):.6f},0.9{row},{3 / (row + 1):.6f}\n" for row in range(9))
    log = read(f"Model: tiny\n\n,loss,acc,val_loss\n{rows}\nResults:\n")
    assert log.records["step"].to_list() == list(range(9))
    assert log.records["loss"][0] == 2.0
    assert log.evals.filter(name="val_loss")["value"][0] == 3.0


def test_totals_within_the_cells_of_a_row_are_no_columns(read: Callable[[str], Log]) -> None:
    """`0/2  40/80` are an epoch and a batch; the heading stands above a summary of the data."""
    heading = "Epoch   Batch   box   id   total\n"
    summary = "=====\ndataset summary\n{'mot': 547}\nidentities: 548\nstart index\n{'mot': 0}\n=====\n"
    rows = (f"{e}/2   {b}/80   0.{b}1   {9 - e}.5   {20 - e}.{b}\n" for e in range(3) for b in (0, 40))
    log = read(heading + summary + "".join(rows))
    assert log.records["step"].to_list() == [0, 40, 80, 120, 160, 200]
    assert log.records["loss"].to_list() == [20.0, 20.4, 19.0, 19.4, 18.0, 18.4]


def test_list_in_a_row_is_one_cell_and_its_figures_are_parts(read: Read) -> None:
    """The parts of a loss keep their names, and none of them is the loss."""
    rows = [
        f"{step:<6}[{9 / (step + 1):.2e}, {3 / (step + 1):.2e}]    [{8 / (step + 1):.2e}, 1.00e-03]    []"
        for step in range(0, 5000, 1000)
    ]
    log = read("\n".join(["Step  Train loss              Test loss               Test metric", *rows]))
    assert log.records["step"].to_list() == [0, 1000, 2000, 3000, 4000]
    assert log.records["Train_loss_2"][0] == 3.0
    assert "loss" not in log.records.columns
    assert log.evals.filter(name="Test_loss_1")["value"][0] == 8.0


def test_list_of_one_figure_is_named_by_its_heading(read: Read) -> None:
    rows = [f"{step:<6}[{9 / (step + 1):.2e}]    [{8 / (step + 1):.2e}]" for step in range(0, 5000, 1000)]
    log = read("\n".join(["Step  Train loss    Test loss", *rows]))
    assert log.records["loss"][0] == 9.0
    assert log.evals.filter(name="val_loss")["value"][0] == 8.0


def test_places_in_brackets_are_cells_of_their_own() -> None:
    lines = [b"Epoch  Step  Loss", b"[3][50] [0.25]"]
    (shape,) = shapes.line_shapes(lines[1:], lines[1:])
    shape.lines = [1]
    assert [cell.column for cell in tables.column_name(shape, lines, naming.vocabulary()) or ()] == [
        "epoch",
        "step",
        "loss",
    ]


def test_deviance_of_boosted_trees_is_the_loss_in_a_report_with_comment_signs(read: Read) -> None:
    rows = [f"## {i:6}        {9 / i:.4f}             nan     0.1000    0.0{i}33" for i in range(1, 9)]
    log = read("\n".join(["## Iter   TrainDeviance   ValidDeviance   StepSize   Improve", *rows]))
    assert log.records["step"].to_list() == list(range(1, 9))
    assert log.records["loss"][0] == 9.0
    assert log.evals.is_empty()


EMPTY_CELLS = {
    "between bars": ("| {} | {} | {} | {} |", ""),
    "a dash between bars": ("| {} | {} | {} | {} |", "-"),
    "a word between bars": ("| {} | {} | {} | {} |", "N/A"),
    "a dash between blanks": ("{:<6}{:<12}{:<10}{}", "-"),
    "between commas": ("{},{},{},{}", ""),
    "a word between commas": ("{},{},{},{}", "None"),
}


@pytest.mark.parametrize(("row", "empty"), EMPTY_CELLS.values(), ids=EMPTY_CELLS)
def test_row_with_an_empty_cell_is_a_record(read: Read, row: str, empty: str) -> None:
    """Most steps are not validated: their rows have no figure in that cell."""
    cells = [
        (step, f"{3 - step / 100:.3f}", f"{3.1 - step / 100:.3f}" if step % 30 == 0 else empty, f"0.{step}")
        for step in range(10, 100, 10)
    ]
    log = read(
        "\n".join([row.format("step", "train_loss", "val_loss", "lr"), *(row.format(*c) for c in cells)])
    )
    assert log.records["step"].to_list() == [*range(10, 100, 10)]
    assert log.records["lr"].to_list() == [step / 100 for step in range(10, 100, 10)]
    assert log.evals.select("step", "value").rows() == [(30, 2.8), (60, 2.5), (90, 2.2)]


def test_time_left_in_a_column_is_no_step_time(read: Read) -> None:
    heading = "Step (% Done)       Train Iter (time)    ETA (time)\n"
    rows = (
        f"{step} ({step / 300:.2f}%)    2{step % 7}.996 ms    {29 - step // 10} m, 58 s"
        for step in range(10, 90, 10)
    )
    log = read(heading + "\n".join(rows))
    assert all(time < 27 for time in log.records["dt_ms"])
    assert log.records["eta_min"][0] == pytest.approx(28 + 58 / 60)


SPARSE = "  Time Epoch Iteration   Loss   Dev/Loss  Accuracy\n" + "".join(
    f"{i:6d} {1:5d} {i * 50:9d} {3 / i:8.5f} {f'{3.5 / i:8.5f}' if i % 4 == 0 else '':8} {40 + i / 3:11.4f}\n"
    for i in range(1, 13)
)


def test_rows_with_empty_cells_are_named_as_whole_rows_near_them(read: Read) -> None:
    log = read(SPARSE)
    assert log.records["step"].to_list() == [50 * i for i in range(1, 13)]
    assert log.records["Accuracy"][0] == 40.3333
    assert log.evals.select("step", "value").rows() == [(200, 0.875), (400, 0.4375), (600, 0.29167)]


def test_rows_whose_values_stand_elsewhere_are_not_of_the_table(read: Read) -> None:
    heading, *rows = SPARSE.splitlines()
    moved = [" ".join(row.split()) if index % 4 != 3 else row for index, row in enumerate(rows)]
    assert read("\n".join([heading, *moved]) + "\n").records["step"].to_list() == [200, 400, 600]


KNOWN = "\n".join(
    f"Epoch {epoch}/3\n10/10 - 1s - 50ms/step - accuracy: 0.{5 + epoch}125 - loss: 0.{9 - epoch}375"
    for epoch in (1, 2, 3)
)


@pytest.mark.parametrize("between", [",", " | ", "    "])
def test_table_of_another_training_is_read_beside_records_of_a_known_format(between: str, read: Read) -> None:
    rows = [
        ("epoch", "loss", "acc"),
        ("1", "1.2031", "0.312"),
        ("2", "1.0031", "0.412"),
        ("3", "0.9033", "0.51"),
    ]
    log = read(KNOWN + "\nThe second network\n" + "\n".join(map(between.join, rows)) + "\n")
    assert log.records.select("attempt", "step", "loss").rows()[3:] == [
        (2, 1, 1.2031),
        (2, 2, 1.0031),
        (2, 3, 0.9033),
    ]


def test_table_that_repeats_the_records_is_no_training(read: Read) -> None:
    rows = (
        "epoch  accuracy  loss",
        "1  0.612512  0.837521",
        "2  0.712512  0.737523",
        "3  0.812522  0.637519",
    )
    assert read("\n".join([KNOWN, *rows, ""])).records.height == 3


def test_result_of_a_trial_is_no_record(read: Read) -> None:
    result = "Result(metrics={{'loss': {}, 'accuracy': 0.81, 'training_iteration': {}}}, path='/runs/{}')\n"
    assert read("".join(result.format(0.5 + at / 8, at, at) for at in (1, 2, 3))).records.is_empty()
