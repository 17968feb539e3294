"""Runs in MLflow's database, written by its client where that is installed, and read back."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gputel.analysis.exports import mlflow
from gputel.analysis.exports.series import exported
from gputel.analysis.runs import read_run
from gputel.telemetry.errors import GputelError
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


class RefusedError(Exception):
    """As MLflow 3.17 refuses a folder."""


def refuse(tracking_uri: str) -> None:
    raise RefusedError(
        "The filesystem tracking backend is in maintenance mode. Migrate with\n'mlflow migrate'."
    )


def test_place_that_mlflow_refuses_is_an_error_of_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.log").write_text(TEXT)
    stub = SimpleNamespace(MlflowClient=refuse, MlflowException=RefusedError)
    monkeypatch.setitem(sys.modules, "mlflow", stub)
    with pytest.raises(GputelError) as raised:
        mlflow.write(exported(read_run(tmp_path / "a.log")), "mlruns")
    assert str(raised.value) == (
        "--out mlruns: The filesystem tracking backend is in maintenance mode; name a database: sqlite:///mlflow.db"
    )


def test_letters_that_mlflow_refuses_are_replaced() -> None:
    assert mlflow.UNUSUAL.sub("_", "val/acc@1") == "val/acc_1"
