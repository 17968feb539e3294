"""What is kept of a log is what reading it gives; what changed, was torn or is written now is read afresh."""

from __future__ import annotations

import gzip
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from gputel.analysis import cache, logs, writers
from gputel.analysis.parse import kept, summary
from gputel.analysis.parse.log import Log
from gputel.telemetry import run

SAMPLES = Path(__file__).parents[2] / "sample_logs"
LINE = "step {:05d}/00900 (0.00%) | loss: {:.6f} | lrm: 1.00 | dt: 18.85ms | tok/sec: 29,001 | total time: 0.00m\n"
LONG_AGO = time.time() - 7 * 86_400


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GPUTEL_CACHE", raising=False)
    return tmp_path / "cache" / "gputel" / "derived"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "a.log"
    path.write_text("".join(LINE.format(step, 3 - step / 1000) for step in range(40)))
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that are read in spite of the cache."""
    seen: list[Path] = []
    really = logs._read

    def noted(path: Path, *given: Any) -> Log:
        seen.append(path)
        return really(path, *given)

    monkeypatch.setattr(logs, "_read", noted)
    return seen


def entries(home: Path) -> list[Path]:
    return sorted((home / "logs").glob("*.parts"))


def assert_alike(held: Log, fresh: Log) -> None:
    for table in ("records", "evals", "partials", "events", "steps"):
        assert_frame_equal(getattr(held, table), getattr(fresh, table), check_exact=True)
    for name in ("name", "source", "format", "lines", "config", "summary", "rejects", "sources", "places"):
        assert getattr(held, name) == getattr(fresh, name), name
    for name in (
        "status",
        "cause",
        "inferred",
        "learned",
        "composed",
        "fault",
        "formats",
        "started",
        "ended",
    ):
        assert getattr(held, name) == getattr(fresh, name), name
    assert held.is_empty == fresh.is_empty
    assert summary.run(held) == summary.run(fresh)


def test_a_kept_log_is_as_it_was_read(home: Path, tmp_path: Path, unread: list[Path]) -> None:
    for sample in logs.walk(SAMPLES):
        path = tmp_path / sample.name
        path.write_bytes(sample.read_bytes())
        os.utime(path, (LONG_AGO, LONG_AGO))
        fresh = logs.read(path, keep=True)
        unread.clear()
        held = logs.read(path)
        assert fresh.telemetry or not unread, sample.name
        assert_alike(held, fresh)


def test_only_who_will_ask_again_keeps_a_log(home: Path, log: Path) -> None:
    logs.parse(log)
    logs.parse_all(log)
    assert entries(home) == []
    logs.read(log, keep=True)
    assert len(entries(home)) == 1


def test_many_logs_are_kept_and_found(home: Path, log: Path, unread: list[Path]) -> None:
    for name in ("b.log", "c.log"):
        (log.parent / name).write_text(LINE.format(1, 2.5))
        os.utime(log.parent / name, (LONG_AGO, LONG_AGO))
    paths = [log.parent / name for name in ("a.log", "b.log", "c.log")]
    fresh = list(logs.read_all(paths, keep=True))
    assert len(entries(home)) == 3
    (home / "logs").joinpath(entries(home)[1].name).unlink()
    for again, before in zip(logs.read_all(paths), fresh, strict=True):
        assert isinstance(again, Log)
        assert isinstance(before, Log)
        assert_alike(again, before)


def test_a_log_that_has_grown_is_read_again(home: Path, log: Path) -> None:
    logs.read(log, keep=True)
    with log.open("a") as grown:
        grown.write(LINE.format(40, 2.5))
    os.utime(log, (LONG_AGO, LONG_AGO))
    assert logs.read(log).records.height == 41


def test_a_log_with_another_inode_is_read_again(home: Path, log: Path, unread: list[Path]) -> None:
    logs.read(log, keep=True)
    other = log.with_name("other")
    other.write_bytes(log.read_bytes().replace(b"loss: 3", b"loss: 4"))
    os.utime(other, (LONG_AGO, LONG_AGO))
    other.replace(log)
    assert logs.read(log).records["loss"][0] == 4


def test_a_log_that_was_written_just_now_is_not_kept(home: Path, log: Path) -> None:
    log.touch()
    logs.read(log, keep=True)
    assert entries(home) == []


def test_a_log_that_is_written_now_is_not_taken_from_the_cache(home: Path, log: Path) -> None:
    moment = time.time() - 60
    os.utime(log, (moment, moment))
    logs.read(log, keep=True)
    assert logs.read(log).status == "unknown"
    with log.open("a"):
        writers._picture.cache_clear()  # of who writes what, which is some seconds old at most
        assert logs.read(log, keep=True).status == "running"
    assert len(entries(home)) == 1


def test_another_format_is_another_entry(home: Path, log: Path, unread: list[Path]) -> None:
    logs.read(log, keep=True)
    logs.read(log, logs.chosen("nanogpt"), keep=True)
    assert len(entries(home)) == 2


def test_without_a_cache_nothing_is_kept_and_nothing_found(
    home: Path, log: Path, unread: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.read(log, keep=True)
    monkeypatch.setenv("GPUTEL_CACHE", "0")
    logs.read(log, keep=True)
    assert unread == [log, log]


@pytest.mark.parametrize("left", [0, 5, 19, 60, 400, -1])
def test_a_torn_entry_is_read_afresh(home: Path, log: Path, left: int) -> None:
    fresh = logs.read(log, keep=True)
    (entry,) = entries(home)
    entry.write_bytes(entry.read_bytes()[:left])
    assert_alike(logs.read(log), fresh)


def test_a_byte_that_is_wrong_is_found_wherever_it_stands(home: Path, log: Path) -> None:
    fresh = logs.read(log, keep=True)
    (entry,) = entries(home)
    whole = entry.read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 40)):
        entry.write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
        assert_alike(logs.read(log), fresh)


def test_an_entry_that_goes_while_it_is_used_is_read_afresh(home: Path, log: Path) -> None:
    fresh = logs.read(log, keep=True)
    held = logs.read(log)
    (entry,) = entries(home)
    entry.unlink()
    assert_alike(held, fresh)


def test_a_folder_that_cannot_be_written_keeps_nothing(home: Path, log: Path) -> None:
    home.parent.parent.mkdir(parents=True, exist_ok=True)
    home.parent.write_text("a file where a folder should be")
    assert logs.read(log, keep=True).records.height == 40


def test_many_writers_leave_one_whole_entry(home: Path) -> None:
    parts = {"a": b"a" * 100_000, "b": b""}
    writers = [threading.Thread(target=cache.keep, args=("logs", "k", parts)) for _ in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    entry = cache.find("logs", "k")
    assert entry is not None
    assert {name: entry.part(name) for name in parts} == parts
    assert [path.name for path in (home / "logs").iterdir()] == ["k.parts"]


def test_what_nobody_asks_for_goes_and_the_oldest_when_it_is_too_much(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_PRUNE_S", 0)
    for age, name in enumerate(("new", "old", "oldest")):
        cache.keep("logs", name, {"a": bytes(1000)})
        os.utime(home / "logs" / f"{name}.parts", (time.time() - age * 60,) * 2)
    monkeypatch.setattr(cache, "MOST", 2500)
    cache.keep("logs", "newest", {"a": bytes(10)})
    assert [name for name in ("new", "old", "oldest", "newest") if cache.find("logs", name)] == [
        "new",
        "old",
        "newest",
    ]
    os.utime(home / "logs" / "old.parts", (time.time() - cache.UNUSED_S - 60,) * 2)
    cache.keep("logs", "newest", {"a": bytes(10)})
    assert cache.find("logs", "old") is None


def test_a_run_folder_is_kept_once_it_has_ended(home: Path, tmp_path: Path, unread: list[Path]) -> None:
    facts = {"run": "d12", "started": {"wall_ns": 10**18}}
    for name, ended in (("whole", {"ended": {"wall_ns": 10**18 + 10**9}}), ("open", {})):
        segment = run.create(tmp_path / name, {**facts, **ended})
        segment.output.write_text(LINE.format(1, 2.5))
        for path in (tmp_path / name).rglob("*"):
            os.utime(path, (LONG_AGO, LONG_AGO))
        fresh = logs.read(tmp_path / name, keep=True)
        assert_alike(logs.read(tmp_path / name), fresh)
    assert len(entries(home)) == 1
    assert unread == [tmp_path / "whole", tmp_path / "open", tmp_path / "open"]


def test_compressed_logs_are_kept_too(home: Path, log: Path, unread: list[Path]) -> None:
    packed = log.with_suffix(".log.gz")
    packed.write_bytes(gzip.compress(log.read_bytes()))
    os.utime(packed, (LONG_AGO, LONG_AGO))
    fresh = logs.read(packed, keep=True)
    unread.clear()
    assert_alike(logs.read(packed), fresh)
    assert unread == []


def test_a_key_says_which_file_it_was(home: Path, log: Path) -> None:
    before = kept.key(log, None)
    other = log.with_name("b.log")
    other.write_bytes(log.read_bytes())
    os.utime(other, (LONG_AGO, LONG_AGO))
    assert before is not None
    assert kept.key(other, None) != before
    assert kept.key(log.parent / "nowhere.log", None) is None
