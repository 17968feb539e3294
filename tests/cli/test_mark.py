"""`gputel mark` in a recorded command: what it prints is kept in the run's output."""

from pathlib import Path

from click.testing import CliRunner

from gputel.cli import group
from gputel.telemetry import events, run_folder


def test_secret_is_neither_kept_nor_printed(tmp_path: Path) -> None:
    segment = run_folder.create(tmp_path / "run", {"run": "run"})
    answer = CliRunner().invoke(group, ["mark", "new data, token=Mm4secret", "--run", str(tmp_path / "run")])
    assert answer.exit_code == 0
    assert answer.stderr == f"marked {tmp_path / 'run'}: new data, token=***\n"
    assert [event["text"] for event in events.read(segment.path)] == ["new data, token=***"]
