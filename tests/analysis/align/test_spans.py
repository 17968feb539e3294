"""A run is cut into spans: what each stretch of its time was, with no gap and no overlap."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.align import per_step
from gputel.analysis.align.join import measured
from gputel.analysis.align.marks import LogMark
from gputel.analysis.align.spans import cut_spans, of_marks
from gputel.analysis.documents.report_tables import phase_name
from gputel.analysis.runs import RunData, read_run
from tests.recordings.printed import SECOND, kinds_and_seconds, saved, step, validation

Recorded = Callable[..., RunData]


def every(
    stride: int, count: int, first: int = 0, second: float = 10.0, each: float = 1.0
) -> list[tuple[float, str]]:
    """Records of every `stride`th step, each step of `each` seconds; the first one is printed at `second`."""
    return [(second + n * stride * each, step(first + n * stride)) for n in range(count)]


@pytest.mark.parametrize("stride", [1, 10])
def test_record_stands_for_the_steps_since_the_one_before(recorded: Recorded, stride: int) -> None:
    cut = cut_spans(recorded([(0, 60, every(stride, 5))])).filter(kind="train")
    assert cut["step"].to_list() == [0, stride, 2 * stride, 3 * stride, 4 * stride]
    assert cut["steps"].to_list() == [1, *[stride] * 4]


@pytest.mark.parametrize(("first", "stands_for"), [(0, 1), (1, 1), (10, 10), (9, 10), (5010, 10), (4, 4)])
def test_first_record_of_every_tenth_step(recorded: Recorded, first: int, stands_for: int) -> None:
    cut = cut_spans(recorded([(0, 90, every(10, 4, first, second=20))])).filter(kind="train")
    assert cut["steps"].to_list() == [stands_for, 10, 10, 10]


def test_before_the_first_record_is_its_start_and_after_the_last_one_it_is_idle(recorded: Recorded) -> None:
    cut = cut_spans(recorded([(0, 20, every(1, 3))]))
    assert kinds_and_seconds(cut) == [
        ("start", 0, 9), ("train", 9, 10), ("train", 10, 11), ("train", 11, 12), ("idle", 12, 20),
    ]  # fmt: skip


def test_first_step_that_says_how_long_it_took_is_believed(recorded: Recorded) -> None:
    lines = [(10.0, step(0, dt_ms=1400)), (11.0, step(1, dt_ms=1000)), (12.0, step(2, dt_ms=1000))]
    cut = kinds_and_seconds(cut_spans(recorded([(0, 12, lines)])))
    assert cut[:2] == [("start", 0, 8.6), ("train", 8.6, 10)]


def test_what_compilation_adds_to_the_first_step_belongs_to_the_start(recorded: Recorded) -> None:
    lines = [(10.0, step(0, dt_ms=6000)), (11.0, step(1, dt_ms=1000)), (12.0, step(2, dt_ms=1000))]
    assert kinds_and_seconds(cut_spans(recorded([(0, 12, lines)])))[:2] == [("start", 0, 9), ("train", 9, 10)]


def test_evaluation_between_two_steps_takes_what_they_leave(recorded: Recorded) -> None:
    lines = [*every(1, 3), (17.0, validation(3)), (18.0, step(3)), (19.0, step(4))]
    cut = cut_spans(recorded([(9, 19, lines)]))
    assert kinds_and_seconds(cut)[3:] == [("eval", 12, 17), ("train", 17, 18), ("train", 18, 19)]
    assert cut.filter(kind="eval").select("step", "text").rows() == [(3, "val_loss")]


def test_evaluation_may_lie_between_two_records_of_every_tenth_step(recorded: Recorded) -> None:
    """Steps 11 to 15, 7 s of evaluation, then 16 to 20."""
    lines = [*every(10, 4), (52.0, validation(35)), (57.0, step(40)), (67.0, step(50))]
    cut = cut_spans(recorded([(9, 67, lines)]))
    assert kinds_and_seconds(cut)[4:] == [
        ("train", 40, 45),
        ("eval", 45, 52),
        ("train", 52, 57),
        ("train", 57, 67),
    ]
    assert cut["steps"].to_list()[4:] == [0, 0, 10, 10]


def test_steps_before_an_evaluation_that_ends_the_log_are_training(recorded: Recorded) -> None:
    """Every tenth step is printed: nine steps lie between that of step 30 and the evaluation of step 40."""
    run = recorded([(0, 65, [*every(10, 4, second=20), (62.0, validation(40))])])
    assert kinds_and_seconds(cut_spans(run))[-3:] == [("train", 50, 59), ("eval", 59, 62), ("idle", 62, 65)]
    assert cut_spans(run)["steps"].sum() == 40


def test_evaluation_that_counts_otherwise_adds_no_steps(recorded: Recorded) -> None:
    run = recorded([(0, 65, [*every(10, 4, second=20), (62.0, validation(400))])])
    assert kinds_and_seconds(cut_spans(run))[-2:] == [("eval", 50, 62), ("idle", 62, 65)]


def test_step_time_that_includes_the_evaluation_does_not_hide_it(recorded: Recorded) -> None:
    """nanoGPT's way: the record after an evaluation says that it took 6 s."""
    lines = [(10.0 + n, step(n, dt_ms=1000)) for n in range(3)]
    lines += [(17.0, validation(3)), (18.0, step(3, dt_ms=6000)), (19.0, step(4, dt_ms=1000))]
    assert ("eval", 12, 17) in kinds_and_seconds(cut_spans(recorded([(9, 19, lines)])))


def test_evaluation_on_the_line_of_a_record_comes_after_its_steps(recorded: Recorded) -> None:
    lines = [(10.0 + n, step(n)) for n in range(4)] + [(20.0, step(4) + " | val loss: 2.9"), (21.0, step(5))]
    assert kinds_and_seconds(cut_spans(recorded([(9, 21, lines)])))[-3:] == [
        ("train", 13, 14),
        ("eval", 14, 20),
        ("train", 20, 21),
    ]


def test_checkpoint_and_an_evaluation_in_one_gap_are_two_spans(recorded: Recorded) -> None:
    lines = [*every(1, 3), (15.0, saved(3)), (20.0, validation(3)), (21.0, step(3)), (22.0, step(4))]
    cut = cut_spans(recorded([(9, 22, lines)]))
    assert kinds_and_seconds(cut)[3:6] == [("checkpoint", 12, 15), ("eval", 15, 20), ("train", 20, 21)]
    assert cut.filter(kind="checkpoint")["text"].to_list() == [saved(3)]


def test_several_lines_of_one_evaluation_are_one_span(recorded: Recorded) -> None:
    bpb = (16.0, "Step 00003 | Validation bpb: 0.9000")
    lines = [*every(1, 3), (15.0, validation(3)), bpb, (17.0, step(3)), (18.0, step(4))]
    cut = cut_spans(recorded([(9, 18, lines)]))
    assert kinds_and_seconds(cut)[3] == ("eval", 12, 16)
    assert cut["text"][3] == "val_loss, val_bpb"


def test_gap_that_no_line_explains_is_idle(recorded: Recorded) -> None:
    lines = [*every(1, 3), (30.0, step(3)), (31.0, step(4)), (32.5, step(5))]
    assert kinds_and_seconds(cut_spans(recorded([(9, 32.5, lines)])))[3:] == [
        ("idle", 12, 29), ("train", 29, 30), ("train", 30, 31), ("train", 31, 32.5),
    ]  # fmt: skip


def test_slow_step_that_says_so_is_training(recorded: Recorded) -> None:
    lines = [(10.0 + n, step(n, dt_ms=1000)) for n in range(3)] + [(30.0, step(3, dt_ms=18_000))]
    assert kinds_and_seconds(cut_spans(recorded([(9, 30, lines)])))[-1] == ("train", 12, 30)


def test_each_attempt_has_a_usual_step_of_its_own(recorded: Recorded) -> None:
    """The first record of the second segment took what its steps take, and not what those of the first took."""
    later = [(200.0 + 5 * n, step(40 + n)) for n in range(40)]
    cut = cut_spans(recorded([(0, 60, every(1, 40)), (100, 400, later)]))
    assert kinds_and_seconds(cut)[41:44] == [("idle", 49, 100), ("start", 100, 195), ("train", 195, 200)]


def test_segments_have_a_downtime_and_a_start_each(recorded: Recorded) -> None:
    later = [(105.0 + n, step(n)) for n in range(1, 4)]
    cut = cut_spans(recorded([(0, 15, every(1, 3)), (100, 110, later)]))
    assert kinds_and_seconds(cut)[4:7] == [("idle", 12, 100), ("start", 100, 105), ("train", 105, 106)]
    assert cut["attempt"].to_list()[5:] == [2, 2, 2, 2, 2]
    assert kinds_and_seconds(cut)[-1] == ("idle", 108, 110)


def test_segment_without_an_end_ends_with_its_last_line(recorded: Recorded) -> None:
    assert kinds_and_seconds(cut_spans(recorded([(0, None, every(1, 3))])))[-1] == ("train", 11, 12)


def test_nodes_that_print_the_same_steps_have_spans_of_their_own(recorded: Recorded) -> None:
    segments = [(0, 15, every(1, 3)), (0, 15, every(1, 3, second=10.2))]
    cut = cut_spans(recorded(segments, nodes=["0", "1"]))
    assert cut["node"].unique(maintain_order=True).to_list() == ["0", "1"]
    assert kinds_and_seconds(cut.filter(node="1", kind="train"))[-1] == ("train", 11.2, 12.2)
    assert cut["attempt"].unique().to_list() == [1]


def test_spans_of_the_node_that_prints_stand_for_all_nodes(recorded: Recorded) -> None:
    cut = cut_spans(recorded([(0, 15, every(1, 3)), (0, 15, [])], nodes=["0", "1"]))
    assert "node" not in cut.columns
    assert len(cut.filter(kind="train")) == 3


def test_nodes_that_printed_no_record_have_no_spans(recorded: Recorded) -> None:
    assert cut_spans(recorded([(0, 15, []), (0, 15, [])], nodes=["0", "1"])).is_empty()


def test_run_without_a_record_has_no_spans(recorded: Recorded) -> None:
    cut = cut_spans(recorded([(0, 10, [(5.0, "hello")])]))
    assert cut.is_empty()
    assert cut.columns == ["kind", "phase", "attempt", "step", "steps", "start", "end", "text", "contains"]


waits = st.integers(0, 30 * SECOND)
others = st.lists(st.tuples(st.sampled_from(["eval", "checkpoint"]), waits), max_size=3)
gaps = st.lists(
    st.tuples(others, st.integers(1, 20), waits, st.none() | st.floats(0, 3e10)), min_size=1, max_size=20
)


def marks_of(asked: Sequence[tuple[list[tuple[str, int]], int, int, float | None]]) -> list[LogMark]:
    now, number, marks = 0, 0, [LogMark("began", 0)]
    for between, steps, wait, dt_ns in asked:
        for kind, pause in between:
            now += pause
            marks.append(LogMark(kind, now, "base", 1, number, text=kind))
        now, number = now + wait, number + steps
        marks.append(LogMark("train", now, "base", 1, number, steps, first=number == steps, dt_ns=dt_ns))
    return [*marks, LogMark("ended", now + SECOND)]


@given(gaps)
def test_spans_have_no_gap_no_overlap_and_keep_every_step(
    asked: list[tuple[list[tuple[str, int]], int, int, float | None]],
) -> None:
    held = marks_of(asked)
    cut = of_marks(held)
    assert cut["start"][0].timestamp() == 0
    assert cut["end"].dt.epoch("ns")[-1] == held[-1].time
    assert (cut["start"][1:] == cut["end"][:-1]).all()
    assert (cut["end"] >= cut["start"]).all()
    records = [mark for mark in held if mark.kind == "train"]
    training = cut.filter(pl.col("steps") > 0)
    assert training["step"].to_list() == [mark.step for mark in records]
    assert training["steps"].to_list() == [mark.steps for mark in records]


def test_log_with_stamps_starts_at_its_first_line(tmp_path: Path) -> None:
    """Downloads and compilation before the first step are the start."""
    lines = [f"2026-03-01 10:00:{n:02d}.000 {step(n, dt_ms=1000.0)}" for n in range(20, 40)]
    (tmp_path / "a.log").write_text("2026-03-01 10:00:01.000 downloading\n" + "\n".join(lines) + "\n")
    spans = cut_spans(read_run(tmp_path / "a.log"))
    assert spans["kind"].to_list()[:2] == ["start", "train"]
    assert (spans["end"][0] - spans["start"][0]).total_seconds() == pytest.approx(18)


def test_long_step_time_after_an_evaluation_is_divided_between_both(tmp_path: Path) -> None:
    """A script that evaluates within its timed loop, without timestamps: 78 of 178 seconds are evaluation."""
    lines = [step(n, dt_ms=79_000.0 if n == 50 else 1000.0) for n in range(100)]
    (tmp_path / "a.log").write_text("\n".join([*lines[:50], validation(50), *lines[50:]]) + "\n")
    spans = cut_spans(read_run(tmp_path / "a.log"))
    seconds = (pl.col("end") - pl.col("start")).dt.total_nanoseconds() / 1e9
    totals = dict(spans.group_by("kind").agg(seconds.sum()).iter_rows())
    assert totals["eval"] == pytest.approx(78)
    assert totals["train"] == pytest.approx(100)


@pytest.mark.parametrize("stride", [1, 10])
def test_evaluation_of_a_fifth_of_a_step_is_taken_out_of_it(stride: int, tmp_path: Path) -> None:
    """Steps scatter by 1 %, so that 20 % more behind each evaluation is no scatter."""
    lines, evaluated_s, even = [], 0.6, (2970, 3030, 2985, 3015, 3000)
    for number in range(0, 400, stride):
        behind = number and number % 50 == 0
        lines += [f"step {number}: train loss 3.1, val loss 3.2"] if behind else []
        dt_ms = even[number // stride % 5] + 1000 * evaluated_s * bool(behind)
        lines.append(f"iter {number}: loss 3.1000, time {dt_ms:.2f}ms, mfu 41.00%")
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    seconds = dict.fromkeys(("train", "eval"), 0.0)
    for kind, begin, end in kinds_and_seconds(cut_spans(read_run(path))):
        seconds[kind] = seconds.get(kind, 0.0) + end - begin
    assert seconds["eval"] == pytest.approx(7 * evaluated_s, abs=0.4)
    assert seconds["train"] == pytest.approx(3.0 * (400 - stride + 1), rel=0.005)


def test_whole_second_stamps_do_not_lengthen_the_steps_before_an_evaluation(tmp_path: Path) -> None:
    """Ten steps take 6.57 s: most stamps are 7 s apart, and their median would add half a second to each."""
    lines, second = [], 100.3
    for record in range(40):
        if record in (10, 20, 30):
            second += 20.0
            lines.append((second, f"Step {10 * record:05d} | Validation loss: 3.0"))
        second += 6.57
        lines.append((second, f"step {10 * record:05d} | loss: 3.0 | dt: 657.00ms"))
    path = tmp_path / "run.log"
    start = datetime(2026, 10, 3, 7, tzinfo=timezone.utc)
    path.write_text(
        "".join(f"{start + timedelta(seconds=second):%Y-%m-%d %H:%M:%S} {line}\n" for second, line in lines)
    )
    cut = cut_spans(read_run(path)).filter(kind="eval")
    assert (cut["end"] - cut["start"]).dt.total_milliseconds().mean() == pytest.approx(20_000, abs=500)


def test_save_announced_before_its_step_is_not_taken_for_training(tmp_path: Path) -> None:
    """A record covers ten steps of 3 s; evaluation and save come before the last of them."""
    path, at, lines = tmp_path / "run.log", 0.0, []
    for number in range(301):
        if number and number % 100 == 0:
            at += 14
            lines.append(f"{_stamp(at)} step {number}: train loss 3.1000, val loss 3.2000")
            lines.append(f"{_stamp(at)} saving checkpoint to out")
            at += 4
        at += 3
        if number % 10 == 0:
            lines.append(f"{_stamp(at)} iter {number}: loss 3.1000, time 3000.00ms, mfu 41.00%")
    path.write_text("\n".join(lines) + "\n")
    totals = per_step.totals(measured(cut_spans(read_run(path)), None))
    seconds = dict(totals.select("kind", "duration_s").iter_rows())
    assert seconds["eval"] == pytest.approx(3 * 14, abs=1)
    assert seconds["checkpoint"] == pytest.approx(3 * 4, abs=1)


def test_save_between_steps_that_print_no_time_at_all_is_cut(tmp_path: Path) -> None:
    """A log may print 0 ms a step: how many of them come before the save is not known."""
    path, lines = tmp_path / "run.log", []
    for number in range(0, 100, 10):
        if number == 50:
            lines.append(f"{_stamp(1)} saving checkpoint to out")
        lines.append(f"{_stamp(number > 50)} iter {number}: loss 3.1000, time 0.00ms, mfu 41.00%")
    path.write_text("\n".join(lines) + "\n")
    assert cut_spans(read_run(path)).filter(kind="train")["steps"].sum() >= 90


def test_step_printed_behind_the_save_of_the_next_one_comes_before_that_save(recorded: Recorded) -> None:
    """The loop launches step 5, reads the loss of step 4 and prints it: `step 4` stands behind `step_000005`."""
    lines = [(float(number + 1), step(number, dt_ms=1000.0)) for number in range(4)]
    lines += [(5.5, validation(5)), (5.5, saved(5)), (8.5, step(4, dt_ms=1000.0))]
    lines += [(float(number + 4.5), step(number, dt_ms=1000.0)) for number in range(5, 10)]
    spans = cut_spans(recorded([(0, 14, lines)]))
    others = [row for row in kinds_and_seconds(spans) if row[0] in ("eval", "checkpoint")]
    assert others == [("eval", 5.0, 5.5), ("checkpoint", 5.5, 8.5)]


def test_step_done_once_more_behind_a_resume_is_a_second_step_behind_a_start(recorded: Recorded) -> None:
    """The run ends in the step behind a save; copies of ranks are no second step."""
    lines = [(float(number + 1), step(number, dt_ms=1000.0)) for number in range(4)]
    lines += [(4.1, step(3, dt_ms=1000.0)), (20.0, "Resuming from checkpoint at step 3")]
    lines += [(float(number + 18), step(number, dt_ms=1000.0)) for number in range(3, 8)]
    spans = cut_spans(recorded([(0, 26, lines)]))
    assert spans["steps"].sum() == 9
    assert ("start", 4.0, 20.0) in kinds_and_seconds(spans)


@pytest.mark.parametrize("eval_s", [0.0, 0.4])
def test_evaluations_shorter_than_a_second_are_right_on_average(eval_s: float, tmp_path: Path) -> None:
    """Steps of 0.31 s, stamps of whole seconds, an evaluation and a save of 2 s after every 50th step."""
    path, at, lines, rng = tmp_path / "run.log", 0.0, [], random.Random(2)
    for number in range(4001):
        at += 0.31 * rng.uniform(0.98, 1.02)
        lines.append(f"{_stamp(at)} step {number} | loss: 3.1000 | dt: 310.00ms")
        if number and number % 50 == 0:
            at += eval_s
            lines += [f"{_stamp(at)} validation loss: 3.2", f"{_stamp(at)} saving checkpoint to out"]
            at += 2 * rng.uniform(0.9, 1.1)
    path.write_text("\n".join(lines) + "\n")
    totals = per_step.totals(measured(cut_spans(read_run(path)), None))
    seconds = dict(totals.select("kind", "duration_s").iter_rows())
    assert seconds.get("eval", 0.0) == pytest.approx(80 * eval_s, abs=6)
    assert seconds["checkpoint"] == pytest.approx(158, abs=6)


def test_evaluation_that_nothing_tells_from_the_training_is_part_of_it(tmp_path: Path) -> None:
    """An epoch's line comes out behind its evaluation, and no step time is printed."""
    path = tmp_path / "run.log"
    lines = [
        f"{_stamp(120 * epoch)} step {100 * epoch} val_loss {3 / epoch:.4f}\n"
        f"{_stamp(120 * epoch)} step {100 * epoch} loss {3 / epoch:.4f}\n"
        for epoch in range(1, 31)
    ]
    path.write_text("".join(lines))
    totals = per_step.totals(measured(cut_spans(read_run(path)), None))
    assert totals.filter(pl.col("duration_s") > 1).select("kind", "contains").rows() == [("train", "eval")]
    assert [phase_name(row) for row in totals.iter_rows(named=True)][-1] == "training and evaluation"


def _stamp(at: float) -> str:
    return f"2026-03-01 {10 + int(at) // 3600}:{int(at) // 60 % 60:02d}:{int(at) % 60:02d}"


def test_saves_of_a_late_loop_are_right_on_average_by_whole_seconds(tmp_path: Path) -> None:
    """The line of the last step comes behind the save, so only the announcement tells when that began."""
    now, lines = 0.0, []

    def line(text: str) -> None:
        lines.append(f"{datetime(2026, 10, 3, 7) + timedelta(seconds=int(now)):%Y-%m-%d %H:%M:%S} {text}\n")

    for number in range(400):
        now += 0.653
        if (number + 1) % 20:
            line(f"iter={number} loss=2.5 step_time=0.653")
            continue
        line(f"writing checkpoint to out/iter_{number + 1}")
        now += 6.0
        line(f"iter={number} loss=2.5 step_time=0.653")
    (tmp_path / "a.log").write_text("".join(lines))
    cut = cut_spans(read_run(tmp_path / "a.log")).filter(kind="checkpoint")
    each = (cut["end"] - cut["start"]).dt.total_nanoseconds() / 1e9
    assert each.mean() == pytest.approx(6.0, abs=0.1)
