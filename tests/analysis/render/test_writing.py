"""Pages and pictures as files: where they go, and whose files are overwritten."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from gputel.analysis.document import Axis, Curves, Page, Section, Series
from gputel.analysis.render import whole_file, writing
from gputel.telemetry.errors import GputelError


def panel(name: str) -> Curves:
    series = Series("a", {"step": np.arange(3.0)}, np.arange(3.0))
    return Curves(name, name, (Axis("step", "step"),), Axis("y", "y"), (series,))


PAGE = Page("a run", [Section(items=[panel("loss"), panel("m/f u"), panel("loss")])])


def test_a_page_is_one_file_and_every_panel_a_picture(tmp_path: Path) -> None:
    written = writing.write(PAGE, ["html", "svg"], tmp_path / "new", "gputel-parse")
    assert [path.name for path in written] == [
        "gputel-parse.html",
        "gputel-parse-loss.svg",
        "gputel-parse-m-f-u.svg",
        "gputel-parse-loss-2.svg",
    ]
    assert sorted(tmp_path.glob("new/.*")) == []


@pytest.mark.parametrize("kind", writing.KINDS)
def test_what_gputel_wrote_is_overwritten_and_nothing_else(kind: str, tmp_path: Path) -> None:
    out = tmp_path / f"mine.{kind}"
    for _ in range(2):
        assert writing.write(PAGE, [kind], out, "x") == [out]
    out.write_bytes(b"mine")
    with pytest.raises(GputelError, match="was not written by gputel; choose another --out, or --force it"):
        writing.write(PAGE, [kind], out, "x")
    assert out.read_bytes() == b"mine"
    writing.write(PAGE, [kind], out, "x", force=True)
    assert out.read_bytes() != b"mine"


def test_nothing_is_written_where_one_of_the_files_is_somebody_elses(tmp_path: Path) -> None:
    (tmp_path / "x-m-f-u.svg").write_text("<svg/>")
    with pytest.raises(GputelError):
        writing.write(PAGE, ["html", "svg"], tmp_path, "x")
    assert [path.name for path in tmp_path.iterdir()] == ["x-m-f-u.svg"]


def test_one_file_cannot_be_two_kinds(tmp_path: Path) -> None:
    with pytest.raises(GputelError, match=r"x\.svg: is one file, and --html was asked for; name a folder"):
        writing.write(PAGE, ["html"], tmp_path / "x.svg", "x")


def test_a_folder_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GputelError, match=r"cannot write here: .*; choose another --out"):
        writing.write(PAGE, ["html"], tmp_path / "file" / "below", "x")


def test_a_page_without_a_panel_has_no_picture(tmp_path: Path) -> None:
    with pytest.raises(GputelError, match="--png: there is nothing to draw"):
        writing.write(Page("a run", []), ["png"], tmp_path, "x")


def test_a_link_in_place_of_a_page_or_its_draft_is_not_followed(tmp_path: Path) -> None:
    """A folder from elsewhere may hold links to files of whoever works in it."""
    theirs, out = tmp_path / "theirs", tmp_path / "out"
    theirs.write_text("theirs")
    out.mkdir()
    for name in ("x.html", f".x.html.{os.getpid()}.part"):
        (out / name).symlink_to(theirs)
    writing.write(PAGE, ["html"], out, "x", force=True)
    assert theirs.read_text() == "theirs"
    assert not (out / "x.html").is_symlink()
    assert [path.name for path in out.iterdir()] == ["x.html"]


def test_what_stood_there_stays_where_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("before")
    with pytest.raises(FileNotFoundError), whole_file.replacing(path):
        (tmp_path / "gone").read_text()
    assert path.read_text() == "before"
    assert [found.name for found in tmp_path.iterdir()] == ["a.csv"]
