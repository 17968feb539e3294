"""Event files of ours, read by TensorBoard's reader and by ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.exports import event_files
from gputel.analysis.exports.series import ExportedRun, TagSeries, exported
from gputel.analysis.runs import read_run
from gputel.analysis.stores.event_files import EventDecoder
from gputel.telemetry.errors import GputelError

TEXT = "vocab_size: 50,304\n" + "".join(
    f"2026-11-22 10:00:{n:02} step {n} | loss {9 / (n + 1):.4f} | lr 0.1\n"
    + (f"2026-11-22 10:00:{n:02} step {n} | val_loss {8 / (n + 1):.4f}\n" if n % 5 == 4 else "")
    for n in range(20)
)


@pytest.fixture
def run(tmp_path: Path) -> ExportedRun:
    (tmp_path / "a.log").write_text(TEXT)
    return exported(read_run(tmp_path / "a.log"))


def test_reader_of_tensorboard_gives_equal_values_steps_and_times(run: ExportedRun, tmp_path: Path) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    path = event_files.write(run, tmp_path / "tb")
    accumulator = loader.EventAccumulator(str(path), size_guidance={"scalars": 0}).Reload()
    assert sorted(accumulator.Tags()["scalars"]) == sorted(each.tag for each in run.series)
    for series in run.series:
        events = accumulator.Scalars(series.tag)
        assert [event.step for event in events] == series.steps.tolist()
        assert [event.wall_time for event in events] == series.times.tolist()
        assert [event.value for event in events] == series.values.astype(np.float32).tolist()


def test_run_that_is_read_back_equals_the_log(run: ExportedRun, tmp_path: Path) -> None:
    event_files.write(run, tmp_path / "tb")
    log, back = read_run(tmp_path / "a.log").log, read_run(tmp_path / "tb" / "a").log
    assert back.records["step"].to_list() == log.records["step"].to_list()
    assert back.records["time"].to_list() == log.records["time"].to_list()
    assert back.records["loss"].to_list() == pytest.approx(log.records["loss"].to_list(), rel=1e-7)
    assert back.evals["name"].to_list() == log.evals["name"].to_list() == ["val_loss"] * 4
    assert back.config["vocab_size"] == 50304
    assert not back.rejects


def test_second_export_makes_the_same_bytes(run: ExportedRun, tmp_path: Path) -> None:
    path = event_files.write(run, tmp_path)
    before = path.read_bytes()
    assert event_files.write(run, tmp_path) == path
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_two_runs_of_one_name_are_two_runs_and_each_replaces_itself(tmp_path: Path) -> None:
    """TensorBoard shows all files of a folder as one run."""
    for folder, loss in (("one", 9), ("two", 8)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.log").write_text(
            "".join(f"step {n} | loss {loss - n}.0\n" for n in range(5))
        )
    runs = [exported(read_run(tmp_path / folder / "train.log")) for folder in ("one", "two")]
    paths = [event_files.write(run, tmp_path / "tb") for run in runs]
    assert [event_files.write(run, tmp_path / "tb") for run in runs] == paths
    assert [path.parent.name for path in paths] == ["train", f"train-{runs[1].key}"]
    assert [read_run(path.parent).log.records["loss"][0] for path in paths] == [9, 8]


def test_foreign_event_file_is_not_overwritten(run: ExportedRun, tmp_path: Path) -> None:
    path = event_files.write(run, tmp_path)
    path.write_bytes(b"another's")
    with pytest.raises(GputelError, match="not written by gputel"):
        event_files.write(run, tmp_path)


@given(st.lists(st.tuples(st.integers(0, 2**62), st.floats(width=32)), min_size=1, max_size=20))
def test_every_step_and_32_bit_value_is_read_back(pairs: list[tuple[int, float]]) -> None:
    steps, values = np.array([step for step, _ in pairs]), np.array([value for _, value in pairs])
    series = TagSeries("train/ä", "step", steps, np.full(len(pairs), np.nan), values)
    decoder = EventDecoder()
    block = decoder.feed(event_files.content(ExportedRun("a", "k", 0.0, {}, "completed", 0, (series,))))
    assert block.step.tolist() == steps.tolist()
    np.testing.assert_array_equal(block.value, values)
    assert not decoder.rejects
