"""Logs that nobody here wrote, against what was counted in them by hand: every figure exactly."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gputel.analysis.logs.log import Log
from gputel.analysis.runs import paths

LOGS = Path(__file__).resolve().parents[3] / ".." / "shared" / "logs"
TRAIN = ("train", "epoch_records", "epochs_with_loss", "train_epochs_completed")
EVALUATIONS = {
    "val_loss": "val_loss",
    "val_bpb": "val_bpb",
    "core_metric": "core_metric",
    "hellaswag": "hellaswag",
}
STATUS = {
    "build-nanogpt/full-2p5epoch.err": "interrupted",
    "megatron/zero-n16.out": "interrupted",
    "megatron/meg-n16-lossscale.out": "interrupted",
    "nanogpt/wandb-77iters.log": "interrupted",
    "nanogpt/gpt2-crashed.log": "failed",
    "nanochat/mid_train-failed-disk.log": "failed",
    "torchtitan/qwen3-14b-run35-oom.log": "failed",
    "excerpts/nccl-watchdog-basicsr737.txt": "failed",
    "nanochat/speedrun-d24-feb01.nocode.log": "completed",
    "nanochat/mid_train-jhinpan.log": "completed",
    "torchtitan/qwen3-14b-run230.log": "completed",
    "ultralytics/yolo11n-15epochs.log": "completed",
    "hf-trainer/mini-phi3-sft.log": "completed",
    "lightning/walk-jump-slurm-o.log": "completed",
    "mmdetection/nohup.out": "unknown",
    "modded-nanogpt/tailema_official_seed0.stdout": "unknown",
}


def known() -> list[Any]:
    """One parameter per file; where the logs do not lie beside the checkout, one that is skipped."""
    try:
        told = [json.loads(line) for line in (LOGS / "truth.jsonl").read_text().splitlines()]
    except OSError:
        return [pytest.param({}, marks=pytest.mark.skip("the real logs do not lie beside this checkout"))]
    return [pytest.param(one, id=one["path"]) for one in told]


@lru_cache(maxsize=4)
def read(path: str) -> Log:
    return paths.parse(LOGS / path)


def records(told: dict[str, Any]) -> dict[str, Any]:
    truth = told["ground_truth"]
    return next((truth[name] for name in TRAIN if name in truth), {"n": 0})


@pytest.mark.parametrize("told", known())
def test_lines_and_records_are_all_there(told: dict[str, Any]) -> None:
    log = read(told["path"])
    if log.telemetry is None:
        assert log.lines == told["lines"]
    assert log.records.height == records(told)["n"]
    assert log.rejects == []


@pytest.mark.parametrize("told", known())
def test_steps_and_losses_are_as_printed(told: dict[str, Any]) -> None:
    log, truth = read(told["path"]), records(told)
    steps = log.records["step"].drop_nulls()
    if "first_step" in truth:
        assert (steps.first(), steps.last()) == (truth["first_step"], truth["last_step"])
    losses = (
        log.records["loss"].drop_nulls() if "loss" in log.records.columns else pl.Series([], dtype=pl.Float64)
    )
    first = truth.get("first_loss", truth.get("first", {}).get("loss"))
    last = truth.get("last_loss", truth.get("last", {}).get("loss"))
    assert (losses.first(), losses.last()) == (first, last)
    assert losses.min() == truth.get("min_loss")
    if "max_loss" in truth:
        assert losses.max() == truth["max_loss"]


@pytest.mark.parametrize("told", known())
def test_evaluations_are_all_there_with_their_least_value(told: dict[str, Any]) -> None:
    log, truth = read(told["path"]), told["ground_truth"]
    for told_name, name in EVALUATIONS.items():
        if told_name in truth and "n" in truth[told_name]:
            check(log, name, truth[told_name])
    if "columns" in records(told) and "val_loss" in records(told)["columns"]:
        column = records(told)["columns"]["val_loss"]
        values = log.evals.filter(pl.col("name") == "val_loss")["value"]
        assert (len(values), values.first(), values.last()) == (column["n"], column["first"], column["last"])


def check(log: Log, name: str, truth: dict[str, Any]) -> None:
    rows = log.evals.filter(pl.col("name") == name)
    assert rows.height == truth["n"]
    for place, row in (("first", rows.head(1)), ("last", rows.tail(1))):
        if isinstance(truth.get(place), list):
            assert [*row["step"], *row["value"]] == truth[place]
        elif place in truth:
            assert row["value"].to_list() == [truth[place]]
    if "min" in truth:
        least = rows.filter(pl.col("value") == pl.col("value").min()).head(1)
        assert [*least["step"], *least["value"]] == truth["min"]


@pytest.mark.parametrize("told", known())
def test_columns_hold_what_was_printed(told: dict[str, Any]) -> None:
    """Every column whose printed name we kept: how many values, the first and the last."""
    log, truth = read(told["path"]), records(told)
    by_source = {what.source: name for name, what in log.sources.items()}
    for printed, column in truth.get("columns", {}).items():
        name = by_source.get(printed)
        if (
            name not in log.records.columns
            or "nan" in column
            or not isinstance(column["first"], (int, float))
        ):
            continue
        values = log.records[name].drop_nulls()
        scale = log.sources[name]
        if (scale.shift, scale.times, scale.over) == (0, 1, 1) and not scale.nulls & {b"-100.00"}:
            assert (len(values), values.first(), values.last()) == (
                column["n"],
                column["first"],
                column["last"],
            ), name


@pytest.mark.parametrize(("path", "status"), STATUS.items())
def test_a_run_ends_as_its_log_says(path: str, status: str, real_logs: Path) -> None:
    assert read(path).status == status


@pytest.mark.parametrize(
    ("path", "line", "text"),
    [
        ("build-nanogpt/full-2p5epoch.err", 1, "DUE TO TIME LIMIT"),
        ("nanochat/mid_train-failed-disk.log", 24, "OSError: Not enough disk space"),
        ("torchtitan/qwen3-14b-run35-oom.log", 112, "OutOfMemoryError"),
        ("nanogpt/gpt2-crashed.log", 503, "RuntimeError: File out/ckpt.pt cannot be opened."),
        ("excerpts/nccl-watchdog-basicsr737.txt", 1, "Watchdog caught collective operation timeout"),
    ],
)
def test_the_cause_is_the_first_one_and_not_a_victim(
    path: str, line: int, text: str, real_logs: Path
) -> None:
    found = read(path).cause
    assert found is not None
    assert found.line == line
    assert text in found.text


def test_tracebacks_are_counted_one_by_one(real_logs: Path) -> None:
    for line in (real_logs / "truth.jsonl").read_text().splitlines():
        told = json.loads(line)
        truth = told["ground_truth"]
        anomalies = truth.get("anomalies")
        count = truth.get("tracebacks", anomalies.get("tracebacks") if isinstance(anomalies, dict) else None)
        if isinstance(count, int):
            counted = read(told["path"]).events.filter(pl.col("kind") == "traceback").height
            assert counted == count, told["path"]


def test_both_logs_of_one_run_say_the_same(real_logs: Path) -> None:
    out, text = read("build-nanogpt/linear-lr.out"), read("build-nanogpt/linear-lr.log.txt")
    columns = ["phase", "attempt", "step", "loss"]
    assert out.records.select(columns).equals(text.records.select(columns))
    assert out.evals.select("step", "name", "value").equals(text.evals.select("step", "name", "value"))


@pytest.mark.parametrize("told", known())
def test_readings_of_gpus_are_telemetry(told: dict[str, Any]) -> None:
    truth = told["ground_truth"]
    log = read(told["path"])
    if "rows" in truth:
        assert log.telemetry is not None
        assert log.telemetry.rows.height == truth["rows"]
    else:
        assert log.telemetry is None
