"""Pages and pictures as files: where they go, and whose files are overwritten."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import polars
import pytest

import gputel
from gputel.analysis.document import Curves, Document, PlotAxis, Section, Series
from gputel.analysis.render import files
from gputel.analysis.render.style import PictureLook
from gputel.telemetry.errors import GputelError


def panel(name: str) -> Curves:
    series = Series("a", {"step": np.arange(3.0)}, np.arange(3.0))
    return Curves(name, name, (PlotAxis("step", "step"),), PlotAxis("y", "y"), (series,))


ROOT = Path(gputel.__file__).parent.parent
PAGE = Document("a run", [Section(items=[panel("loss"), panel("m/f u"), panel("loss")])])
ONE_PANEL = Document("a run", [Section(items=[panel("loss")])])


def test_page_is_one_file_and_every_panel_a_picture(tmp_path: Path) -> None:
    written = files.write_page(PAGE, ["html", "svg"], tmp_path / "new", "gputel-parse")
    assert [path.name for path in written] == [
        "gputel-parse.html",
        "gputel-parse-loss.svg",
        "gputel-parse-m-f-u.svg",
        "gputel-parse-loss-2.svg",
    ]
    assert sorted(tmp_path.glob("new/.*")) == []


@pytest.mark.parametrize("kind", files.KINDS)
def test_file_is_overwritten_only_if_gputel_wrote_it(kind: str, tmp_path: Path) -> None:
    out = tmp_path / f"mine.{kind}"
    for _ in range(2):
        assert files.write_page(ONE_PANEL, [kind], out, "x") == [out]
    out.write_bytes(b"mine")
    with pytest.raises(GputelError, match="was not written by gputel; choose another path, or --force it"):
        files.write_page(ONE_PANEL, [kind], out, "x")
    assert out.read_bytes() == b"mine"
    files.write_page(ONE_PANEL, [kind], out, "x", force=True)
    assert out.read_bytes() != b"mine"


def test_nothing_is_written_where_a_file_is_not_of_gputel(tmp_path: Path) -> None:
    (tmp_path / "x-m-f-u.svg").write_text("<svg/>")
    with pytest.raises(GputelError):
        files.write_page(PAGE, ["html", "svg"], tmp_path, "x")
    assert [path.name for path in tmp_path.iterdir()] == ["x-m-f-u.svg"]


def test_one_file_cannot_be_two_kinds(tmp_path: Path) -> None:
    with pytest.raises(GputelError, match=r"x\.svg: is one file, and --html was asked for; name a folder"):
        files.write_page(PAGE, ["html"], tmp_path / "x.svg", "x")


def test_folder_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GputelError, match=r"cannot be written: .*; choose another path"):
        files.write_page(PAGE, ["html"], tmp_path / "file" / "below", "x")


def test_page_without_a_panel_has_no_picture(tmp_path: Path) -> None:
    with pytest.raises(GputelError, match="--png: there is nothing to draw"):
        files.write_page(Document("a run", []), ["png"], tmp_path, "x")


def test_only_the_panels_asked_for_are_drawn_and_an_unknown_name_lists_what_there_is(tmp_path: Path) -> None:
    page = Document("a run", [Section("", [panel("loss"), panel("power")])])
    look = PictureLook(panels=("power",))
    assert [path.name for path in files.write_page(page, ["svg"], tmp_path, "x", look)] == ["x-power.svg"]
    with pytest.raises(GputelError, match="no panel is called temp; there is loss, power"):
        files.write_page(page, ["svg"], tmp_path, "x", PictureLook(panels=("temp",)))


def test_two_writers_of_one_file_have_drafts_of_their_own(tmp_path: Path) -> None:
    drafts: list[Path] = []

    def other(draft: Path) -> None:
        drafts.append(draft)
        draft.write_text("other")

    def first(draft: Path) -> None:
        drafts.append(draft)
        draft.write_text("first")
        files.write([files.File(tmp_path / "x.csv", other)], force=True)

    files.write([files.File(tmp_path / "x.csv", first)])
    assert len(set(drafts)) == 2
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"x.csv": "first"}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(28, ""), "No space left on device"),
        (
            polars.exceptions.ComputeError("IO error: No space (os error 28)"),
            "IO error: No space (os error 28)",
        ),
    ],
)
def test_failed_write_says_what_failed(error: Exception, words: str, tmp_path: Path) -> None:
    def fail(draft: Path) -> None:
        raise error

    with pytest.raises(GputelError, match=re.escape(f"cannot be written: {words}; choose another path")):
        files.write([files.File(tmp_path / "x.csv", fail)])


def test_draft_is_removed_where_the_disk_is_full(tmp_path: Path) -> None:
    def full(draft: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(GputelError, match="cannot be written: No space left on device; choose another path"):
        files.write([files.File(tmp_path / "x.csv", full)])
    assert list(tmp_path.iterdir()) == []


def test_one_module_drafts_and_renames_and_one_says_whose_a_file_is() -> None:
    modules = [
        path for home in ("analysis", "gputel/cli", "telemetry") for path in (ROOT / home).rglob("*.py")
    ]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in modules}
    drafts = {name for name, text in texts.items() if re.search(r"\.part\"|\.replace\(path\)|mkstemp", text)}
    owners = {
        name for name, text in texts.items() if re.search(r"was not written by gputel|is there already", text)
    }
    assert drafts == {
        "telemetry/whole_files.py",
        "telemetry/store/parquet.py",  # syncs, too
        "telemetry/source_code.py",  # a folder
        "telemetry/inside/hook/_gputel_inside.py",  # imports nothing of gputel
    }
    assert owners == {"analysis/render/files.py"}


@pytest.mark.parametrize("force", [False, True])
def test_device_pipe_or_folder_is_never_replaced(force: bool, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path in (Path("/dev/null"), tmp_path / "pipe", tmp_path / "folder"):
        with pytest.raises(GputelError, match="is a folder, a pipe or a device; choose another path"):
            files.write([files.File(path, b"x")], force=force)


def test_link_in_place_of_a_page_is_not_followed(tmp_path: Path) -> None:
    """A folder from elsewhere may hold links to files of the person who works in it."""
    theirs, out = tmp_path / "theirs", tmp_path / "out"
    theirs.write_text("theirs")
    out.mkdir()
    (out / "x.html").symlink_to(theirs)
    files.write_page(PAGE, ["html"], out, "x", force=True)
    assert theirs.read_text() == "theirs"
    assert not (out / "x.html").is_symlink()
    assert [path.name for path in out.iterdir()] == ["x.html"]
