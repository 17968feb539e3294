"""facts.json beside a recording: written at its end, believed while its files have the sizes that it names."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gputel.analysis.catalogue import facts, facts_file, index
from tests.analysis.stores.compose_events import losses, version
from tests.analysis.stores.test_tensorboard import write


def test_recorder_ends_by_writing_the_facts(recording: Path) -> None:
    said = json.loads((recording / facts_file.NAME).read_text())
    assert said["facts"]["status"] == "completed"
    assert (said["facts"]["loss"], said["facts"]["steps"], said["facts"]["gpus"]) == (6.5, 4, 2)
    assert said["facts"]["gpu"] == "H100"
    assert said["facts"]["simulated"]
    assert said["settings"]["tag.sweep"] == "a"
    assert said["metrics"]["loss"]["max"] == 9.5
    assert said["files"] == facts_file.sizes(recording)


def test_written_facts_equal_those_computed_anew(recording: Path) -> None:
    assert facts_file.read_facts(recording) == facts.computed(recording)


def test_facts_are_not_believed_once_a_file_has_another_size(recording: Path) -> None:
    (recording / "notes.txt").write_text("more")
    assert facts_file.read_facts(recording) is None
    assert facts_file.row_of(recording) is not None
    (recording / "notes.txt").unlink()
    assert facts_file.read_facts(recording) is not None


@pytest.mark.parametrize(
    "content", ["", "[]", '{"facts_version": 1}', '{"facts_version": 1, "files": {}, "facts": 3}']
)
def test_damaged_facts_are_computed_anew(recording: Path, tmp_path: Path, content: str) -> None:
    whole = (recording / facts_file.NAME).read_bytes()
    (recording / facts_file.NAME).write_text(content)
    try:
        assert facts_file.read_facts(recording) is None
    finally:
        (recording / facts_file.NAME).write_bytes(whole)


def test_store_has_facts_in_the_index_alone(tmp_path: Path) -> None:
    folder = write(tmp_path / "tb", version() + losses(range(20)))
    row = facts_file.row_of(folder)
    assert row is not None
    assert (row.facts["kept_by"], row.facts["steps"], row.facts["loss"]) == (
        "tensorboard",
        20,
        pytest.approx(0.4),
    )
    assert len(list(folder.iterdir())) == 1


def test_text_without_a_record_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(
        "saving checkpoint to out/\nTraceback (most recent call last):\nValueError: x\n"
    )
    assert facts_file.row_of(tmp_path / "notes.txt") is None


NAN, INFINITY = float("nan"), float("inf")
ODD_FACTS = {"loss": 10**400, "steps": 10**30, "lr": NAN, "cause": "\ud800", "gpus": [2], "status": {"a": 1}}
ODD_SETTINGS = {
    "config.a": "1__0", "config.b": [1], "config.c": INFINITY, "config.\udcff": 2**70, "config.d": None,
}  # fmt: skip


def test_index_holds_a_facts_file_with_cells_of_any_kind(tmp_path: Path) -> None:
    row = facts.row(ODD_FACTS, ODD_SETTINGS, {"loss": {"last": "x", "min": 10**400, "count": 3}})
    with index.opened(tmp_path / "catalogue.db") as base:
        index.put(base, [index.IndexedRow(tmp_path / "run", "s", row)])
        (found,) = base.execute("SELECT loss, steps, lr, cause, gpus, status FROM runs").fetchall()
        settings = base.execute("SELECT key, num, text FROM settings ORDER BY key DESC").fetchall()
        metrics = base.execute("SELECT last, min, count FROM metrics").fetchall()
    assert found == (None, None, None, "?", None, "{'a': 1}")
    assert settings == [
        ("config.b", None, "[1]"),
        ("config.a", None, "1__0"),
        ("config.?", 2.0**70, str(2.0**70)),
    ]
    assert metrics == [(None, None, 3.0)]


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_facts_file_that_is_a_pipe_or_a_link_is_not_opened(tmp_path: Path, kind: str) -> None:
    (tmp_path / "run").mkdir()
    whole = {"facts_version": facts.FACTS_VERSION, "files": {}, "facts": {}, "settings": {}, "metrics": {}}
    (tmp_path / "elsewhere").write_text(json.dumps(whole))
    if kind == "pipe":
        os.mkfifo(tmp_path / "run" / facts_file.NAME)
    else:
        (tmp_path / "run" / facts_file.NAME).symlink_to(tmp_path / "elsewhere")
    assert facts_file.read_facts(tmp_path / "run") is None
