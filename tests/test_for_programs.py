"""The page for programs is true: its commands exist, and their answers have the keys that it names.

Its examples are run with those of the other pages.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import click
import pytest

from gputel.cli import group
from tests.command import gputel

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "for-programs.md").read_text()
ROWS = re.findall(r"^\| [^|]+ \| `gputel ([^`]+)` \| ([^|]+) \|$", PAGE, re.MULTILINE)
PLACES: Mapping[str, Path] = {
    "PATH": ROOT / "sample_logs",
    "RUN": ROOT / "sample_logs" / "resumed.log",
    "A": ROOT / "sample_logs" / "d16-base.log.gz",
    "B": ROOT / "sample_logs" / "d24-base.log.gz",
    "BASE": ROOT / "sample_logs" / "resumed.log",
}
WITHOUT_LOGS = ("info", "tail", "export")  # they need a recording, follow, or print no JSON


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_command_of_the_table_has_the_options(row: tuple[str, str]) -> None:
    name, *words = shlex.split(row[0])
    command = group.get_command(click.Context(group), name)
    assert command
    known = {option for param in command.params for option in param.opts}
    assert [word for word in words if word.startswith("--") and word not in known] == []


@pytest.mark.parametrize(
    "row",
    [row for row in ROWS if "--json" in row[0] and row[0].split()[0] not in WITHOUT_LOGS],
    ids=lambda row: row[0],
)
def test_answer_has_the_keys_of_the_table(row: tuple[str, str], tmp_path: Path) -> None:
    name, *words = shlex.split(row[0])
    answer = gputel(name, *(PLACES.get(word, word) for word in words), env={"XDG_CACHE_HOME": str(tmp_path)})
    if "--where" in words:
        assert answer.returncode == 2, "no run is known in an empty cache"
        return
    found = json.loads(answer.stdout)
    for key in re.findall(r"`([a-z]+)(?:\[\])?[.`]", row[1]):
        assert f"'{key}':" in str(found)


def test_table_has_a_row_for_each_kind_of_question() -> None:
    commands = {row[0].split()[0] for row in ROWS}
    assert commands >= {
        "runs",
        "parse",
        "report",
        "compare",
        "gate",
        "plan",
        "info",
        "tail",
        "doctor",
        "export",
    }


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("parse RUN", 0),
        ("parse NOWHERE", 1),
        ("runs NOWHERE", 1),
        ("parse RUN --no-such-option", 2),
        ("parse PAGE", 3),
        ("parse DOUBTFUL --strict", 4),
        ("gate A --baseline B --max-regress loss=1%", 4),
        ("gate DOUBTFUL --baseline B --max-regress tok_per_sec=3%", 5),
        ("tail FAILED --plain --exit-on-alarm", 4),
    ],
)
def test_exit_code_is_the_one_of_the_page(words: str, code: int, tmp_path: Path) -> None:
    """Codes are a contract: a script decides by them."""
    doubtful = tmp_path / "doubtful.log"
    doubtful.write_text("".join(f"step {n} | loss: 2.5 | tok/sec: 1,000\n" for n in range(12)))
    places = {
        **PLACES,
        "NOWHERE": tmp_path / "nowhere",
        "PAGE": ROOT / "docs" / "for-programs.md",
        "DOUBTFUL": doubtful,
        "FAILED": ROOT / "sample_logs" / "crashed-out-of-memory.log",
    }
    stated = re.findall(r"^\| (\d) \|", PAGE, re.MULTILINE)
    answer = gputel(
        *(str(places.get(word, word)) for word in words.split()), env={"XDG_CACHE_HOME": str(tmp_path)}
    )
    assert answer.returncode == code, answer.stderr
    assert str(code) in stated
