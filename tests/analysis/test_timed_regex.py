"""A user's regular expression that never ends on a line is stopped and named."""

from __future__ import annotations

import pickle
import re
import signal
from pathlib import Path

import pytest

from gputel.analysis import timed_regex
from gputel.analysis.logs import formats
from gputel.analysis.runs.paths import parse
from gputel.telemetry.errors import GputelError

ENDLESS = re.compile(rb"(a+)+$")
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
