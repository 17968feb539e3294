"""facts.json beside a recording: written at its end, believed while its files have the sizes that it names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gputel.analysis.catalogue import facts
from gputel.analysis.report.summary import recording_summary
from tests.analysis.stores.compose_events import losses, version
from tests.analysis.stores.test_tensorboard import write

SCRIPT = """
for n in range(4):
    print(f"step {n} | loss {9 - n}.5 | dt: 10.00ms", flush=True)
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "run"
    words = [
        "record",
        "--simulate",
        "2xH100",
        "--out",
        str(path),
        "--tag",
        "sweep=a",
        "--",
        sys.executable,
        "-c",
        SCRIPT,
    ]
    done = subprocess.run(
        [sys.executable, "-m", "gputel", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return path


def test_recorder_ends_by_writing_the_facts(recording: Path) -> None:
    said = json.loads((recording / facts.NAME).read_text())
    assert said["facts"]["status"] == "completed"
    assert (said["facts"]["loss"], said["facts"]["steps"], said["facts"]["gpus"]) == (6.5, 3, 2)
    assert said["facts"]["gpu"] == "H100"
    assert said["facts"]["simulated"]
    assert said["settings"]["tag.sweep"] == "a"
    assert said["metrics"]["loss"]["max"] == 9.5
    assert said["files"] == facts.sizes(recording)


def test_sums_of_gpus_are_those_of_the_closing_report(recording: Path) -> None:
    found, summary = facts.computed(recording), recording_summary(recording)
    assert found
    assert found.facts["energy_j"] == pytest.approx(summary.energy_j)
    assert found.facts["bytes_gpu"] == summary.telemetry_bytes
    gaps = [gpu.measured_s / gpu.covered - gpu.measured_s for gpu in summary.gpus if gpu.covered]
    assert found.facts["gap_s"] == (pytest.approx(max(gaps)) if gaps else None)


def test_written_facts_equal_those_computed_anew(recording: Path) -> None:
    assert facts.read_facts(recording) == facts.computed(recording)


def test_facts_are_not_believed_once_a_file_has_another_size(recording: Path) -> None:
    (recording / "notes.txt").write_text("more")
    assert facts.read_facts(recording) is None
    assert facts.row_of(recording) is not None
    (recording / "notes.txt").unlink()
    assert facts.read_facts(recording) is not None


@pytest.mark.parametrize(
    "content", ["", "[]", '{"facts_version": 1}', '{"facts_version": 1, "files": {}, "facts": 3}']
)
def test_damaged_facts_are_computed_anew(recording: Path, tmp_path: Path, content: str) -> None:
    whole = (recording / facts.NAME).read_bytes()
    (recording / facts.NAME).write_text(content)
    try:
        assert facts.read_facts(recording) is None
    finally:
        (recording / facts.NAME).write_bytes(whole)


def test_every_fact_has_the_type_that_it_is_declared_with(recording: Path) -> None:
    row = facts.computed(recording)
    assert row is not None
    kinds = {"text": str, "time": str, "whole": int, "number": float}
    wrong = [
        name
        for name, cell in row.facts.items()
        if cell is not None and type(cell) is not kinds[facts.FACTS[name]]
    ]
    assert wrong == []
    assert list(row.facts) == list(facts.FACTS)


def test_store_has_facts_in_the_index_alone(tmp_path: Path) -> None:
    folder = write(tmp_path / "tb", version() + losses(range(20)))
    row = facts.row_of(folder)
    assert row is not None
    assert (row.facts["kept_by"], row.facts["steps"], row.facts["loss"]) == (
        "tensorboard",
        19,
        pytest.approx(0.4),
    )
    assert len(list(folder.iterdir())) == 1


def test_text_without_a_record_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(
        "saving checkpoint to out/\nTraceback (most recent call last):\nValueError: x\n"
    )
    assert facts.row_of(tmp_path / "notes.txt") is None
