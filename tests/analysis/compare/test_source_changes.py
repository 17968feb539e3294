"""Where the recorded source of runs differs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gputel.analysis import compare
from gputel.analysis.compare import source_changes
from gputel.analysis.documents.compare import comparison_document
from gputel.analysis.render.html import html
from gputel.analysis.render.markdown import markdown
from gputel.analysis.runs import RunData, read_run
from gputel.cli import show
from gputel.telemetry import run_folder

LOG = "".join(f"step {n} | loss {9 - n}.5\n" for n in range(5))
DIFF = """diff --git a/model.py b/model.py
index 1..2 100644
--- a/model.py
+++ b/model.py
@@ -1,2 +1,3 @@
 a = 1
+b = 2
@@ -{at},1 +9,1 @@ def f
-c = 3
+c = {value}
"""


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, RunData]:
    """Two runs with another `c` at another line of model.py, and another train.py."""
    for name, at, value, rate in (("a", 8, 4, 0.1), ("b", 80, 5, 0.2)):
        folder = run_folder.create(tmp_path / name, {"run": name}).path
        (folder / "output.log").write_text(LOG)
        (folder / "source" / "files").mkdir(parents=True)
        (folder / "source" / "diff.patch").write_text(DIFF.format(at=at, value=value))
        (folder / "source" / "files" / "train.py").write_text(f"seed = 1\nlr = {rate}\n")
        contents = {"diff": "x", "files": [{"name": "train.py", "file": "files/train.py"}], "left_out": []}
        (folder / "source" / "source.json").write_text(json.dumps(contents))
    return {name: read_run(tmp_path / name) for name in ("a", "b")}


def test_files_that_differ_are_among_the_settings(runs: dict[str, RunData]) -> None:
    settings = compare.compare(list(runs.values())).settings
    rows = settings.filter(settings["setting"].str.starts_with("code ")).rows()
    assert [(name, run) for name, run, _ in rows] == [
        ("code train.py", "a"),
        ("code train.py", "b"),
        ("code model.py", "a"),
        ("code model.py", "b"),
    ]
    assert [value[:5] for name, _, value in rows if name == "code model.py"] == ["+2 -1", "+2 -1"]
    assert len({value for *_, value in rows}) == 4


def test_terminal_alone_shows_code_that_differs(
    runs: dict[str, RunData], capsys: pytest.CaptureFixture[str]
) -> None:
    document = comparison_document(compare.compare(list(runs.values())))
    show.document(document)
    assert "\nCode that differs\n--- a: train.py\n" in capsys.readouterr().out
    assert "seed = 1" not in html(document).decode()
    assert "seed = 1" not in markdown(document)


def test_pieces_are_those_that_one_run_alone_has(runs: dict[str, RunData]) -> None:
    lines = source_changes.pieces(runs)
    assert [line for line in lines if "lr" in line] == ["-lr = 0.1", "+lr = 0.2"]
    assert [line for line in lines if "c = " in line] == ["  -c = 3", "  +c = 4", "  -c = 3", "  +c = 5"]
    assert not [line for line in lines if "b = 2" in line]


def test_equal_source_is_no_difference(runs: dict[str, RunData]) -> None:
    same = {"a": runs["a"], "again": runs["a"]}
    assert source_changes.differing(same) == {"a": {}, "again": {}}
    assert source_changes.pieces(same) == []


def test_file_that_one_run_has_changed_alone_is_as_committed_in_the_other(runs: dict[str, RunData]) -> None:
    recording = runs["b"].recording
    assert recording
    (recording.path / "source" / "diff.patch").unlink()
    assert source_changes.differing(runs)["b"]["code model.py"] == "as committed"


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"files": 3}', '{"files": [1, {"file": "../../x"}]}'])
def test_damaged_contents_are_no_error(runs: dict[str, RunData], damage: str) -> None:
    recording = runs["b"].recording
    assert recording
    (recording.path / "source" / "source.json").write_text(damage)
    source_changes.pieces(runs)


def test_link_out_of_the_run_folder_is_not_read(runs: dict[str, RunData], tmp_path: Path) -> None:
    recording = runs["b"].recording
    assert recording
    (tmp_path / "secret").write_text("hunter2\n")
    saved = recording.path / "source" / "files" / "train.py"
    saved.unlink()
    saved.symlink_to(tmp_path / "secret")
    assert not [line for line in source_changes.pieces(runs) if "hunter2" in line]


def test_key_in_a_source_that_another_program_saved_is_masked(
    runs: dict[str, RunData], tmp_path: Path
) -> None:
    (tmp_path / "a" / "source" / "diff.patch").write_text(
        DIFF.format(at=8, value='"sk-proj-abcdefghijklmnopqrstuvwxyz0123"')
    )
    lines = source_changes.pieces(runs)
    assert [line for line in lines if "+c = " in line]
    assert not [line for line in lines if "abcdefghijkl" in line]
