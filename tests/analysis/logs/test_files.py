"""Many logs read in one go are what each of them is when it is read alone."""

from __future__ import annotations

import gzip
import io
import os
import queue
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from gputel.analysis.logs import files
from gputel.analysis.logs.files import read_file
from gputel.analysis.logs.log import Log
from gputel.analysis.runs.paths import parse_all, read_log, read_logs, walk
from gputel.telemetry import run_folder
from gputel.telemetry.errors import GputelError
from tests.recordings import PATIENCE_S

SAMPLES = Path(__file__).parents[3] / "sample_logs"
STEP = "step {:05d}/00900 (0.00%) | loss: {:.6f} | lrm: 1.00 | dt: 18077.85ms | tok/sec: 29,001 | mfu: 2.5\n"


def assert_alike(together: Log, alone: Log) -> None:
    for table in ("records", "evals", "partials", "events"):
        assert_frame_equal(getattr(together, table), getattr(alone, table), check_exact=True)
    for name in ("name", "source", "format", "lines", "config", "summary", "rejects", "sources", "places"):
        assert getattr(together, name) == getattr(alone, name), name
    for name in ("status", "cause", "inferred", "learned", "composed", "fault", "formats"):
        assert getattr(together, name) == getattr(alone, name), name


def all_of(paths: list[Path]) -> Iterator[Log]:
    for log in read_logs(paths):
        assert not isinstance(log, GputelError)
        yield log


def test_sample_logs_read_together_equal_each_read_alone() -> None:
    paths = list(walk(SAMPLES))
    for path, log in zip(paths, all_of(paths), strict=True):
        assert_alike(log, read_log(path))


@pytest.mark.long
def test_real_logs_read_together_equal_each_read_alone(real_logs: Path) -> None:
    paths = [path for path in walk(real_logs) if path.stat().st_size < files.SMALL]
    for path, log in zip(paths, all_of(paths), strict=True):
        assert_alike(log, read_log(path))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("no line feed at the end", STEP.format(1, 3.25) + STEP.format(2, 3.125)[:-20]),
        ("carriage returns", STEP.format(1, 3.25).replace("\n", "\r\n") * 3),
        ("colors", "\x1b[32m" + STEP.format(1, 3.25) + STEP.format(2, 3.125)),
        ("nothing", ""),
        ("one line feed", "\n"),
        ("other fields", STEP.format(0, 3.5).replace("lrm", "zeta") + STEP.format(1, 3.25)),
        ("a reject", STEP.format(1, 3.25) + "step 00002/00900 (0.00%) | loss: what | dt: 1.00ms\n"),
    ],
)
def test_unusual_log_does_not_change_its_neighbors(tmp_path: Path, name: str, text: str) -> None:
    plain = "".join(STEP.format(step, 3 - step / 1000) for step in range(40))
    for place, one in enumerate((plain, text, plain)):
        (tmp_path / f"{place}.log").write_bytes(one.encode())
    paths = list(walk(tmp_path))
    for path, log in zip(paths, all_of(paths), strict=True):
        assert_alike(log, read_log(path))


def test_unreadable_file_gives_its_error_in_its_place(tmp_path: Path) -> None:
    for name in ("a.log", "c.log"):
        (tmp_path / name).write_text(STEP.format(1, 3.25))
    found = list(read_logs([tmp_path / "a.log", tmp_path / "b.log", tmp_path / "c.log"]))
    assert [log.name if isinstance(log, Log) else log.fault for log in found] == [
        "a",
        "cannot be read: No such file or directory",
        "c",
    ]


def test_large_files_keep_their_place_among_small_ones(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(STEP.format(1, 3.25))
    (tmp_path / "b.log").write_text(STEP.format(1, 3.25) * (files.SMALL // 100))
    shutil.copy(tmp_path / "a.log", tmp_path / "c.log")
    assert [log.name for log in parse_all(tmp_path)] == ["a", "b", "c"]


def test_run_folders_keep_their_place_among_files(tmp_path: Path) -> None:
    for name in ("a.log", "c.log"):
        (tmp_path / name).write_text(STEP.format(1, 3.25))
    run_folder.create(tmp_path / "b", {"run": "d12"}).output.write_text(STEP.format(2, 3.25))
    (tmp_path / "bare").mkdir()
    assert [log.name for log in parse_all(tmp_path)] == ["a", "d12", "c"]
    faults = [log.fault for log in read_logs([tmp_path / "bare", tmp_path / "b"])]
    assert faults == ["no run is here", None]


def test_read_file_rejects_a_run_folder(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "b", {"run": "d12"})
    with pytest.raises(GputelError, match="cannot be read: Is a directory"):
        read_file(tmp_path / "b")


def test_file_with_more_bytes_than_the_limit_gives_what_was_read(tmp_path: Path) -> None:
    lines = "".join(STEP.format(step, 3.25) for step in range(900))
    (tmp_path / "bomb.log.gz").write_bytes(gzip.compress(lines.encode()))
    log = read_file(tmp_path / "bomb.log.gz", None, files.Limits(len(STEP.format(1, 3.25)) * 500))
    assert log.records.height == 500
    assert (
        log.fault
        == "could be read only in part: it has more than 50,000 bytes; --max-bytes sets how many are read"
    )


def test_reading_that_takes_long_is_said_while_the_reader_is_stuck() -> None:
    said: queue.Queue[str] = queue.Queue()

    class Stuck(io.BytesIO):
        """Hands out what it has, and no end before two lines about it were said."""

        def read1(self, size: int | None = -1) -> bytes:
            piece = super().read1(-1 if size is None else size)
            if not piece and not heard:
                heard.extend(said.get(timeout=PATIENCE_S) for _ in range(2))
            return piece

    heard: list[str] = []
    log = files.stream(
        Stuck(STEP.format(1, 3.25).encode() * 20_000),
        "a",
        "a.log",
        limits=files.Limits(say=said.put, long_s=0.001),
    )
    assert log.records.height
    assert [re.sub(r"\d+", "0", line) for line in heard] == ["a.log: 0 MB read in 0 s"] * 2


def test_pipe_without_a_writer_says_that_it_waits(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    said: queue.Queue[str] = queue.Queue()
    reader = threading.Thread(
        target=read_file, args=(tmp_path / "pipe", None, files.Limits(say=said.put)), daemon=True
    )
    reader.start()
    assert (
        said.get(timeout=PATIENCE_S)
        == f"{tmp_path / 'pipe'}: is a pipe; waiting for a process to write into it"
    )
    (tmp_path / "pipe").write_text(STEP.format(1, 3.25))
    reader.join(timeout=PATIENCE_S)
    assert not reader.is_alive()


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9, 0.999])
def test_compressed_file_that_is_cut_anywhere_leaves_its_neighbors_alone(
    tmp_path: Path, share: float
) -> None:
    packed = gzip.compress("".join(STEP.format(step, 9 / (step + 1)) for step in range(500)).encode())
    (tmp_path / "a.log.gz").write_bytes(packed[: max(int(len(packed) * share), 1)])
    (tmp_path / "b.log").write_text(STEP.format(1, 3.25))
    cut, good = read_logs([tmp_path / "a.log.gz", tmp_path / "b.log"])
    assert isinstance(good, Log)
    assert good.records.height == 1
    fault = cut.fault or ""
    assert fault.startswith(
        ("could be read only in part", "cannot be read: the compressed file is cut short")
    )


def test_bytes_behind_a_whole_compressed_file_cost_nothing_of_it(tmp_path: Path) -> None:
    packed = gzip.compress("".join(STEP.format(step, 9 / (step + 1)) for step in range(500)).encode())
    (tmp_path / "a.log.gz").write_bytes(packed + b"padding")
    log = read_file(tmp_path / "a.log.gz")
    assert log.records.height == 500
    assert (log.fault or "").startswith("could be read only in part: Not a gzipped file")
