"""A user's regular expression that never ends on a line is stopped and named."""

from __future__ import annotations

import pickle
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gputel.analysis import timed_regex
from gputel.analysis.logs import formats
from gputel.analysis.regex_process import PROCESS
from gputel.analysis.runs.paths import parse
from gputel.telemetry.errors import GputelError

ENDLESS = re.compile(rb"(a+)+$")
LINES = [b"step %d" % n for n in range(50)]
FORMAT = """
[[lines]]
name = "loss"
role = "train"
line = '(a+)+b <loss>'
needle = "a"
"""


def test_search_that_never_ends_is_stopped_and_named() -> None:
    regex = timed_regex.timed(ENDLESS, "loss", "own.toml", limit_s=0.05)
    fault = r"own.toml: 'loss' searched a line for more than 0.05 s: 'aaa"
    for search in (regex.search, regex.match, regex.finditer):
        with pytest.raises(GputelError, match=fault):
            search(b"a" * 200 + b"!")
    assert signal.getitimer(signal.ITIMER_REAL)[0] != 0.05


@pytest.mark.parametrize("method", ["search", "match", "finditer"])
def test_search_that_never_ends_is_stopped_in_a_thread_too(method: str) -> None:
    """`re` lets no other thread run while it searches, so no thread of this process could stop it."""
    regex = timed_regex.timed(ENDLESS, "loss", "own.toml", limit_s=0.05)
    with ThreadPoolExecutor(1) as thread:
        stopped = thread.submit(getattr(regex, method), b"a" * 200 + b"!").exception()
        after = thread.submit(regex.search, b"b aa").result()
    assert isinstance(stopped, GputelError)
    assert "own.toml: 'loss' searched a line for more than 0.05 s: 'aaa" in str(stopped)
    assert after
    assert after[0] == b"aa"


def test_search_in_a_thread_answers_as_ever() -> None:
    regex = timed_regex.timed(re.compile(rb"(?P<n>\d+)"), "n", "own.toml")
    with ThreadPoolExecutor(2) as threads:
        for line, found in zip(LINES, threads.map(regex.search, LINES), strict=True):
            assert found
            assert found["n"] == line.split()[-1]
        assert [match["n"] for match in threads.submit(regex.finditer, b"a 12 3", 4).result()] == [b"3"]


def test_search_whose_process_was_killed_meanwhile_is_made_by_another() -> None:
    regex = timed_regex.timed(re.compile(rb"\d+"), "n", "own.toml")
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(regex.search, b"a 12").result()
        assert PROCESS._process
        PROCESS._process.kill()
        PROCESS._process.wait()
        assert thread.submit(regex.search, b"a 13").result()


def test_search_that_ends_answers_as_ever() -> None:
    regex = pickle.loads(pickle.dumps(timed_regex.timed(re.compile(rb"(?P<n>\d+)"), "n", "own.toml")))
    assert regex.search(b"a 12 3")["n"] == b"12"
    assert [match["n"] for match in regex.finditer(b"a 12 3", 4)] == [b"3"]
    assert (regex.pattern, regex.groups) == (rb"(?P<n>\d+)", 1)


def test_timer_of_the_caller_goes_on() -> None:
    before = signal.setitimer(signal.ITIMER_REAL, 500)
    try:
        timed_regex.timed(re.compile(b"a"), "a", "own.toml").search(b"a")
        assert 400 < signal.getitimer(signal.ITIMER_REAL)[0] <= 500
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)


def test_endless_regex_of_a_format_ends_the_parsing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_regex.timed, "__defaults__", (0.05,))
    (tmp_path / "own.toml").write_text(FORMAT)
    (tmp_path / "a.log").write_text("a" * 200 + "!\n")
    with pytest.raises(GputelError, match="'loss' searched a line"):
        parse(tmp_path / "a.log", format=tmp_path / "own.toml")


def test_endless_regex_is_found_on_the_samples_of_its_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed_regex.timed, "__defaults__", (0.05,))
    (tmp_path / "own.toml").write_text(f"{FORMAT}[[samples]]\ntext = '{'a' * 60}b 2.0'\n")
    with pytest.raises(GputelError, match="'loss' searched a line"):
        formats.find(str(tmp_path / "own.toml"))
