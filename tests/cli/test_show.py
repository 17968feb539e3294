"""Tables on terminals of any width, and in pipes."""

import json
import os
import re
import sys

import numpy as np
import pytest

from gputel.analysis.document import Bars, Document, FactList, Section, Table
from gputel.cli import show

COLUMNS = ("run", "format", "records", "first loss", "last loss")
ROWS: list[list[str | None]] = [
    ["d16-base", "nanochat", "12,800", "11.0904", "2.7702"],
    ["d24", None, "3", "9.1", None],
]


def lines(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda **_: os.terminal_size((width, 24)))
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


def test_table_in_a_pipe_is_as_wide_as_it_must_be(capsys: pytest.CaptureFixture[str]) -> None:
    show.table(COLUMNS, ROWS)
    head, _, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == "run format records first loss last loss".split()
    assert first.split() == ROWS[0]
    assert second.split() == ["d24", "-", "3", "9.1", "-"]


def test_cell_of_several_lines_is_as_wide_as_its_longest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda **_: os.terminal_size((40, 24)))
    show.table(("what", "why"), [["memory", "a sentence that\nwas folded\nbefore this"]])
    assert "memory   a sentence that\n" in capsys.readouterr().out


def test_sentences_of_the_last_column_are_folded_beside_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda **_: os.terminal_size((40, 24)))
    show.table(("what", "why"), [["memory", "a sentence that is longer than the terminal is wide"]])
    drawn = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert [line.split() for line in drawn.splitlines()[2:]] == [
        "memory a sentence that is longer than".split(),
        "the terminal is wide".split(),
    ]
    assert max(map(len, drawn.splitlines())) <= 40


def test_column_of_a_run_without_values_stays_where_its_table_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [["loss", "2.5", None]]
    show.document(Document("a", (Section(items=(Table("", ("", "a", "b"), rows),)),)))
    show.document(Document("a", (Section(items=(Table("", ("", "a", "b"), rows, keep_empty=True),)),)))
    first, _, _, again, _, _ = capsys.readouterr().out.splitlines()
    assert (first.split(), again.split()) == (["a"], ["a", "b"])


def test_blank_line_stands_between_parts_and_not_above_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    one, two = FactList({"run": "d16"}, "First"), FactList({"run": "d24"}, "Second")
    show.document(Document("a", (Section(items=(one, two)),)))
    assert capsys.readouterr().out == "First\nrun  d16\n\nSecond\nrun  d24\n"


def test_code_is_neither_folded_nor_joined(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    code = "    " + "x = 1 " * 12 + "\n\ty"
    show.document(Document("a", (Section("Code", text=code, code=True),)))
    assert capsys.readouterr().out == f"Code\n{code}\n"


def test_notes_stand_under_the_title_of_their_section(capsys: pytest.CaptureFixture[str]) -> None:
    show.document(Document("a", (Section("Notes", text="one\ntwo"),), about="what it is"))
    assert capsys.readouterr().out == "what it is\n\nNotes\none\ntwo\n"


def test_sentence_is_folded_on_a_terminal_and_whole_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "note: " + "word " * 20 + "end"
    assert show.folded(sentence) == sentence
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda **_: os.terminal_size((60, 24)))
    first, second = show.folded(sentence, 6).splitlines()
    assert (len(first) <= 60, second[:10]) == (True, "      word")


def test_fact_of_several_lines_hangs_under_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    show.facts({"command": "bash -c set -e\necho hi", "host": "vm"})
    assert capsys.readouterr().out == "command  bash -c set -e\n         echo hi\nhost     vm\n"


def test_number_and_unit_stay_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda **_: os.terminal_size((40, 24)))
    assert show.folded("the fullest GPU held at its peak 20.7 GiB").splitlines() == [
        "the fullest GPU held at its peak",
        "  20.7 GiB",
    ]
    numbers = show.folded("echo " + "1 2 3 4 5 6 7 8 9 " * 5).splitlines()
    assert max(map(len, numbers)) <= 40


def test_document_on_standard_error_leaves_standard_output_alone(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("GPUs", ("GPU", "W"), [("0", 412)], note="a note")
    show.document(
        Document("d16", [Section(items=(FactList({"run": "d16"}), table), text="and a text")]), sys.stderr
    )
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[:3] == ["run  d16", "", "GPUs"]
    assert err.endswith("a note\n\nand a text\n")


def test_text_of_a_section_of_panels_is_for_outputs_that_draw_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bars = Bars("time", "Time", "s", ("d16",), ("train",), np.ones((1, 1)))
    show.document(Document("d16", [Section(items=(bars,), text="The bars are short.")]))
    assert capsys.readouterr().out == ""


HOSTILE = "\x1b]52;c;QQ==\x07\u202e\u200b"
CODES = r"\x1b]52;c;QQ==\x07\u202e\u200b"


def test_every_part_of_a_document_shows_what_acts_as_codes(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(HOSTILE, ("a", HOSTILE), [(HOSTILE, HOSTILE)], note=HOSTILE)
    facts = FactList({HOSTILE: HOSTILE}, HOSTILE)
    section = Section(HOSTILE, (table, facts), text=HOSTILE)
    show.document(Document("d16", [section], about=HOSTILE, caution=HOSTILE, next=HOSTILE))
    printed = capsys.readouterr()
    assert printed.out.count(CODES) == 12
    assert printed.err == f"next: {CODES}\n"
    assert not {"\x1b", "\x07", "\u202e", "\u200b"} & set(printed.out)


def test_name_of_a_column_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    show.table(("[/a]", "[bold]"), [("[red]x", "y")])
    assert capsys.readouterr().out.split()[:2] == ["[/a]", "[bold]"]


def test_error_and_note_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    show.error("a\nerror: b")
    show.note("c\nd")
    assert capsys.readouterr().err == "error: a\\x0aerror: b\nc\\x0ad\n"


def test_json_escapes_what_acts_and_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    show.as_json({"name": HOSTILE + "\x9b\udcff é"})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {"name": HOSTILE + "\x9b\udcff é"}
    assert r"\u001b]52;c;QQ==\u0007\u202e\u200b\u009b\udcff é" in printed
