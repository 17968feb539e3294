"""Which runs, names, phases and metrics are compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.compare import select
from gputel.analysis.runs import RunData, read_run


def run(path: Path) -> RunData:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("step 1 | loss: 3.0\n")
    return read_run(path)


def test_runs_of_one_name_are_distinguished_by_folder(tmp_path: Path) -> None:
    runs = [run(tmp_path / name) for name in ("a/log.log", "b/log.log", "c/other.log")]
    assert select.names(runs) == ["a/log", "b/log", "other"]


def test_same_run_twice_is_numbered(tmp_path: Path) -> None:
    once = run(tmp_path / "a.log")
    assert select.names([once, once]) == ["a", "a (2)"]


def test_logs_without_stages_are_compared_by_their_only_phase(tmp_path: Path) -> None:
    log = run(tmp_path / "a.log").log
    choice = select.choose([log, log], None)
    assert (choice.phase, choice.names, choice.shared) == ("train", ["train", "train"], ["train"])


def test_phase_that_no_log_has_is_none_of_each(tmp_path: Path) -> None:
    log = run(tmp_path / "a.log").log
    assert select.choose([log, log], "base").names == [None, None]


@pytest.mark.parametrize(("metric", "depends"), [("val_loss", True), ("ppl", True), ("val_bpb", False)])
def test_losses_depend_on_the_tokenizer_and_bits_per_byte_do_not(metric: str, depends: bool) -> None:
    assert select.depends_on_tokenizer(metric) is depends


def test_runs_that_are_left_out_are_named_with_the_reason() -> None:
    assert select.left_out(["a", "b"], "no val_loss") == ["left out: a, b: no val_loss"]
    assert select.left_out([], "no val_loss") == []
