"""Offline runs of W&B, written by its library where that is installed, and read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.exports import wandb
from gputel.analysis.exports.series import exported, library
from gputel.analysis.runs import read_run
from gputel.analysis.stores import find
from gputel.telemetry.errors import GputelError
from tests.analysis.exports.test_event_files import TEXT


def test_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    (tmp_path / "a.log").write_text(TEXT)
    with pytest.raises(GputelError, match="pip install wandb"):
        wandb.write(exported(read_run(tmp_path / "a.log")), tmp_path)


def test_library_that_fails_while_it_is_imported_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "gputel_broken.py").write_text("import math\nmath.float_\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(GputelError, match=r"cannot be imported: AttributeError.*--upgrade gputel_broken"):
        library("gputel_broken")


@pytest.mark.long
def test_run_that_is_written_twice_is_one_run_and_equals_the_log(tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="the library of W&B is not installed")
    (tmp_path / "a.log").write_text(TEXT)
    subject = read_run(tmp_path / "a.log")
    wandb.write(exported(subject), tmp_path)
    folder = wandb.write(exported(subject), tmp_path)
    assert [path.name for path in (tmp_path / "wandb").glob("offline-run-*")] == [folder.name]
    (path,) = folder.glob("*.wandb")
    assert find.kind(path) == "wandb"
    back = read_run(path).log
    for name in ("step", "loss", "lr"):
        assert back.records[name].to_list() == subject.log.records[name].to_list()
    assert back.evals["value"].to_list() == subject.log.evals["value"].to_list()
    assert back.config["vocab_size"] == 50304
