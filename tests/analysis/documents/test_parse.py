"""The page of logs: what curves it has, of which runs, by what."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gputel.analysis.document import Curves, Document, Table
from gputel.analysis.documents.parse import best_of, parse_document
from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]


def line(step: int, loss: float, seconds: float = 1.0) -> str:
    return (
        f"step {step:05d}/00100 ({step:.2f}%) | loss: {loss:.6f} | grad norm: 0.5000 | lrm: 1.00 | "
        f"dt: {1000 * seconds:.2f}ms | tok/sec: 1,000 | mfu: 40.00 | total time: {seconds * step / 60:.2f}m\n"
    )


def log(steps: int = 50) -> str:
    lines = [line(n, 10 - n / 10) for n in range(steps)]
    lines.insert(20, "Step 00020 | Validation bpb: 1.2000\n")
    lines.insert(40, "Step 00040 | Validation bpb: 1.1000\n")
    return "".join(lines)


def panels(page: Document) -> dict[str, Curves]:
    return {panel.name: panel for panel in page.panels() if isinstance(panel, Curves)}


def test_first_users_panels_and_more_are_there(read: Read) -> None:
    found = panels(parse_document([read(log())]))
    assert list(found) == ["loss", "loss-time", "tok_per_sec", "mfu", "grad_norm", "lrm", "dt_ms", "val_bpb"]
    assert [axis.name for axis in found["loss"].axes] == ["step", "tokens", "time"]
    assert [axis.name for axis in found["loss-time"].axes] == ["time"]
    assert (found["tok_per_sec"].y.unit, found["mfu"].y.unit, found["dt_ms"].y.unit) == ("tok/s", "%", "ms")
    assert [name for name, own in found.items() if own.steady] == ["tok_per_sec", "mfu", "grad_norm", "dt_ms"]


def test_curves_lie_on_the_epoch_that_a_log_prints(read: Read) -> None:
    lines = (f"{line(n, 10 - n / 10).rstrip()} | epoch: {1 + n // 20}\n" for n in range(50))
    loss = panels(parse_document([read("".join(lines))]))["loss"]
    assert [axis.name for axis in loss.axes] == ["step", "epoch", "tokens", "time"]
    assert loss.series[0].x["epoch"][[0, 10, 20, 40, 49]].tolist() == [1, 1.5, 2, 3, 3.45]


def test_every_printed_value_is_a_point(read: Read) -> None:
    (series,) = panels(parse_document([read(log())]))["loss"].series
    assert series.y.tolist() == [round(10 - n / 10, 6) for n in range(50)]
    assert series.x["step"].tolist() == list(range(50))
    assert np.allclose(series.x["time"][[0, -1]], [0, 49], atol=0.4)


def test_evaluations_lie_at_the_steps_that_were_evaluated(read: Read) -> None:
    (series,) = panels(parse_document([read(log())]))["val_bpb"].series
    assert (series.x["step"].tolist(), series.y.tolist(), series.style) == ([20, 40], [1.2, 1.1], "dots")


def test_runs_of_one_name_are_distinguished_and_have_colors_of_their_own(read: Read) -> None:
    page = parse_document([read(log()), read(log(30))])
    series = panels(page)["loss"].series
    assert [own.tint for own in series] == [0, 1]
    assert len({own.name for own in series}) == len(page.runs) == 2


def test_faults_stand_where_they_happened(read: Read) -> None:
    text = log(30) + line(30, float("nan")) + "torch.cuda.OutOfMemoryError: CUDA out of memory\n"
    marks = panels(parse_document([read(text)]))["loss"].marks
    assert ("oom", 30.0) in [(mark.kind, mark.x["step"]) for mark in marks]


def test_phases_of_one_log_are_curves_of_their_own(read: Read) -> None:
    text = "-----\nMid training\n" + log(20) + "\nSFT training\n" + log(25)
    page = parse_document([read(text)])
    assert len(page.runs) == 1
    assert sum(len(own.y) for own in panels(page)["loss"].series) in (45, 25)


def test_log_without_a_step_has_its_tables(read: Read) -> None:
    printed = "Evaluating: hellaswag_zeroshot (0-shot, type: multiple_choice)... "
    page = parse_document([read(f"{printed}accuracy: 0.3827 | centered: 0.1769 | time: 23.00s\n")])
    assert panels(page) == {}
    tables = [item for section in page.sections for item in section.items if isinstance(item, Table)]
    assert "0.3827" in str([table.rows for table in tables])


def test_first_table_has_a_row_for_each_attempt_and_the_status_on_the_last(read: Read) -> None:
    page = parse_document([read(log(30) + log(40))])
    runs = page.sections[0].items[0]
    assert isinstance(runs, Table)
    cells = [dict(zip(runs.columns, row, strict=True)) for row in runs.rows]
    assert [(row["phase"], row["records"], row["first loss"]) for row in cells] == [
        ("train", "30", "10.0000"),
        ("train #2", "40", "10.0000"),
    ]
    assert cells[0]["status"] is None
    assert cells[1]["best validation"] == "1.1000 bpb"


def test_terminal_gets_the_table_of_runs_and_nothing_that_takes_time_to_draw(read: Read) -> None:
    logs = [read(log())]
    (section,) = parse_document(logs, drawn=False).sections
    page = parse_document(logs)
    assert page.sections[0] == section
    assert len(list(page.panels())) == 8


def test_nothing_is_a_page_too() -> None:
    assert parse_document([]).title == "nothing"


def test_each_of_a_hundred_metrics_has_its_panel_and_what_is_left_out_is_counted(read: Read) -> None:
    def lines(metrics: int) -> str:
        values = " | ".join(f"head_{n}_norm: {n}.5" for n in range(metrics))
        return "".join(f"step {step}/100 | loss: {9 - step / 10:.4f} | {values}\n" for step in range(20))

    drawn = parse_document([read(lines(100))])
    assert {f"head_{n}_norm" for n in range(100)} <= set(panels(drawn))
    (section,) = (each for each in drawn.sections if each.title == "Other metrics")
    assert section.text == ""
    (section,) = (
        each for each in parse_document([read(lines(210))]).sections if each.title == "Other metrics"
    )
    assert section.text == "10 more metrics are not drawn; --csv has them."


def test_best_of_an_evaluation_that_falls_is_its_lowest_value() -> None:
    assert best_of({"Test_loss_1": {"min": 0.5, "max": 4.0}}) == ("Test_loss_1", "min")
    assert best_of({"test_accuracy": {"min": 0.5, "max": 0.75}}) == ("test_accuracy", "max")
