"""The Python API: what `gputel.open_run`, `parse`, `compare`, `plan` and `gate` give."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import click
import pytest

import gputel
from gputel.analysis.plan.request import CHOICES, PlanRequest
from gputel.cli import group
from gputel.telemetry.errors import GputelError
from gputel.telemetry.run_folder import create
from gputel.telemetry.store.tiers import Tier, TierColumn
from tests.recordings.printed import clock, fill, step

LOGS = Path(__file__).resolve().parents[1] / "sample_logs"
D16, D24 = LOGS / "d16-base.log.gz", LOGS / "d24-base.log.gz"
TIER = Tier("fast", 10.0, (TierColumn("power_w", "W", 1000, "0"),))
Compose = Callable[..., None]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "gpus.csv"
    rows = [f"2026/11/21 12:00:{second:02}.000, 0, {300 + second} W" for second in range(40)]
    path.write_text("\n".join(["timestamp, index, power.draw [W]", *rows]) + "\n")
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "d12.log"
    path.write_text("".join(f"{step(n)}\n" for n in range(30)))
    return path


def test_parsed_log_has_what_the_log_has_and_its_figures(log: Path) -> None:
    parsed = gputel.parse(log)
    assert parsed.steps["step"].to_list() == list(range(30))
    assert (parsed.name, parsed.status, parsed.is_empty) == ("d12", parsed.log.status, False)
    assert "loss" in parsed.figures
    assert parsed._repr_html_() == parsed.figures._repr_html_()
    assert [one.name for one in gputel.parse_all(log.parent)] == ["d12"]


def test_compared_has_what_the_comparison_has_and_its_figures() -> None:
    compared = gputel.compare([gputel.open_run(D16), gputel.parse(D24)], by="tokens")
    assert compared.runs == ["d16-base", "d24-base"]
    assert compared.milestones.equals(compared.comparison.milestones)
    assert compared._repr_html_() == compared.figures._repr_html_()
    assert "difference" in compared.figures
    assert repr(compared) == "<loss of d16-base, d24-base by tokens>"


def test_run_of_a_bare_log_has_its_log_and_says_what_it_lacks(log: Path) -> None:
    run = gputel.open_run(log)
    assert (run.name, run.path, run.recording, run.simulated) == ("d12", log, None, None)
    assert run.steps.height == 30
    assert run.per_step()["energy_j"].null_count() == len(run.per_step())
    assert "loss" in run.figures
    with pytest.raises(GputelError, match="d12: has no GPU readings"):
        _ = run.gpu
    for ask in (lambda: run.gpu_1s, run.scan, lambda: run.segments, lambda: run.duration_s):
        with pytest.raises(GputelError, match="d12: was not recorded by gputel"):
            ask()


def test_run_of_a_log_beside_a_table_has_the_readings(log: Path, table: Path) -> None:
    run = gputel.open_run(log, gpu=table, offset_s=60)
    assert run.gpu["power_w"].to_list() == [300 + second for second in range(40)]
    assert run.gpu["time"].dt.minute().unique().to_list() == [1]
    assert run.report().readings is not None


def test_run_of_a_recording_has_its_frames(tmp_path: Path, compose: Compose) -> None:
    segment = create(tmp_path / "d12", {"run": "d12", "started": clock(0), "ended": clock(20)})
    fill(segment, [(n, step(n)) for n in range(20)])
    segment.gpu.rmdir()
    compose(segment.gpu, [TIER], [(0, tick * 10**8, [400_000]) for tick in range(200)])
    run = gputel.open_run(tmp_path / "d12")
    assert run.recording is not None
    assert (run.path, run.name) == (tmp_path / "d12", "d12")
    assert run.segments["duration_s"].to_list() == [run.duration_s]
    assert run.steps.equals(run.recording.steps)
    assert run.gpu.equals(run.recording.gpu)
    assert run.scan().collect().height == run.gpu.height == 200
    assert run.gpu_1s["power_w_mean"].to_list() == [400.0] * 20
    assert len(run.descriptions) == 1


def test_plan_takes_the_options_of_the_command() -> None:
    """All but those that say where and how it is written, and `check`."""
    plan_command = group.get_command(click.Context(group), "plan")
    assert plan_command is not None
    options = {option.name for option in plan_command.params}
    written = {"check", "csv", "html", "out", "force", "as_json", "verbose"}
    asked = set(inspect.signature(gputel.plan).parameters)
    assert asked == options - written == {field.name for field in fields(PlanRequest)}
    for option in plan_command.params:
        if isinstance(option.type, click.Choice):
            assert tuple(option.type.choices) == CHOICES[str(option.name)]


def test_plan_has_a_row_a_size() -> None:
    plan = gputel.plan(depth=[16, 24], on="2xH100", price=4)
    assert [row.name for row in plan.rows] == ["d16", "d24"]
    assert plan.rows[0].figures["dollars"].value > 0
    (row,) = gputel.plan(params=1.5e9, on="8xH100").rows
    assert row.name == "1.5B"


def test_plan_has_the_figures_of_its_page() -> None:
    plan = gputel.plan(depth=[16, 24], on="2xH100")
    assert list(plan.figures) == ["memory"]
    assert plan.figures["memory"].plotly().data[0].name == "weights"
    assert plan._repr_html_() == plan.figures._repr_html_()
    assert (repr(plan), plan.rows) == ("<plan of d16, d24 on 2 x H100>", plan.plan.rows)


def test_plan_refuses_what_the_command_refuses() -> None:
    for fault, asked in (
        ("no size or limit was given", {"on": "2xH100"}),
        ("the GPUs are not named", {"depth": 16}),
        ("--optimizer adam: is not known", {"depth": 16, "on": "2xH100", "optimizer": "adam"}),
    ):
        with pytest.raises(GputelError, match=fault):
            gputel.plan(**asked)


def test_plan_is_corrected_by_a_run_of_any_kind() -> None:
    by_path = gputel.plan(depth=24, like=D16, on="2xH100")
    assert by_path.question.like is not None
    for like in (gputel.parse(D16), gputel.open_run(D16)):
        assert gputel.plan(depth=24, like=like, on="2xH100").rows == by_path.rows


def test_gate_judges_limits_and_targets() -> None:
    same, *others = gputel.gate(D16, gputel.parse(D16), {"loss": "1%", "mfu": 0.05}, target={"loss": 1.0})
    assert (same.metric, same.limit, same.verdict) == ("loss", 0.01, "passed")
    assert [(check.limit, check.verdict) for check in others] == [(0.05, "passed"), (1.0, "failed")]


def test_gate_refuses_a_limit_without_a_baseline_and_one_that_is_no_share() -> None:
    with pytest.raises(GputelError, match="max_regress: needs a baseline"):
        gputel.gate(D16, max_regress={"loss": 0.01})
    with pytest.raises(GputelError, match="nothing to judge was named"):
        gputel.gate(D16)
    with pytest.raises(GputelError, match="one: is not a percentage"):
        gputel.gate(D16, D16, {"loss": "one"})
