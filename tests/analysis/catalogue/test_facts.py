"""A run has facts of declared types, its settings, and figures of every metric."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gputel.analysis.catalogue import facts
from gputel.analysis.compare import compare
from gputel.analysis.logs import summary
from gputel.analysis.report.summary import recording_summary
from gputel.analysis.runs import read_run
from gputel.telemetry import run_folder


def test_sums_of_gpus_are_those_of_the_closing_report(recording: Path) -> None:
    found, summary = facts.computed(recording), recording_summary(recording)
    assert found
    assert found.facts["energy_j"] == pytest.approx(summary.energy_j)
    assert found.facts["bytes_gpu"] == summary.telemetry_bytes
    gaps = [gpu.measured_s / gpu.covered - gpu.measured_s for gpu in summary.gpus if gpu.covered]
    assert found.facts["gap_s"] == (pytest.approx(max(gaps)) if gaps else None)


def test_every_fact_has_the_type_that_it_is_declared_with(recording: Path) -> None:
    row = facts.computed(recording)
    assert row is not None
    kinds = {"text": str, "time": str, "whole": int, "number": float}
    wrong = [
        name
        for name, cell in row.facts.items()
        if cell is not None and type(cell) is not kinds[facts.FACTS[name]]
    ]
    assert wrong == []
    assert list(row.facts) == list(facts.FACTS)


def test_gpu_hours_are_gpus_times_the_duration(recording: Path) -> None:
    row = facts.computed(recording)
    assert row
    assert row.facts["gpu_hours"] == pytest.approx(2 * row.facts["duration_s"] / 3600)
    assert row.facts["cost"] == pytest.approx(4 * row.facts["gpu_hours"])


def test_gpu_hours_are_those_of_whole_gpus(recording: Path, tmp_path: Path) -> None:
    """Beside their MIG instances, which are described as GPUs of their own."""
    run = shutil.copytree(recording, tmp_path / "run")
    gpus: Any = run_folder.describe(run)["gpus"]
    parts = ({**gpu, "gpu": f"{gpu['gpu']}:0", "uuid": "MIG"} for gpu in gpus)
    run_folder.update(run, gpus=[*gpus, *parts])
    row = facts.computed(run)
    assert row
    assert row.facts["gpu_hours"] == pytest.approx(2 * row.facts["duration_s"] / 3600)


def test_gpu_hours_of_two_nodes_are_those_of_each(recording: Path, tmp_path: Path) -> None:
    alone, nodes = facts.computed(recording), [tmp_path / "run" / "nodes" / rank for rank in "01"]
    for node in nodes:
        shutil.copytree(recording, node)
    both = facts.computed(tmp_path / "run")
    assert alone
    assert both
    assert both.facts["duration_s"] == alone.facts["duration_s"]
    assert both.facts["gpu_hours"] == pytest.approx(2 * alone.facts["gpu_hours"])
    assert both.facts["cost"] == pytest.approx(2 * alone.facts["cost"])


@pytest.mark.parametrize("key", ["price", "ended"])
def test_cost_is_null_where_the_price_or_the_end_of_a_segment_is_unknown(
    recording: Path, tmp_path: Path, key: str
) -> None:
    run = shutil.copytree(recording, tmp_path / "run")
    description = run / "run.json"
    description.write_text(json.dumps(json.loads(description.read_text()) | {key: None}))
    row = facts.computed(run)
    assert row
    assert row.facts["cost"] is None
    assert (row.facts["gpu_hours"] is None) == (key == "ended")


@pytest.mark.parametrize("begin", [0, 1])
def test_steps_are_as_many_as_parse_and_compare_count(tmp_path: Path, begin: int) -> None:
    """Steps 0 to 11 are twelve, and so are 1 to 12."""
    path = tmp_path / "a.log"
    path.write_text("".join(f"step {begin + n} | loss: {3 - n / 10}\n" for n in range(12)))
    subject, row = read_run(path), facts.computed(path)
    assert row is not None
    assert row.facts["steps"] == summary.run(subject.log)["phases"][0]["steps"] == 12
    assert compare([subject, subject]).summary["steps"].to_list() == [12, 12]


@pytest.mark.parametrize(("file", "name"), [("log.txt", "r0001/log"), ("d16.log", "d16")])
def test_log_with_a_common_name_is_told_by_its_folder(tmp_path: Path, file: str, name: str) -> None:
    path = tmp_path / "r0001" / file
    path.parent.mkdir()
    path.write_text("".join(f"step {step} | loss: {9 - step / 10}\n" for step in range(1, 20)))
    row = facts.computed(path)
    assert row
    assert row.facts["run"] == name


def test_store_that_is_named_by_a_folder_of_a_common_name_is_told_by_the_one_above(tmp_path: Path) -> None:
    path = tmp_path / "tuned" / "out" / "trainer_state.json"
    path.parent.mkdir(parents=True)
    history = [{"step": n, "loss": 5 - n} for n in range(4)]
    path.write_text(json.dumps({"global_step": 4, "max_steps": 4, "log_history": history}))
    row = facts.computed(path)
    assert row
    assert row.facts["run"] == "tuned/out"


def test_verdict_is_that_of_the_report() -> None:
    row = facts.computed(Path(__file__).resolve().parents[3] / "sample_runs" / "h100-depth12")
    assert row
    assert row.facts["verdict"] == "compute"


@pytest.mark.parametrize(
    ("stated", "rate"),
    [
        ({"lr": 0.1}, 0.1),
        ({"optimizer.learning_rate": "3e-4", "batch": 8}, 3e-4),
        ({"lr": 0.1, "warmup.lr": 0.01}, 0.1),
        ({"actor.lr": 0.1, "critic.lr": 0.01}, None),
        ({"lr_schedule": "cosine"}, None),
    ],
)
def test_learning_rate_that_is_never_logged_is_the_one_of_the_settings(
    tmp_path: Path, stated: dict[str, float | str], rate: float | None
) -> None:
    (tmp_path / "metrics.csv").write_text("epoch,step,loss\n0,1,3\n0,2,2\n")
    (tmp_path / "hparams.yaml").write_text("".join(f"{name}: {value}\n" for name, value in stated.items()))
    row = facts.computed(tmp_path / "metrics.csv")
    assert row is not None
    assert row.facts["lr"] == rate


def test_figures_of_a_metric_are_of_all_its_values_in_a_store(tmp_path: Path) -> None:
    """The learning rate makes the records; returns of episodes fall on other steps, but for one."""
    (tmp_path / "metrics.csv").write_text(
        "step,train/lr,episode/return\n0,0.1,\n3,,40\n10,0.1,7\n14,,2\n20,0.1,\n"
    )
    row = facts.computed(tmp_path / "metrics.csv")
    assert row is not None
    found = row.metrics["episode_return"]
    assert {name: found[name] for name in ("count", "first", "last", "max", "max_step")} == {
        "count": 3,
        "first": 40,
        "last": 2,
        "max": 40,
        "max_step": 3,
    }
    assert row.metrics["lr"]["count"] == 3


def test_figures_of_a_run_leave_out_what_a_resume_rolled_back(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    steps = (
        *((n, 0.5 if n == 40 else 2.0) for n in range(0, 50, 10)),
        *((n, 1.0) for n in range(25, 60, 10)),
    )
    path.write_text(
        "".join(f"step {n} | loss: {v:.4f}\nStep {n} | Validation loss: {v + 1:.4f}\n" for n, v in steps)
    )
    row = facts.computed(path)
    assert row is not None
    assert (row.facts["loss_min"], row.facts["val_loss_min"], row.facts["val_loss_min_step"]) == (1, 2, 25)
    assert row.metrics["loss"]["count"] == 7
