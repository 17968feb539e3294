"""Tables on terminals of any width, and in pipes."""

import os
import re

import pytest

from gputel.cli import show

COLUMNS = ("run", "format", "records", "first loss", "last loss")
ROWS: list[list[str | None]] = [
    ["d16-base", "nanochat", "12,800", "11.0904", "2.7702"],
    ["d24", None, "3", "9.1", None],
]


def lines(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((width, 24)))
    show.table(COLUMNS, ROWS)
    return re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()


@pytest.mark.parametrize("width", [24, 30, 40, 58, 80, 200])
def test_no_number_is_broken_and_no_line_is_wider_than_the_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = lines(width, monkeypatch, capsys)
    assert max(map(len, drawn)) <= width
    words = " ".join(drawn).split()
    for row in ROWS:
        assert [cell for cell in row if cell and cell not in words] == []


def test_each_part_of_a_table_that_was_cut_names_the_runs_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    heads = [line.split() for line in lines(40, monkeypatch, capsys) if line.startswith("run")]
    assert heads == [["run", "format", "records"], ["run", "first", "loss", "last", "loss"]]


def test_in_a_pipe_a_table_is_as_wide_as_it_must_be(capsys: pytest.CaptureFixture[str]) -> None:
    show.table(COLUMNS, ROWS)
    head, _, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == "run format records first loss last loss".split()
    assert first.split() == ROWS[0]
    assert second.split() == ["d24", "-", "3", "9.1", "-"]
