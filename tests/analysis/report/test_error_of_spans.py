"""The stated error of the time of each kind."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from gputel.analysis import report
from gputel.analysis.runs import read_run


def test_error_of_training_time_holds_how_much_steps_scatter(tmp_path: Path) -> None:
    """Timestamps of milliseconds tell where an evaluation ends only as well as the step after it is known."""
    now, lines = datetime(2026, 11, 21, 9), []
    for step in range(60):
        if step == 30:
            now += timedelta(seconds=12)
            lines.append((now, "validation loss: 3.0000"))
        took = 1.0 + 0.04 * (step % 3 - 1)
        now += timedelta(seconds=took)
        lines.append((now, f"step {step} | loss: 3.0 | dt: {1000 * took:.2f}ms | tok/sec: 1000"))
    path = tmp_path / "run.log"
    path.write_text("".join(f"{moment:%Y-%m-%d %H:%M:%S.%f} {line}\n" for moment, line in lines))
    answer = report.answer(report.make_report(read_run(path)))
    (train,) = (row for row in answer["time"] if row["kind"] == "train")
    assert abs(train["duration_s"] - 60.0) <= train["duration_error_s"]
    assert 0.02 < train["duration_error_s"] < 0.5
