"""`result.json` of Ray Tune: composed from its public format."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from gputel.analysis import stores
from gputel.analysis.logs.log import Log


def reports(*rows: dict[str, object]) -> str:
    own = {"date": "2024-01-02_03-04-06", "pid": 7, "trial_id": "a1_00000", "hostname": "n", "done": False}
    config = {"lr": 5e-05, "model": {"sizes": [256, 256]}}
    return "".join(json.dumps({**row, **own, "time_total_s": 1.5, "config": config}) + "\n" for row in rows)


def read(folder: Path, text: str) -> Log:
    path = folder / "result.json"
    path.write_text(text)
    assert stores.kind(path) == "ray-tune"
    return stores.read(path)


def test_trial_is_known_by_keys_that_come_late_in_a_long_row(tmp_path: Path) -> None:
    sampler = {f"policy_{number}": 0.5 for number in range(2000)}
    log = read(tmp_path, reports({"info": sampler, "loss": 2.5, "training_iteration": 3}))
    assert log.records.select("step", "loss").rows() == [(3, 2.5)]
    assert len(log.records.columns) > 2000


def test_reports_of_a_trial_are_records_at_their_moments(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        reports(
            {"loss": 2.5, "timestamp": 1704164646, "training_iteration": 1},
            {"loss": 2.25, "timestamp": 1704164652, "training_iteration": 2, "info": {"entropy": 0.5}},
        ),
    )
    assert log.records.select("step", "loss").rows() == [(1, 2.5), (2, 2.25)]
    assert log.records["time"].cast(pl.Int64).to_list() == [1704164646 * 10**9, 1704164652 * 10**9]
    assert log.records["info_entropy"].to_list() == [None, 0.5]
    assert log.config == {"lr": 5e-05, "model.sizes": "[256, 256]"}
    assert not {"date", "pid", "timestamp", "trial_id", "done", "hostname"} & set(log.records.columns)


def test_reward_alone_makes_records_and_nan_is_a_value(tmp_path: Path) -> None:
    log = read(tmp_path, reports({"episode_reward_mean": float("nan"), "training_iteration": 1}))
    assert [str(value) for value in log.records["episode_reward_mean"]] == ["nan"]


def test_torn_last_report_is_left_for_the_next_look(tmp_path: Path) -> None:
    whole = reports({"loss": 2.5, "training_iteration": 1}, {"loss": 2.25, "training_iteration": 2})
    log = read(tmp_path, whole[:-20])
    assert (log.records["step"].to_list(), len(log.rejects)) == ([1], 0)


@pytest.mark.parametrize("line", ["{", "[1]", '{"training_iteration": 1.5}', '{"training_iteration": "x"}'])
def test_line_that_is_no_report_is_a_reject(tmp_path: Path, line: str) -> None:
    log = read(tmp_path, reports({"loss": 2.5, "training_iteration": 1}) + line + "\n")
    assert (log.records["step"].to_list(), len(log.rejects)) == ([1], 1)


def test_settings_beside_it_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "params.json").write_text('{"seed": 3, "lr": 1}')
    log = read(tmp_path, reports({"loss": 2.5, "training_iteration": 1}))
    assert log.config == {"seed": 3, "lr": 5e-05, "model.sizes": "[256, 256]"}
