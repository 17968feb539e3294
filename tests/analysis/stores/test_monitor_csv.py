from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis import stores
from gputel.analysis.stores import monitor_csv

START = '#{"t_start": 1795424012.5, "env_id": "CartPole-v1"}\nr,l,t\n'


def write(folder: Path, rows: str, name: str = "0.monitor.csv", start: str = START) -> Path:
    path = folder / name
    path.write_text(start + rows)
    return path


def test_step_is_the_sum_of_the_lengths_of_the_episodes(tmp_path: Path) -> None:
    path = write(tmp_path, "15.0,15,2.25\n40.0,40,3.5\n9.0,9,4.0\n")
    log = stores.read(path)
    assert stores.kind(path) == "monitor"
    assert log.records.select("step", "episode_reward", "episode_length").rows() == [
        (15, 15.0, 15.0),
        (55, 40.0, 40.0),
        (64, 9.0, 9.0),
    ]
    assert log.config == {"env_id": "CartPole-v1"}
    assert log.records["time"].cast(pl.Int64).to_list() == [
        1795424014_750000000,
        1795424016_000000000,
        1795424016_500000000,
    ]


def test_further_columns_keep_their_names(tmp_path: Path) -> None:
    start = START.replace("r,l,t", "r,l,t,is_success")
    log = stores.read(write(tmp_path, "1.0,5,1.0,True\n2.0,5,2.0,0.5\n", start=start))
    assert log.records["is_success"].to_list() == [None, 0.5]


def test_times_are_unknown_after_a_continuation(tmp_path: Path) -> None:
    log = stores.read(write(tmp_path, "1,5,1.0\n1,5,9.0\n1,5,0.5\n1,5,20.0\n"))
    assert log.records["step"].to_list() == [5, 10, 15, 20]
    assert log.records["time"].is_null().to_list() == [False, False, True, True]


@pytest.mark.parametrize("row", ["1,5", "1,x,2", "1,-5,2", "1,2.5,2", "1,5,"])
def test_row_that_is_no_episode_is_a_reject(tmp_path: Path, row: str) -> None:
    log = stores.read(write(tmp_path, f"1,5,1.0\n{row}\n1,5,3.0\n"))
    assert [(reject.line, reject.reason) for reject in log.rejects] == [(4, "a row is no episode")]
    assert log.records["step"].to_list() == [5, 10]


@pytest.mark.parametrize(("name", "run"), [("0.monitor.csv", "0"), ("monitor.csv", "ppo")])
def test_run_is_called_like_its_environment_or_its_folder(tmp_path: Path, name: str, run: str) -> None:
    (tmp_path / "ppo").mkdir()
    assert stores.read(write(tmp_path / "ppo", "1,5,1.0\n", name)).name == run


@pytest.mark.parametrize("start", ['#{"seed": 1}\nr,l,t\n', '#{"t_start": 1.0}\nx,y,t\n', "r,l,t\n"])
def test_other_comments_and_tables_are_none(tmp_path: Path, start: str) -> None:
    assert stores.kind(write(tmp_path, "1,5,1.0\n1,5,1.0\n", start=start)) is None


@given(st.text(max_size=80), st.text(alphabet='0123456789.,-einfa"\n', max_size=80))
def test_any_text_raises_nothing(comment: str, rows: str) -> None:
    monitor_csv.read(Path("0.monitor.csv"), f"#{{{comment}\nr,l,t\n{rows}".encode(errors="replace"))
