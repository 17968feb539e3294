"""The end of a recording without a sample: what is printed of a command that fails at once."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gputel.analysis.document import FactList
from gputel.analysis.documents.short_recording import short_document
from gputel.telemetry import events, run_folder
from gputel.telemetry.clock import SECOND

START = 10**18


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A recording of 25 ms on a machine without a driver."""
    path = tmp_path / "run"
    run_folder.create(path, facts(0.025))
    events.append(path, START, "no_telemetry", "libnvidia-ml.so.1: not found")
    (path / "output.log").write_bytes(b"x" * 122)
    return path


def facts(seconds: float) -> dict[str, Any]:
    end = START + round(seconds * SECOND)
    return {"run": "d16", "simulated": "2xH100", "started": {"wall_ns": START}, "ended": {"wall_ns": end}}


def test_end_of_a_moment_says_how_long_why_nothing_was_sampled_and_where_it_is(recorded: Path) -> None:
    document = short_document(recorded)
    assert document is not None
    (printed,) = document.sections[0].items
    assert isinstance(printed, FactList)
    assert printed.known() == {
        "recorded": "25 ms; no GPU was sampled",
        "not sampled": "libnvidia-ml.so.1: not found",
        "events": "1 x no telemetry",
        "run": f"{recorded} (122 B of output, 0 B of telemetry)",
    }
    assert document.caution == "SIMULATED: 2xH100; no real GPU data"
    assert document.next == f"gputel report {recorded}"


def test_longer_recording_has_more_to_say(recorded: Path) -> None:
    run_folder.update(recorded, **facts(3.1))
    assert short_document(recorded) is None


def test_resumed_run_has_more_to_say(recorded: Path) -> None:
    run_folder.add_segment(recorded, facts(0.025))
    assert short_document(recorded) is None


def test_end_of_a_moment_imports_neither_numpy_nor_polars(recorded: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from gputel.cli import show; "
        "from gputel.analysis.documents.short_recording import short_document; "
        "show.document(short_document(Path(sys.argv[1])), sys.stderr); "
        "sys.exit(bool({'numpy', 'polars'} & set(sys.modules)))"
    )
    assert (
        subprocess.run([sys.executable, "-c", program, str(recorded)], stderr=subprocess.DEVNULL).returncode
        == 0
    )
