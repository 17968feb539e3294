"""What a training gave by `gputel.log` and what it printed are one table: each step once, given values first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import gputel
from gputel.analysis.align.spans import cut_spans
from gputel.analysis.report.run_report import make_report
from gputel.analysis.runs import read_run
from gputel.telemetry import run_folder
from tests.command import gputel as gputel_command
from tests.recordings.printed import SECOND, START, clock, fill, kinds_and_seconds, step

ENDS = {"started": clock(0), "ended": clock(60), "argv": ["train"], "exit_code": 0}


def ns(second: float) -> int:
    return START + round(second * SECOND)


def said(kind: str, second: float, **facts: Any) -> str:
    return json.dumps({"kind": kind, "ns": ns(second), **facts})


def given(step: int, second: float, **values: float | str) -> str:
    return said("log", second, step=step, values=values)


def record(
    tmp_path: Path, lines: list[tuple[float, str]], rows: list[str], ranks: dict[int, list[str]] | None = None
) -> Path:
    """A recording of printed lines and given rows, of one process or of ranks."""
    segment = run_folder.create(tmp_path / "run", {"run": "run", **ENDS})
    fill(segment, lines)
    (segment.path / "inside").mkdir()
    for rank, mine in (ranks or {0: rows}).items():
        text = "\n".join([said("open", 0, pid=rank, rank=rank if ranks else None), *mine, ""])
        (segment.path / "inside" / f"{rank + 1}-1.jsonl").write_text(text)
    return segment.path


def test_kinds_of_lines_are_shown_beside_given_rows(tmp_path: Path) -> None:
    lines = [(n, f"step {n}: loss {4 - n:.4f}, time 12.00ms") for n in (1.0, 2.0, 3.0)]
    log = gputel.parse(record(tmp_path, lines, [given(1, 1.5, note=3.0), given(2, 2.5, note=3.5)])).log
    assert [(kind.line, kind.lines, kind.read_as) for kind in log.read_kinds] == [(1, 3, "record")]


def test_training_that_prints_nothing_has_the_given_records(tmp_path: Path) -> None:
    rows = [given(1, 1, loss=3.0), given(1, 1.1, **{"eval/loss": 2.9}), given(2, 2, loss="nan")]
    log = gputel.parse(record(tmp_path, [(0.5, "hello")], rows)).log
    assert log.records.select("step", "origin").rows() == [(1, "api"), (2, "api")]
    assert log.records["loss"].to_list() == pytest.approx([3.0, float("nan")], nan_ok=True)
    assert log.evals.select("step", "name", "value").rows() == [(1, "val_loss", 2.9)]
    assert log.records["time"].dt.epoch("ns").to_list() == [ns(1), ns(2)]
    assert (log.format, log.status) == ("gputel.log", "completed")


def test_step_that_is_printed_and_given_counts_once(tmp_path: Path) -> None:
    """Its other printed values stay."""
    lines = [(2.0, step(2, 2.5, 900)), (4.0, step(4, 2.25, 900))]
    rows = [given(number, number, loss=3 - number / 4 + 1e-9, grad_norm=1.0) for number in range(1, 6)]
    log = gputel.parse(record(tmp_path, lines, rows)).log
    assert log.records["step"].to_list() == [1, 2, 3, 4, 5]
    assert log.records["loss"].to_list() == pytest.approx([2.75, 2.5, 2.25, 2.0, 1.75])
    assert log.records["dt_ms"].to_list() == [None, 900, None, 900, None]
    assert log.records["grad_norm"].to_list() == [1.0] * 5
    assert log.records["line"].is_sorted()
    (note,) = log.notes
    assert note.startswith("loss: 1 of 2 printed values are not those that gputel.log was given (first 2.25")


def test_lines_that_waited_in_a_buffer_cost_no_step_its_time(tmp_path: Path) -> None:
    lines = [(9.0, step(number, 2.0)) for number in range(1, 9)]
    log = gputel.parse(record(tmp_path, lines, [given(number, number, lr=0.1) for number in range(1, 9)])).log
    assert log.records["time"].dt.epoch("ns").to_list() == [ns(number) for number in range(1, 9)]
    assert log.records["step"].to_list() == list(range(1, 9))
    assert log.records["line"].is_sorted()


def test_rounded_value_is_no_difference(tmp_path: Path) -> None:
    log = gputel.parse(record(tmp_path, [(1.0, step(1, 2.123457))], [given(1, 1, loss=2.1234567)])).log
    assert (log.records["loss"].to_list(), log.notes) == ([2.1234567], ())


def test_printed_line_without_a_step_is_joined_by_its_values(tmp_path: Path) -> None:
    """As Hugging Face's Trainer prints them."""
    lines = [
        (1.1, "{'loss': '2.5', 'grad_norm': '1.25', 'learning_rate': '4e-05', 'epoch': '0.1'}"),
        (2.1, "{'loss': '2.25', 'grad_norm': '1.5', 'learning_rate': '3e-05', 'epoch': '0.2'}"),
        (2.2, "{'eval_loss': '2.4', 'eval_runtime': '0.1', 'epoch': '0.2'}"),
    ]
    rows = [said("step", number / 5, step=number) for number in range(1, 11)]
    rows += [given(5, 1, loss=2.4999, grad_norm=1.2512), given(10, 2, loss=2.2502, grad_norm=1.499)]
    log = gputel.parse(record(tmp_path, lines, [*rows, given(10, 2.15, eval_loss=2.4001)])).log
    assert log.records["step"].to_list() == list(range(1, 11))
    assert log.records.filter(log.records["lr"].is_not_null()).select("step", "loss", "lr").rows() == [
        (5, 2.4999, 4e-5), (10, 2.2502, 3e-5),
    ]  # fmt: skip
    assert log.evals.filter(log.evals["name"] == "val_loss").select("step", "value").rows() == [(10, 2.4001)]


def test_printed_rows_of_a_run_that_gives_some_say_so(tmp_path: Path) -> None:
    lines = [(1.0, step(1)), (2.0, step(2))]
    log = gputel.parse(record(tmp_path, lines, [given(2, 2, lr=0.1)])).log
    assert log.records.select("step", "origin").rows() == [(1, "printed"), (2, "api")]


def test_step_that_was_repeated_after_a_restart_is_joined_by_its_time(tmp_path: Path) -> None:
    lines = [(second, step(number)) for second, number in ((1, 1), (2, 2), (11, 1), (12, 2))]
    rows = [given(number, second, lr=second) for second, number in ((1, 1), (2, 2), (11, 1), (12, 2))]
    log = gputel.parse(record(tmp_path, [(float(second), text) for second, text in lines], rows)).log
    assert log.records.select("attempt", "step", "lr").rows() == [
        (1, 1, 1),
        (1, 2, 2),
        (2, 1, 11),
        (2, 2, 12),
    ]


def test_steps_that_are_only_said_to_be_done_have_a_time(tmp_path: Path) -> None:
    rows = [said("step", number, step=number) for number in (1, 2, 3)]
    log = gputel.parse(record(tmp_path, [(0.5, "hello")], [*rows, given(3, 3, loss=1.0)])).log
    assert log.records.select("step", "loss").rows() == [(1, None), (2, None), (3, 1.0)]
    assert log.records["time"].dt.epoch("ns").to_list() == [ns(1), ns(2), ns(3)]


def test_given_evaluation_between_two_steps_is_no_training(tmp_path: Path) -> None:
    rows = [given(number, number, loss=1.0) for number in range(1, 6)]
    rows += [given(5, 9, **{"val/loss": 2.0}), *(given(number, number + 4, loss=1.0) for number in (6, 7, 8))]
    spans = cut_spans(read_run(record(tmp_path, [(0.5, "hello")], rows)))
    assert ("eval", 5.0, 9.0) in kinds_and_seconds(spans)


def test_other_ranks_keep_their_number(tmp_path: Path) -> None:
    ranks = {rank: [given(number, number, loss=1.0 + rank) for number in (1, 2)] for rank in (0, 1)}
    log = gputel.parse(record(tmp_path, [(1.0, step(1, 1.0))], [], ranks)).log
    assert log.records.select("step", "rank", "loss").sort("step", "rank", nulls_last=False).rows() == [
        (1, None, 1.0), (1, "1", 2.0), (2, None, 1.0), (2, "1", 2.0),
    ]  # fmt: skip


def test_settings_are_those_of_the_run(tmp_path: Path) -> None:
    rows = [said("config", 0.1, settings={"optimizer": {"lr": 0.1}, "depth": 4}), given(1, 1, loss=1.0)]
    log = gputel.parse(record(tmp_path, [(1.0, step(1))], rows)).log
    assert {name: log.config[name] for name in ("optimizer.lr", "depth")} == {"optimizer.lr": 0.1, "depth": 4}


def test_rows_of_a_second_segment_follow(tmp_path: Path) -> None:
    folder = record(tmp_path, [(1.0, step(1))], [given(1, 1, loss=1.0)])
    second = run_folder.add_segment(folder, {"run": "run", **ENDS, "started": clock(70), "ended": clock(90)})
    fill(second, [(72.0, step(2)), (73.0, step(3))])
    assert gputel.parse(folder).log.records.select("step", "origin").rows() == [
        (1, "api"),
        (2, None),
        (3, None),
    ]


def test_damaged_rows_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    folder = record(tmp_path, [(1.0, step(1))], ["words", given(2, 2, loss=1.0), '{"kind": "log", "ns": 1}'])
    with pytest.warns(UserWarning, match=r"1-1\.jsonl.*1 lines"):
        log = gputel.parse(folder).log
    assert log.records["step"].to_list() == [1, 2]


def test_two_runs_are_compared_by_given_values(tmp_path: Path) -> None:
    rows = [given(number, number, loss=3 - number / 10) for number in range(1, 20)]
    left = record(tmp_path / "a", [(0.5, "hello")], rows)
    right = record(tmp_path / "b", [(float(number), step(number)) for number in range(1, 20)], [])
    (right / "inside" / "1-1.jsonl").unlink()
    assert gputel.compare([left, right]).milestones.height


def test_spans_are_added_up_by_name(tmp_path: Path) -> None:
    spans = [
        said("span", end, name=name, began_ns=ns(begin))
        for begin, end, name in ((1, 2, "data"), (3, 3.5, "data"), (4, 8, "eval"))
    ]
    folder = record(tmp_path, [(1.0, step(1))], [*spans, given(1, 1, loss=1.0)])
    sums = make_report(read_run(folder)).timings
    assert sums.rows() == [("eval", 1, 4.0), ("data", 2, 1.5)]


def test_report_of_a_training_without_output_says_how_it_ended(tmp_path: Path) -> None:
    folder = record(tmp_path, [], [given(number, number, loss=1.0) for number in (1, 2, 3)])
    assert "run: completed" in gputel_command("report", folder).stdout


@pytest.mark.parametrize("huge", [2**63, 10**30, -(10**30)])
def test_numbers_that_64_bits_cannot_hold_cost_their_row_alone(tmp_path: Path, huge: int) -> None:
    rows = [given(1, 1, loss=3.0), said("span", 2, name="eval", began_ns=huge), said("log", 3, step=2)]
    rows.append(json.dumps({"kind": "log", "ns": huge, "step": 3, "values": {"loss": 2.0}}))
    run = record(tmp_path, [], rows, {huge: rows})
    subject = read_run(run)
    assert subject.log.records.select("step", "loss").rows() == [(1, 3.0)]
    assert make_report(subject).totals.height
