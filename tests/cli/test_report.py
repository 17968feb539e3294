"""`gputel report` as people call it: what it says of recordings, logs and tables, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gputel.cli import group
from gputel.telemetry import run_folder
from gputel.telemetry.errors import GputelError
from gputel.telemetry.store.tiers import Tier, TierColumn
from tests.command import gputel
from tests.recordings import PATIENCE_S
from tests.recordings.printed import SECOND, clock, fill, saved, step, validation

BEGUN = 10**9  # seconds; when the clock of `compose` began
TIER = Tier(
    "fast",
    10.0,
    tuple(
        TierColumn(name, unit, per_unit, gpu)
        for gpu in ("0", "1")
        for name, unit, per_unit in (
            ("power_w", "W", 1000), ("util", "%", 1), ("mem_used_mib", "MiB", 1), ("sm_mhz", "MHz", 1)
        )
    ),
)  # fmt: skip
H100 = {"name": "NVIDIA H100 80GB HBM3", "limits": {"power_w": 700}, "memory_total_mib": 81_559}


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compose: Callable[..., None]) -> Path:
    """100 steps of a second, 20 s of evaluation in the middle, a checkpoint; 1,200 W in steps, 200 W else."""
    monkeypatch.chdir(tmp_path)
    shift = BEGUN - clock(0)["wall_ns"] / SECOND
    lines = [(shift + 10 + n, step(n, 3 - n / 100, dt_ms=1000)) for n in range(50)]
    lines += [(shift + 60, saved(50)), (shift + 80, validation(50))]
    lines += [(shift + 81 + n, step(50 + n, 2.5 - n / 100, dt_ms=1000)) for n in range(50)]
    facts = {
        "run": "d12",
        "argv": ["python", "train.py"],
        "simulated": "2xH100",
        "started": clock(shift),
        "ended": clock(shift + 140),
        "exit_code": 0,
        "tags": {"lr": "3e-4"},
        "gpus": [{"gpu": gpu, "uuid": gpu, **H100} for gpu in "01"],
        "sampling": {"hz": 10.0},
    }
    segment = run_folder.create(Path("runs/a"), facts)
    segment.gpu.rmdir()
    compose(segment.gpu, [TIER], [(0, tick * SECOND // 10, ticked(tick / 10)) for tick in range(1400)])
    fill(segment, lines)
    return Path("runs/a")


def ticked(second: float) -> list[int]:
    works = 9 <= second < 59 or 80 <= second < 130
    return [600_000 if works else 100_000, 100 if works else 0, 40_000, 1980] * 2


def report(*words: str, code: int = 0) -> str:
    answer = CliRunner().invoke(group, ["report", *words], standalone_mode=False)
    assert answer.exception is None, answer.exception
    assert (answer.return_value or 0) == code
    return answer.stdout


def table(lines: str, title: str) -> dict[str, list[str]]:
    """The rows of a table by their first word; cells stand two spaces apart."""
    block = lines.split(title)[1].split("\n\n")[0].splitlines()
    ruled = next(number for number, line in enumerate(block) if line.startswith("──"))
    block = block[ruled + 1 :]
    return {line.split()[0]: [cell for cell in line.split("  ") if cell][1:] for line in block}


def test_report_says_where_the_time_and_the_energy_went(recorded: Path) -> None:
    said = report(str(recorded))
    assert said.startswith("SIMULATED: 2xH100; no real GPU data\nrun     d12: ")
    assert "command  python train.py" in said
    assert "GPUs     2 x NVIDIA H100 80GB HBM3" in said
    rows = {
        name: [cell.strip() for cell in cells]
        for name, cells in table(said, "Time and energy by phase").items()
    }
    assert rows["training"] == ["1 min 40 s", "76.9 %", "120.0 ±2.7 kJ", "95.2 %", "1,200 ±27 W", "100 %"]
    assert rows["evaluation"] == ["20.0 s", "15.4 %", "4,000 ±400 J", "3.2 %", "200 ±19 W", "0 %"]
    assert set(rows) == {"start", "training", "evaluation", "checkpoints"}


def test_idle_ends_are_cut_unless_they_are_to_be_kept(recorded: Path) -> None:
    assert "idle " not in report(str(recorded))
    rows = table(report(str(recorded), "--keep-idle"), "Time and energy by phase")
    assert rows["idle"][0].strip() == "10.0 s"


def test_json_has_the_same_figures(recorded: Path) -> None:
    result = json.loads(report(str(recorded), "--json"))
    by_kind = {row["kind"]: row for row in result["time"]}
    assert by_kind["train"]["energy_j"] == pytest.approx(120_000)
    assert by_kind["train"]["steps"] == 100
    assert result["phases"][0]["j_per_step"] == pytest.approx(1200)
    assert result["clock"] == {"how": "per-line timestamps", "uncertainty_s": 0.0}
    assert result["read"] == "ticks"
    assert [gpu["mem_peak_mib"] for gpu in result["gpus"]] == [40_000, 40_000]
    assert [verdict["question"] for verdict in result["verdicts"]] == [
        "bottleneck", "headroom", "mfu", "overfitting", "stragglers",
    ]  # fmt: skip
    assert result["events"]["checkpoint"] == 1


def test_verdicts_that_rest_on_gpu_readings_are_unknown_where_those_are_simulated(recorded: Path) -> None:
    def verdicts() -> dict[str, dict[str, Any]]:
        return {one["question"]: one for one in json.loads(report(str(recorded), "--json"))["verdicts"]}

    simulated = verdicts()
    for question in ("bottleneck", "headroom", "stragglers"):
        assert simulated[question]["answer"] == "unknown"
        assert simulated[question]["evidence"] == ["the GPU readings are simulated (2xH100): no verdict"]
    run_folder.update(recorded, simulated=None)
    measured = verdicts()
    assert measured["headroom"]["answer"] == "yes: a batch or model 1.9 times as large"
    assert measured["stragglers"]["answer"] == "none"
    assert measured["overfitting"] == simulated["overfitting"]
    why = "the GPUs are simulated (2xH100): the training did not run on them"
    assert why in simulated["mfu"]["evidence"]
    assert why not in measured["mfu"]["evidence"]


def test_report_and_compare_come_to_the_same_figures(recorded: Path) -> None:
    """Of one run; tok/s is there twice, by the time that passed and as it was printed."""
    (phase,) = json.loads(report(str(recorded), "--json"))["phases"]
    answer = CliRunner().invoke(group, ["compare", str(recorded), str(recorded), "--json"])
    summary = next(iter(json.loads(answer.stdout)["summary"].values()))
    assert summary["j_per_token"] == pytest.approx(phase["j_per_token"])
    assert summary["tok_per_sec"] == pytest.approx(phase["tok_per_sec_printed"])


def test_shares_are_of_the_energy_that_is_shown(recorded: Path) -> None:
    rows = json.loads(report(str(recorded), "--json"))["time"]
    whole = sum(row["energy_counter_j"] or row["energy_j"] for row in rows)
    for row in rows:
        joules = row["energy_counter_j"] or row["energy_j"]
        assert row["energy_share"] == pytest.approx(joules / whole)


def test_script_in_the_command_is_cut_and_its_letters_stay_on_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = "set -e\nfor i in 1 2 3; do\n    echo step $i\ndone\n" + "echo on and on\n" * 40
    run_folder.create(Path("runs/b"), {"run": "b", "argv": ["bash", "-c", script, "", "--lr", "3e-4"]})
    (line,) = [line for line in report("runs/b").splitlines() if line.startswith("command")]
    assert line == (
        "command  bash -c 'set -e for i in 1 2 3; do echo step $i done echo on and on …' '' --lr 3e-4"
    )


def test_latest_run_is_meant_where_nothing_is_named(recorded: Path) -> None:
    assert report() == report("latest") == report(str(recorded))


def test_report_fits_80_columns(recorded: Path) -> None:
    """In a real terminal."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "80", "TERM": "dumb"}
    with subprocess.Popen(
        [sys.executable, "-m", "gputel", "report", str(recorded)],
        stdout=follower,
        stderr=follower,
        env=environment,
    ) as process:
        os.close(follower)
        said = b""
        while piece := _read(leader):
            said += piece
        assert process.wait(PATIENCE_S) == 0
    os.close(leader)
    lines = said.decode().replace("\r", "").splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "next: gputel compare runs/a OTHER, gputel report runs/a --json"


def _read(handle: int) -> bytes:
    """A terminal whose other end was closed is an error on Linux."""
    try:
        return os.read(handle, 65_536)
    except OSError:
        return b""


def test_log_alone_has_its_time_and_its_verdicts(recorded: Path) -> None:
    sample = Path(__file__).parents[2] / "sample_logs" / "d16-base.log.gz"
    said = report(str(sample))
    assert said.startswith("synthetic log\nrun    d16-base: completed, 4 h 20 min\n")
    assert "model   depth 16, 335.5M parameters, 524,288 tokens/step" in said
    assert "MFU          43.9 %" in said


@pytest.fixture
def apart(recorded: Path) -> tuple[str, str]:
    """The same, as people have it today: a CSV of a sampler, and a log that lost its stamps."""
    CliRunner().invoke(group, ["export", str(recorded), "--csv", "gpu.csv", "--layout", "gpu_metrics"])
    Path("train.log").write_text((recorded / "output.log").read_text())
    os.utime("train.log", (BEGUN + 130, BEGUN + 130))
    return "gpu.csv", "train.log"


def test_table_and_a_log_that_were_never_recorded_together(apart: tuple[str, str]) -> None:
    gpu, log = apart
    result: dict[str, Any] = json.loads(report("--gpu", gpu, "--log", log, "--json"))
    assert result["clock"]["how"].startswith("by the sum of its times of steps")
    # the evaluation without a printed time
    assert result["clock"]["uncertainty_s"] == pytest.approx(22, abs=1.5)
    assert result["overlap"]["share"] == 1
    assert result["phases"][0]["steps"] == 100
    assert re.search("overlap +1 min 40 s, 100.0 % of the log", report("--gpu", gpu, "--log", log))


def test_offset_moves_the_readings(apart: tuple[str, str]) -> None:
    gpu, log = apart
    with_offset = json.loads(report("--gpu", gpu, "--log", log, "--offset", "-20s", "--json"))
    plain = json.loads(report("--gpu", gpu, "--log", log, "--json"))
    assert with_offset["overlap"]["gpu"] != plain["overlap"]["gpu"]


def test_no_overlap_is_a_failure_that_names_the_time_zone(apart: tuple[str, str]) -> None:
    gpu, _ = apart
    stamped = [f"2001-09-09 08:47:{n:02d}.000 {step(n)}" for n in range(10, 50)]
    Path("stamped.log").write_text("\n".join(stamped) + "\n")
    said = report("--gpu", gpu, "--log", "stamped.log", code=1)
    assert said.startswith("doubt: the log is of 2001-09-09 08:47:")
    assert "one of them is in another time zone; add --offset=7h" in said.splitlines()[0]
    assert "add --offset" not in report("--gpu", gpu, "--log", "stamped.log", "--offset", "7h")


def test_readings_alone_are_reported_without_verdicts_on_a_training(apart: tuple[str, str]) -> None:
    said = report(apart[0])
    assert "GPUs over 2 min 01 s" in said
    assert "bottleneck" not in said
    assert "GPUs over 2 min 20 s" in report(apart[0], "--keep-idle")


def test_table_of_readings_beside_a_log_says_how_to_join_them(apart: tuple[str, str]) -> None:
    said = gputel("report", *apart)
    assert said.returncode == 0
    assert said.stdout.startswith("2 reports\n")
    assert said.stderr == (
        f"{apart[0]} has GPU readings only: gputel report --gpu {apart[0]} --log LOG joins it with a log\n"
    )


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["page.html"], "page.html: no such file or folder; to write it, say --out page.html"),
        (["--gpu", "gpu.csv"], "gputel report: --gpu and --log go together, and without RUN; name both"),
        (
            ["a", "--gpu", "gpu.csv", "--log", "gpu.csv"],
            "gputel report: --gpu and --log go together, and without RUN",
        ),
        (["nowhere"], "nowhere: no such file or folder"),
        (["--gpu", "train.log", "--log", "train.log"], "train.log: no GPU readings were found in it"),
    ],
)
def test_run_that_cannot_be_reported_is_an_error_of_one_line(
    apart: tuple[str, str], words: list[str], fault: str
) -> None:
    answer = CliRunner().invoke(group, ["report", *words], standalone_mode=False)
    assert isinstance(answer.exception, GputelError)
    assert str(answer.exception).startswith(fault)


def test_offset_that_is_none_is_refused(recorded: Path) -> None:
    answer = CliRunner().invoke(group, ["report", "--offset", "soon"])
    assert answer.exit_code == 2
    assert "'soon' is not a shift in time like 3s, -250ms or -7h" in answer.output


def test_log_from_a_pipe_has_no_day_but_its_steps_have_their_time(apart: tuple[str, str]) -> None:
    answer = CliRunner().invoke(
        group, ["report", "-", "--json"], input=Path(apart[1]).read_bytes(), standalone_mode=False
    )
    result = json.loads(answer.stdout)
    assert result["clock"]["how"].endswith("counted from 1970, as the date is unknown")
    assert result["phases"][0]["duration_s"] == pytest.approx(100)


def test_readings_without_a_time_are_said_to_have_none(tmp_path: Path) -> None:
    path = tmp_path / "dmon.txt"
    path.write_text("# gpu   pwr gtemp\n# Idx     W     C\n    0   300    50\n    0   310    51\n")
    said = report(str(path))
    assert "clock  the readings have no timestamps" in said


def test_empty_run_says_so(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "b", {"run": "b"})
    assert report(str(tmp_path / "b")) == "run  b: running\n\nnothing was printed, and nothing was sampled\n"


def test_run_of_output_without_steps_or_samples_says_so(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "b", {"run": "b"}).output.write_text("hello\nworld\n")
    said = report(str(tmp_path / "b"))
    assert said.endswith("no step was recognized in 2 lines of output, and nothing was sampled\n")


def test_nodes_have_a_clock_each_in_the_json(tmp_path: Path) -> None:
    for node, late in (("0", 0.0), ("1", 3.5)):
        segment = run_folder.create(
            tmp_path / "r", {"run": "r", "started": clock(0), "ended": clock(60)}, node=node
        )
        fill(segment, [(10 + n + late, step(n, dt_ms=1000)) for n in range(20)])
    result = json.loads(report(str(tmp_path / "r"), "--json"))
    assert [(row["source"], row["offset_s"]) for row in result["sources"]] == [("0", 0), ("1", 3.5)]
    assert result["phases"][0]["steps"] == 20
    assert result["phases"][0]["step_s"] == pytest.approx(1)


def test_report_of_a_store_begins_with_how_the_run_ended(tmp_path: Path) -> None:
    state = {
        "global_step": 3,
        "max_steps": 3,
        "log_history": [{"step": n, "loss": 4.0 - n} for n in range(1, 4)],
    }
    (tmp_path / "trainer_state.json").write_text(json.dumps(state))
    done = gputel("report", tmp_path / "trainer_state.json")
    assert "completed" in done.stdout.splitlines()[0]
