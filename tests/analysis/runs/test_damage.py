"""Damaged run folders under the commands: an answer or one line, never a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources import ROOT

FUZZER = ROOT / "benchmarks" / "fuzz_run_folders.py"


@pytest.mark.long
def test_commands_survive_run_folders_that_are_damaged_at_random() -> None:
    command = [sys.executable, str(FUZZER), "--seconds", "15", "--seed", "7"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout


def test_info_names_a_damaged_part_in_one_line_and_tells_the_rest(
    tmp_path: Path,
) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(FUZZER.parent)!r})\n"
        "from pathlib import Path; from fuzz_run_folders import recording\n"
        f"recording(Path({str(tmp_path / 'run')!r}), compacted=True)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    part = tmp_path / "run" / "gpu" / "fast-000002.parquet"
    part.write_bytes(part.read_bytes()[:-9])
    answer = subprocess.run(
        [sys.executable, "-m", "gputel", "info", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in answer.stderr.splitlines() if line.startswith("warning: ")]
    assert len(lines) == 1
    assert lines[0].startswith(f"warning: {part}: cannot be read and is left out (")
    assert "power_w" in answer.stdout
