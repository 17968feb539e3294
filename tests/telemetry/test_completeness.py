"""What a run folder lacks, named in one line each."""

import os
import runpy
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from gputel.telemetry import completeness, run_folder
from tests.sources import ROOT


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "run"
    fuzzer = runpy.run_path(str(ROOT / "benchmarks" / "fuzz_changes.py"))
    fuzzer["recording"](path, compacted=True)
    return path


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


def faults(run: Path) -> list[str]:
    segments = run_folder.open_folder(run).segments
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        descriptions = [run_folder.readable_facts(segment.path) for segment in segments]
        completeness.warn(segments, descriptions)
    return [str(warning.message).removeprefix(f"{run}/") for warning in caught]


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_whole_recording_lacks_nothing(whole: Path) -> None:
    assert faults(whole) == []


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("run.json", "run.json: cannot be read and is left out (no run is here)"),
        ("output.log", "output.log: is missing (what the command printed is left out)"),
        ("output.idx", "output.idx: is missing (the lines of the output have no recorded times)"),
        ("gpu", "gpu: is missing (what was sampled is left out)"),
        ("gpu/fast-000002.parquet", "gpu: is incomplete (tier fast lacks part 2)"),
    ],
)
def test_missing_file_is_named(run: Path, name: str, fault: str) -> None:
    remove(run / name)
    assert faults(run) == [fault]


def cut(path: Path, size: int) -> None:
    os.truncate(path, size)


@pytest.mark.parametrize(
    ("name", "size", "fault"),
    [
        ("output.log", 700, "output.log: is incomplete (700 of 1,910 bytes are left)"),
        (
            "output.idx",
            200,
            "output.idx: is incomplete (it has the times of 566 of 1,910 bytes of the output)",
        ),
    ],
)
def test_half_copied_file_is_named(run: Path, name: str, size: int, fault: str) -> None:
    cut(run / name, size)
    assert faults(run) == [fault]


@pytest.mark.parametrize(
    "name", ["output.log", "output.idx", "events.jsonl", "run.json", "gpu", "gpu/x-000009.gtb"]
)
@pytest.mark.parametrize(
    "put", [lambda path: path.symlink_to("/dev/zero"), os.mkfifo], ids=["device", "pipe"]
)
def test_foreign_file_is_named_and_the_rest_is_read(
    run: Path, name: str, put: Callable[[Path], None]
) -> None:
    if (run / name).exists():
        remove(run / name)
    put(run / name)
    assert [line.partition(":")[0] for line in faults(run) if "no file of this folder" in line] == [name]


def test_recording_that_has_just_begun_lacks_nothing(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "new", {"run": "a", "argv": ["train"], "gpus": [{"gpu": "0"}]})
    (tmp_path / "new" / "gpu").rmdir()
    assert faults(tmp_path / "new") == []


def test_recording_that_goes_on_may_have_output_beyond_its_index(run: Path) -> None:
    run_folder.update(run, ended=None)
    cut(run / "output.idx", 200)
    assert faults(run) == []
