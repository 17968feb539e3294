"""When the lines of a log were written, and how sure that is, where no recorder stamped them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path

import pytest

from gputel.analysis import runs
from gputel.analysis.align import timestamps
from gputel.analysis.align.join import measured
from gputel.analysis.align.offsets import overlap
from gputel.analysis.align.samples import gpu_samples
from gputel.analysis.align.spans import cut_spans
from gputel.analysis.align.timestamps import timed_log
from gputel.analysis.runs import read_run
from gputel.telemetry.errors import GputelError
from tests.recordings.printed import SECOND, START, kinds_and_seconds, step, validation

Log = Callable[..., Path]
Table = Callable[..., Path]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """A log of these lines, last written so many seconds after the start."""

    def log(lines: Sequence[str], written: float) -> Path:
        path = tmp_path / "train.log"
        path.write_text("".join(f"{line}\n" for line in lines))
        os.utime(path, ns=(START, START + round(written * SECOND)))
        return path

    return log


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A CSV of one GPU at 10 Hz: 500 W between two moments, 70 W before and after them."""

    def table(begin: float, end: float, busy_from: float, busy_to: float, *, shift: float = 0.0) -> Path:
        rows = []
        for tick in range(round(begin * 10), round(end * 10)):
            moment = datetime.fromtimestamp(START / 1e9 + tick / 10 + shift, timezone.utc)
            watts = 500 + tick % 7 if busy_from <= tick / 10 < busy_to else 70
            rows.append(f"{moment:%Y-%m-%dT%H:%M:%S.%f},{tick / 10 - begin:.1f},{watts},40\n")
        path = tmp_path / "gpu_metrics.csv"
        path.write_text("timestamp,elapsed_sec,gpu0_power_w,gpu0_temp_c\n" + "".join(rows))
        return path

    return table


STEPS = [step(n, dt_ms=1000) for n in range(100)]


def test_stamps_go_before_everything(log: Log) -> None:
    stamped = [f"2026-03-01 10:00:{n:02d}.250 {step(n, dt_ms=900)}" for n in range(10, 15)]
    tables = timed_log(read_run(log(stamped, 9999)))
    assert (tables.how, tables.uncertainty_s) == ("by the stamps of its lines", 0.001)
    times = tables.records["time"].dt.epoch("ns")
    assert times.to_list() == [START + n * SECOND + SECOND // 4 for n in range(10, 15)]


def test_stamps_of_whole_seconds_are_spread_within_them(log: Log) -> None:
    stamped = [f"2026-03-01 10:00:{n // 4:02d} {step(n)}" for n in range(40)]
    subject = read_run(log(stamped, 9999))
    tables = timed_log(subject)
    assert tables.how == "by the stamps of its lines, which are whole seconds"
    assert tables.uncertainty_s == 1
    lengths = (cut_spans(subject)["end"] - cut_spans(subject)["start"]).dt.total_milliseconds().to_list()
    assert lengths[1:] == [250] * 39


def test_times_of_steps_are_counted_back_from_the_time_of_the_file(log: Log) -> None:
    subject = read_run(log([*STEPS[:50], validation(50), *STEPS[50:]], 500))
    tables = timed_log(subject)
    assert tables.how is not None
    assert tables.how.startswith(
        "by the sum of its times of steps, which times steps alone, set by the time of its file"
    )
    assert tables.uncertainty_s is None
    cut = cut_spans(subject)
    assert kinds_and_seconds(cut)[0] == ("train", 400, 401)
    assert kinds_and_seconds(cut)[-1] == ("train", 499, 500)
    assert cut["kind"].unique().to_list() == ["train"]  # the time of the evaluation is unknown


def test_total_time_is_taken_where_not_every_step_was_printed(log: Log) -> None:
    lines = [f"{step(10 * n, dt_ms=999)} | total time: {n / 2:.2f}m" for n in range(10)]
    tables = timed_log(read_run(log(lines, 1000)))
    assert tables.how is not None
    assert tables.how.startswith("by its own total time")
    seconds = ((tables.records["time"].dt.epoch("ns") - START) / 1e9).to_list()
    assert seconds == pytest.approx([1000 - 30 * (9 - n) for n in range(10)])


def test_total_time_that_leaves_out_first_steps_is_completed_by_their_step_times(log: Log) -> None:
    """Its clock begins after step 10; the ten steps before it took 1 s each."""
    lines = [f"{step(10 * n, dt_ms=1000)} | total time: {max(n - 1, 0) / 6:.2f}m" for n in range(10)]
    times = timed_log(read_run(log(lines, 1000))).records["time"].dt.epoch("ns")
    assert (times[9] - times[0]) / 1e9 == pytest.approx(90, abs=0.6)


def test_slow_step_does_not_speak_for_the_others(log: Log) -> None:
    """Of every tenth step one took 60 s, for it held an evaluation; the nine before it took 1 s each."""
    lines = [step(10 * n, dt_ms=60_000 if n == 5 else 1000) for n in range(10)]
    times = timed_log(read_run(log(lines, 1000))).records["time"].dt.epoch("ns")
    assert (times[5] - times[4]) / 1e9 == pytest.approx(60 + 9 * 1.0)


def test_log_that_tells_no_time_is_not_placed(log: Log) -> None:
    subject = read_run(log([step(n) for n in range(10)], 100))
    assert timed_log(subject).how is None
    assert cut_spans(subject).is_empty()


def test_beside_readings_the_uncertainty_is_what_the_gpus_tell(log: Log, table: Table) -> None:
    """100 s of steps, in 110 s of work: somewhere in it, 10 s were something else."""
    subject = runs.from_table_and_log(table(0, 200, 40, 150), log(STEPS, 151))
    tables = timed_log(subject)
    assert tables.uncertainty_s == pytest.approx(13, abs=1.1)
    row = measured(cut_spans(subject), subject.gpu).filter(step=99).to_dicts()[0]
    assert row["power_mean_w"] < 500  # the file was written a second after the work was done


def test_copied_log_is_set_into_the_work_of_the_gpus(log: Log, table: Table) -> None:
    subject = runs.from_table_and_log(table(0, 200, 40, 140), log(STEPS, 999_999))
    tables = timed_log(subject)
    assert tables.how is not None
    assert "set into the 100 s in which the GPUs were busy" in tables.how
    assert tables.uncertainty_s == 1
    assert kinds_and_seconds(cut_spans(subject))[-1] == ("train", 139, 140)


def test_nothing_is_guessed_where_the_gpus_were_never_idle(log: Log, table: Table) -> None:
    subject = runs.from_table_and_log(table(0, 200, -1, 300), log(STEPS, 999_999))
    assert timed_log(subject).how is None


def test_offset_moves_the_readings(log: Log, table: Table) -> None:
    stamped = [f"2026-03-01 10:00:{n:02d}.000 {step(n)}" for n in range(10, 50)]
    csv = table(0, 60, 20, 40)
    ahead = runs.from_table_and_log(csv, log(stamped, 99), offset_s=5)
    row = measured(cut_spans(ahead), ahead.gpu).filter(step=23).to_dicts()[0]
    assert row["power_mean_w"] == 70  # from 22 to 23, which was 17 to 18 by its own clock
    plain = runs.from_table_and_log(csv, log(stamped, 99))
    assert measured(cut_spans(plain), plain.gpu).filter(step=23)["power_mean_w"][0] > 400


@pytest.mark.parametrize(("hours", "hint"), [(7, -7 * 3600.0), (-5.5, 5.5 * 3600), (7.1, None)])
def test_time_zone_is_recognized(log: Log, table: Table, hours: float, hint: float | None) -> None:
    stamped = [f"2026-03-01 10:00:{n:02d}.500 {step(n)}" for n in range(10, 50)]
    subject = runs.from_table_and_log(table(0, 60, 10, 50, shift=hours * 3600), log(stamped, 99))
    sampled = gpu_samples(subject)
    assert sampled is not None
    found = overlap(cut_spans(subject), sampled.edges)
    assert found is not None
    assert (found["shared_s"], found["offset_s"]) == (0, hint)


@pytest.mark.parametrize(
    ("clock", "hours", "days", "joins"),
    [("10:00", 1.0, 3, True), ("10:00", 1.0, 0, True), ("10:00", 40.0, 3, False), ("13:00", 1.0, 3, False),
     ("00:00", 30.0, 40, False)],
    ids=["copied later", "written at once", "two days would do", "no day would do", "may count from the start"],
)  # fmt: skip
def test_times_of_day_are_of_the_day_of_the_readings(
    clock: str, hours: float, days: int, joins: bool, log: Log, tmp_path: Path
) -> None:
    """The readings begin at 9:59:50 on March 1st; the log's file is written some days later."""
    stamped = [f"{clock}:{n:02d}.500 {step(n)}" for n in range(10, 50)]
    path = tmp_path / "gpu.csv"
    seconds = [(START / SECOND) + 3600 * hours * n / 100 - 10 for n in range(101)]
    rows = [f"{datetime.fromtimestamp(at, timezone.utc):%Y-%m-%dT%H:%M:%S.%f},0,300\n" for at in seconds]
    path.write_text("timestamp,gpu,power_w\n" + "".join(rows))
    subject = runs.from_table_and_log(path, log(stamped, days * 86_400 + 60))
    sampled, placed = gpu_samples(subject), timed_log(subject)
    assert sampled is not None
    found = overlap(cut_spans(subject), sampled.edges)
    assert found is not None
    assert (found["share"] == 1.0) == joins
    assert (placed.how or "").endswith("the readings tell the day") == (joins and days > 0)


def test_table_that_counts_seconds_only_ends_when_its_file_was_written(tmp_path: Path, log: Log) -> None:
    path = tmp_path / "elapsed.csv"
    path.write_text("elapsed_sec,gpu0_power_w\n" + "".join(f"{n},{300 + n}\n" for n in range(60)))
    os.utime(path, ns=(START, START + 90 * SECOND))
    gpu = runs.from_table_and_log(path, log(STEPS, 90)).gpu
    assert gpu is not None
    assert gpu["time"].dt.epoch("ns").to_list()[::59] == [START + 31 * SECOND, START + 90 * SECOND]


def test_table_without_readings_is_an_error(log: Log) -> None:
    with pytest.raises(GputelError, match="no GPU readings were found in it"):
        runs.from_table_and_log(log(STEPS, 1), log(STEPS, 1))


def test_pauses_shorter_than_two_minutes_belong_to_the_work(log: Log, table: Table) -> None:
    subject = runs.from_table_and_log(table(0, 200, 40, 150), log(STEPS, 151))
    assert subject.gpu is not None
    (stretch,) = timestamps.stretches(subject.gpu)
    assert ((stretch.start - START) / 1e9, stretch.seconds) == (40, 110)
    assert timestamps.ends(subject.gpu) == (stretch.start, stretch.end)


def test_evaluation_behind_a_timestamp_has_the_time_of_its_line(tmp_path: Path) -> None:
    lines = [f"2026-03-01 10:00:{n:02d}.250 step {n:5d} | loss: 3.0 | dt: 1000.00ms" for n in range(20)]
    text = "\n".join([*lines, "2026-03-01 10:00:30.750 validation loss: 2.5", ""])
    (tmp_path / "a.log").write_text(text)
    evals = timed_log(read_run(tmp_path / "a.log")).evals
    assert [f"{time:%H:%M:%S.%f}" for time in evals["time"]] == ["10:00:30.750000"]


def test_lines_of_whole_seconds_are_placed_in_the_middle_of_what_was_cut(tmp_path: Path) -> None:
    """Records and evaluations alike: a clock that cuts is half a second early on average."""
    lines = [f"2026-03-01 10:00:{n:02d} step {n:5d} | loss: 3.0 | dt: 1000.00ms" for n in range(20)]
    (tmp_path / "a.log").write_text("\n".join([*lines, "2026-03-01 10:00:30 validation loss: 2.5", ""]))
    placed = timed_log(read_run(tmp_path / "a.log"))
    assert {time.microsecond for time in (*placed.records["time"], *placed.evals["time"])} == {500_000}


def test_start_time_in_a_name_is_a_clock_though_the_file_was_copied(tmp_path: Path) -> None:
    path = tmp_path / "training_20260301_100000.log"
    path.write_text("\n".join(step(n, dt_ms=1000.0) for n in range(60)) + "\n")
    os.utime(path, (2**30, 2**30))
    placed = timed_log(read_run(path))
    assert f"{placed.records['time'][-1]:%Y-%m-%d %H:%M:%S}" == "2026-03-01 10:00:59"
    assert (
        placed.how
        == "by the sum of its times of steps, which times steps alone, set by the start time in its name"
    )
    assert placed.uncertainty_s is None


def test_lines_of_a_second_that_a_pause_ends_are_as_far_apart_as_usual(tmp_path: Path) -> None:
    """Four steps a second; in the last second before the pause two lines came, so it began in their middle."""
    seconds = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 9, 9, 10, 10, 10, 10, 11, 11, 11, 11]
    lines = [f"2026-10-03 07:00:{second:02d} step {n} | loss: 3.0" for n, second in enumerate(seconds)]
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    times = timed_log(read_run(path)).records["time"]
    shares = [round(moment.second + moment.microsecond / 1e6, 3) for moment in times]
    assert shares[12:16] == [3.125, 3.375, 9.625, 9.875]
    assert shares[4:8] == [1.125, 1.375, 1.625, 1.875]


def test_total_time_that_leaves_out_the_first_steps_is_completed_by_their_own(tmp_path: Path) -> None:
    """nanochat's leaves out ten; of a record every 20 steps, the second has half of its time."""
    lines = [
        f"step {step:05d}/00400 ({step / 4:.2f}%) | loss: 3.{step:03d} | lrm: 1.00 | dt: 3000.00ms | "
        f"tok/sec: 100,000 | mfu: 41.00 | total time: {3 * max(0, step - 10) / 60:.2f}m\n"
        for step in range(0, 401, 20)
    ]
    path = tmp_path / "run.log"
    path.write_text("".join(lines))
    times = timed_log(read_run(path)).records["time"]
    assert (times[-1] - times[0]).total_seconds() == pytest.approx(1200, abs=1)
