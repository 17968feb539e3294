from pathlib import Path

import polars as pl
import pytest

from gputel.analysis import stores
from gputel.analysis.logs.log import Log
from gputel.analysis.runs import paths


def read(folder: Path, name: str, text: str) -> Log:
    path = folder / name
    path.write_text(text)
    assert stores.kind(path) == "csv"
    return stores.read(path)


def test_lightning_writes_training_and_validation_in_rows_of_their_own(tmp_path: Path) -> None:
    text = (
        "epoch,step,train_loss_step,train_loss_epoch,val_loss\n0,4,2.5,,\n0,9,2.25,,\n0,9,,2.4,\n0,9,,,2.6\n"
    )
    log = read(tmp_path, "metrics.csv", text)
    assert log.records.select("step", "loss", "epoch", "loss_avg").rows() == [
        (4, 2.5, 0.0, None),
        (9, 2.25, 0.0, 2.4),
    ]
    assert log.evals.select("step", "name", "value").rows() == [(9, "val_loss", 2.6)]


def test_keras_counts_epochs(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        "history.csv",
        "epoch,accuracy,loss,val_accuracy,val_loss\n0,0.5,2.5,0.4,2.75\n1,0.6,2,0.5,2.5\n",
    )
    assert log.records.select("step", "loss", "accuracy").rows() == [(0, 2.5, 0.5), (1, 2.0, 0.6)]
    assert set(log.evals["name"]) == {"val_loss", "val_accuracy"}
    assert log.name == "history"


def test_metrics_that_an_epoch_of_keras_lacks_are_null(tmp_path: Path) -> None:
    log = read(tmp_path, "history.csv", "epoch,loss,val_loss\n0,2.5,NA\n1,2,2.25\n")
    assert log.records["loss"].to_list() == [2.5, 2.0]
    assert log.evals.select("step", "name", "value").rows() == [(1, "val_loss", 2.25)]


def test_yolo_pads_its_cells(tmp_path: Path) -> None:
    header = "                  epoch,         train/box_loss,         lr/pg0,       val/box_loss\n"
    text = header + "                      1,                 1.5,          0.01,                 2.5\n"
    log = read(tmp_path, "results.csv", text)
    assert log.records.select("step", "box_loss", "lr").rows() == [(1, 1.5, 0.01)]
    assert log.evals.select("name", "value").rows() == [("val_box_loss", 2.5)]


@pytest.mark.parametrize("beside", ["hparams.yaml", "args.yaml"])
def test_settings_that_lightning_and_yolo_write_beside_a_table_are_those_of_the_run(
    tmp_path: Path, beside: str
) -> None:
    (tmp_path / beside).write_text("lr: 0.05\nopt:\n  name: sgd\nmodel: !!python/object:x.Y {}\n")
    log = read(tmp_path, "metrics.csv", "epoch,step,loss\n0,1,3\n0,2,2\n")
    assert log.config == {"lr": 0.05, "opt.name": "sgd"}
    assert list(paths.walk(tmp_path)) == [tmp_path / "metrics.csv"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiter_is_the_one_that_stands_most_often(tmp_path: Path, delimiter: str) -> None:
    text = "epoch,accuracy,loss,val_loss\n0,0.5,3,4\n1,0.75,2,3\n".replace(",", delimiter)
    log = read(tmp_path, "log.csv", text)
    assert log.records.select("step", "accuracy", "loss").rows() == [(0, 0.5, 3.0), (1, 0.75, 2.0)]
    assert log.evals["value"].to_list() == [4.0, 3.0]


def test_rewards_alone_make_records(tmp_path: Path) -> None:
    text = "rollout/ep_rew_mean,time/total_timesteps,time/fps\n1.5,100,\n2.5,200,\n"
    log = read(tmp_path, "progress.csv", text)
    assert log.records["rollout_ep_rew_mean"].to_list() == [1.5, 2.5]
    assert log.records["step"].to_list() == [100, 200]


RAY_TUNE = (
    "episode_reward_mean,done,training_iteration,trial_id,date,timestamp,time_total_s,pid,config/lr,"
    "config/model/fcnet_hiddens,info/learner/cur_lr,hist_stats/lengths\n"
    'nan,False,1,a1_00000,2024-01-02_03-04-06,1704164646,5.25,7,5e-05,"[256, 256]",5e-05,"[1, 2]"\n'
    '21.5,True,2,a1_00000,2024-01-02_03-04-12,1704164652,10.5,7,5e-05,"[256, 256]",4e-05,"[3, 4]"\n'
)


def test_ray_tune_keeps_texts_and_settings_among_its_numbers(tmp_path: Path) -> None:
    log = read(tmp_path, "progress.csv", RAY_TUNE)
    assert log.records.select("step", "episode_reward_mean", "lr").rows() == [
        (1, pytest.approx(float("nan"), nan_ok=True), 5e-05),
        (2, 21.5, 4e-05),
    ]
    assert log.records["time"].cast(pl.Int64).to_list() == [1704164646 * 10**9, 1704164652 * 10**9]
    assert log.config == {"lr": 5e-05, "model.fcnet_hiddens": "[256, 256]"}
    assert not {"timestamp", "pid", "trial_id", "date", "config_lr"} & set(log.records.columns)


def test_header_of_rllib_may_be_longer_than_what_is_looked_at(tmp_path: Path) -> None:
    more = [f"info/learner/policy_{at}/learner_stats/entropy" for at in range(200)]
    header = ["training_iteration", "time_total_s", "episode_reward_mean", *more]
    log = read(tmp_path, "progress.csv", "\n".join([",".join(header), ",".join(["1"] * 203), ""]))
    assert log.records["episode_reward_mean"].to_list() == [1.0]


def test_trial_of_ray_tune_is_one_run(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text(RAY_TUNE)
    (tmp_path / "params.json").write_text('{"lr": 5e-05}')
    assert list(paths.walk(tmp_path)) == [tmp_path / "progress.csv"]
    (tmp_path / "result.json").write_text("")
    assert list(paths.walk(tmp_path)) == [tmp_path / "progress.csv", tmp_path / "result.json"]
    (tmp_path / "result.json").write_text('{"training_iteration": 1, "time_total_s": 5.25, "loss": 2.5}\n')
    assert list(paths.walk(tmp_path)) == [tmp_path / "result.json"]


def test_settings_of_a_trial_are_those_beside_its_table(tmp_path: Path) -> None:
    (tmp_path / "params.json").write_text('{"seed": 3, "model": {"sizes": [1, 2]}}')
    config = read(tmp_path, "progress.csv", RAY_TUNE).config
    assert config == {"seed": 3, "model.sizes": "[1, 2]", "lr": 5e-05, "model.fcnet_hiddens": "[256, 256]"}


def test_table_of_another_tool_stays_beside_a_result(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text("time/total_timesteps,rollout/ep_rew_mean\n1,2\n2,3\n")
    (tmp_path / "result.json").write_text('{"step": 1, "loss": 2.5}\n')
    assert list(paths.walk(tmp_path)) == [tmp_path / "progress.csv", tmp_path / "result.json"]


@pytest.mark.parametrize("moment", ["", "nan", "-1", "1e300", "now"])
def test_impossible_moment_of_ray_tune_is_unknown(tmp_path: Path, moment: str) -> None:
    text = f"loss,training_iteration,time_total_s,timestamp\n2.5,1,1,{moment}\n"
    assert read(tmp_path, "progress.csv", text).records["time"].to_list() == [None]


def test_empty_cell_is_null_and_nan_a_value(tmp_path: Path) -> None:
    log = read(tmp_path, "metrics.csv", "epoch,step,loss,lr\n0,1,nan,0.1\n0,2,,0.1\n")
    assert [str(value) for value in log.records["loss"]] == ["nan", "None"]


def test_falling_step_begins_an_attempt(tmp_path: Path) -> None:
    log = read(tmp_path, "metrics.csv", "epoch,step,loss\n0,1,3\n0,2,2\n0,1,3\n")
    assert log.records.select("attempt", "step").rows() == [(1, 1), (1, 2), (2, 1)]


def test_message_among_the_rows_is_no_damaged_row(tmp_path: Path) -> None:
    """Programs print `Saving model` between the rows of a table."""
    (tmp_path / "a.csv").write_text("epoch,train_loss\n0,2.5\nSaving model to best.pt\n1,2.4\n2\n")
    log = paths.parse(tmp_path / "a.csv")
    assert (log.records["step"].to_list(), len(log.rejects)) == ([0, 1], 1)


def test_row_with_other_cells_than_the_header_is_a_reject(tmp_path: Path) -> None:
    log = read(tmp_path, "metrics.csv", "epoch,step,loss\n0,1,3\n0,2\n0,x,3\n0,3,1\n")
    assert [(reject.line, reject.reason) for reject in log.rejects] == [
        (3, "a row has 2 cells, and the header 3"),
        (4, "a row has no whole step"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "timestamp, index, power.draw [W]\n2026/01/01 00:00:00, 0, 300.0 W\n",
        "date,close,volume\n1,2,3\n",
        "phase,attempt,step,loss\ntrain,1,0,2.5\n",
        "step,loss\n0,2.5\n",
        "epoch 1, loss 2.5\n",
    ],
)
def test_other_tables_and_logs_are_left_to_the_parser(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    assert stores.kind(tmp_path / "a.csv") is None
