"""Public logs of other projects against figures that were counted by hand: every figure must be exact."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gputel.analysis.logs.log import Log
from gputel.analysis.runs import paths

pytestmark = pytest.mark.xdist_group("real_logs")  # each is parsed once, for all that is asked of it
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
    """One parameter per file; a single skipped one if the logs are not beside the checkout."""
    try:
        facts = [json.loads(line) for line in (LOGS / "truth.jsonl").read_text().splitlines()]
    except OSError:
        return [pytest.param({}, marks=pytest.mark.skip("the real logs are not beside this checkout"))]
    return [pytest.param(fact, id=fact["path"]) for fact in facts]


@cache
def read(path: str) -> Log:
    return paths.parse(LOGS / path)


def records(log_facts: dict[str, Any]) -> dict[str, Any]:
    truth = log_facts["ground_truth"]
    return next((truth[name] for name in TRAIN if name in truth), {"n": 0})


@pytest.mark.parametrize("log_facts", known())
def test_lines_and_records_are_complete(log_facts: dict[str, Any]) -> None:
    log = read(log_facts["path"])
    if log.telemetry is None:
        assert log.lines == log_facts["lines"]
    assert log.records.height == records(log_facts)["n"]
    assert log.rejects == []


@pytest.mark.parametrize("log_facts", known())
def test_steps_and_losses_are_those_printed(log_facts: dict[str, Any]) -> None:
    log, truth = read(log_facts["path"]), records(log_facts)
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


@pytest.mark.parametrize("log_facts", known())
def test_evaluations_are_complete_with_their_minimum(log_facts: dict[str, Any]) -> None:
    log, truth = read(log_facts["path"]), log_facts["ground_truth"]
    for counted, name in EVALUATIONS.items():
        if counted in truth and "n" in truth[counted]:
            check(log, name, truth[counted])
    if "columns" in records(log_facts) and "val_loss" in records(log_facts)["columns"]:
        column = records(log_facts)["columns"]["val_loss"]
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


@pytest.mark.parametrize("log_facts", known())
def test_columns_hold_the_printed_values(log_facts: dict[str, Any]) -> None:
    """Checks each column that keeps its printed name: the number of values, the first and the last."""
    log, truth = read(log_facts["path"]), records(log_facts)
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
def test_status_is_what_the_log_says(path: str, status: str, real_logs: Path) -> None:
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
def test_cause_is_the_first_fatal_line_and_not_a_consequence(
    path: str, line: int, text: str, real_logs: Path
) -> None:
    cause = read(path).cause
    assert cause is not None
    assert cause.line == line
    assert text in cause.text


def test_tracebacks_are_counted_exactly(real_logs: Path) -> None:
    for line in (real_logs / "truth.jsonl").read_text().splitlines():
        log_facts = json.loads(line)
        truth = log_facts["ground_truth"]
        anomalies = truth.get("anomalies")
        count = truth.get("tracebacks", anomalies.get("tracebacks") if isinstance(anomalies, dict) else None)
        if isinstance(count, int):
            counted = read(log_facts["path"]).events.filter(pl.col("kind") == "traceback").height
            assert counted == count, log_facts["path"]


def test_two_logs_of_one_run_give_the_same_records(real_logs: Path) -> None:
    out, text = read("build-nanogpt/linear-lr.out"), read("build-nanogpt/linear-lr.log.txt")
    columns = ["phase", "attempt", "step", "loss"]
    assert out.records.select(columns).equals(text.records.select(columns))
    assert out.evals.select("step", "name", "value").equals(text.evals.select("step", "name", "value"))


@pytest.mark.parametrize("log_facts", known())
def test_gpu_readings_are_telemetry(log_facts: dict[str, Any]) -> None:
    truth = log_facts["ground_truth"]
    log = read(log_facts["path"])
    if "rows" in truth:
        assert log.telemetry is not None
        assert log.telemetry.rows.height == truth["rows"]
    else:
        assert log.telemetry is None
