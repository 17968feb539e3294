"""Runs in MLflow's database, written by its client where that is installed, and read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.exports import mlflow
from gputel.analysis.exports.series import exported
from gputel.analysis.runs import read_run
from tests.analysis.exports.test_event_files import TEXT


@pytest.mark.long
@pytest.mark.filterwarnings("default")  # its own libraries warn of each other
def test_run_that_is_written_twice_is_one_run_and_equals_the_log(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="the library of MLflow is not installed")
    pytest.importorskip("sqlalchemy", reason="MLflow has no database here")
    (tmp_path / "a.log").write_text(TEXT)
    subject = read_run(tmp_path / "a.log")
    where = f"sqlite:///{tmp_path}/mlflow.db"
    first = mlflow.write(exported(subject), where)
    assert mlflow.write(exported(subject), where) == first
    back = read_run(tmp_path / "mlflow.db").log
    for name in ("step", "loss", "lr"):
        assert back.records[name].to_list() == subject.log.records[name].to_list()
    assert back.evals["value"].to_list() == subject.log.evals["value"].to_list()
    assert back.config["vocab_size"] == 50304


def test_letters_that_mlflow_refuses_are_replaced() -> None:
    assert mlflow.UNUSUAL.sub("_", "val/acc@1") == "val/acc_1"
