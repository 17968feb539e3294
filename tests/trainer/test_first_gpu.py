"""The parts of deploy/first_gpu.py, on a machine that only writes down what it was asked."""

import importlib.util
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "deploy" / "first_gpu.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("first_gpu", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class StubMachine:
    """Leaves the metrics of a run that took equal steps; `change` may spoil them."""

    def __init__(self, gpus: int, change: Callable[[str, dict[str, Any]], None] | None = None) -> None:
        self.gpus, self.change = ["H100"] * gpus, change
        self.commands: list[str] = []

    def run(self, command: Sequence[str], limit_s: float) -> str:
        self.commands.append(" ".join(command))
        if "plan" in command:
            return '{"rows": [{"ranges": {"memory_gib": [12.4, 18.6]}}]}'
        if "gputel.trainer" in command:
            start = command.index("gputel.trainer")
            self.leave_metrics(Path(command[start + 2]), resumed="--resume" in command[start:])
        if "-c" in command:
            self.leave_metrics(Path(command[-2]))
        return "energy 1 kJ by integral\n"

    def leave_metrics(self, out: Path, *, resumed: bool = False) -> None:
        rows: list[dict[str, Any]] = [
            {
                "event": "step",
                "step": step,
                "loss": 5 - step / 10,
                "dt_ms": 100.0,
                "tok_per_sec": 1e5,
                "mfu": 44.0,
            }
            | {"mem_gib": 15.0, "communication_ms": 12.5}
            | {"forward_ms": 30.0, "backward_ms": 60.0, "optimizer_ms": 10.0}
            for step in range(20 if resumed else 0, 20 if out.name == "broken" and not resumed else 40)
        ]
        rows.append({"event": "eval_end", "step": 40, "val_loss": 3.5, "fault": None, "seconds": 1.0})
        out.mkdir(parents=True, exist_ok=True)
        with (out / "metrics.jsonl").open("a") as file:
            for row in rows:
                if self.change:
                    self.change(out.name, row)
                file.write(json.dumps(row) + "\n")


def report(
    script: ModuleType, tmp_path: Path, machine: StubMachine, only: str | None = None
) -> tuple[int, str]:
    words = ["--out", str(tmp_path / "report.md"), *(["--only", only] if only else [])]
    code: int = script.main(words, machine)
    return code, (tmp_path / "report.md").read_text()


def test_every_part_runs_and_a_goal_that_is_missed_is_said(script: ModuleType, tmp_path: Path) -> None:
    code, text = report(script, tmp_path, StubMachine(2))
    assert {line[3:] for line in text.splitlines() if line.startswith("## ")} == set(script.PARTS)
    assert "- depth 16: 44.0 %, goal 43 %: ok" in text
    assert "- depth 20: 44.0 %, goal 47 %: **MISSED**" in text
    assert "Failed" not in text
    assert code == 1


def test_part_that_needs_two_gpus_is_skipped_with_its_reason(script: ModuleType, tmp_path: Path) -> None:
    machine = StubMachine(1)
    code, text = report(script, tmp_path, machine, "ranks")
    assert "Skipped: needs 2 GPUs, this machine has 1." in text
    assert (code, machine.commands) == (0, [])


def test_ranks_are_started_by_torchrun_on_all_gpus(script: ModuleType, tmp_path: Path) -> None:
    machine = StubMachine(4)
    code, text = report(script, tmp_path, machine, "ranks")
    assert code == 0, text
    assert sum("--nproc_per_node=4" in command for command in machine.commands) == 2
    assert "--shard fsdp" in machine.commands[2]


def test_loss_that_differs_by_two_percent_is_missed(script: ModuleType, tmp_path: Path) -> None:
    def spoil(name: str, row: dict[str, Any]) -> None:
        if name == "bf16" and row["event"] == "step":
            row["loss"] *= 1.02

    code, text = report(script, tmp_path, StubMachine(1, spoil), "loss")
    assert f"- fp32, {script.LOSS}: 0 %, at most 0.2 %: ok" in text
    assert f"- bf16, {script.LOSS}: 2 %, at most 1 %: **MISSED**" in text
    assert code == 1


def test_one_bit_after_a_resume_is_found(script: ModuleType, tmp_path: Path) -> None:
    assert report(script, tmp_path, StubMachine(1), "resume")[0] == 0

    def spoil(name: str, row: dict[str, Any]) -> None:
        if name == "broken" and row.get("loss", 5) < 2:
            row["loss"] += 1e-15

    code, text = report(script, tmp_path, StubMachine(1, spoil), "resume")
    assert code == 1
    assert "steps whose loss differs in a bit: 9, at most 0: **MISSED**" in text


def test_recording_that_slows_training_is_missed_and_its_energy_is_quoted(
    script: ModuleType, tmp_path: Path
) -> None:
    def spoil(name: str, row: dict[str, Any]) -> None:
        if name == "at-1000" and row["event"] == "step":
            row["dt_ms"] *= 1.03

    _, text = report(script, tmp_path, StubMachine(1, spoil), "recording")
    assert "- slower at 100 Hz: 0 %, at most 1 %: ok" in text
    assert "- slower at 1000 Hz: 3 %, at most 1 %: **MISSED**" in text
    assert "energy 1 kJ by integral" in text


def test_part_that_fails_leaves_its_last_lines_and_the_next_part_runs(
    script: ModuleType, tmp_path: Path
) -> None:
    class BrokenMachine(StubMachine):
        def run(self, command: Sequence[str], limit_s: float) -> str:
            if "cpu" in command:
                raise script.PartError("exit code 1\nRuntimeError: no kernel image")
            return super().run(command, limit_s)

    code, text = report(script, tmp_path, BrokenMachine(1), "loss,resume")
    assert "**Failed**: PartError" in text
    assert "RuntimeError: no kernel image" in text
    assert "steps whose loss differs in a bit: 0, at most 0: ok" in text
    assert code == 1


def test_unknown_part_is_refused(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        script.main(["--only", "los", "--out", str(tmp_path / "r.md")], StubMachine(1))
    assert "--only: there is no part los; one of loss, compile," in capsys.readouterr().err


def test_report_grows_with_every_call(script: ModuleType, tmp_path: Path) -> None:
    for only in ("resume", "loss"):
        report(script, tmp_path, StubMachine(1), only)
    text = (tmp_path / "report.md").read_text()
    assert text.index("## resume") < text.index("## loss")


def test_command_that_fails_or_hangs_is_an_error_with_its_last_lines(script: ModuleType) -> None:
    machine = script.RealMachine()
    with pytest.raises(script.PartError, match=r"exit code 3: sh -c(.|\n)*it broke"):
        machine.run(["sh", "-c", "echo it broke >&2; exit 3"], 60)
    with pytest.raises(script.PartError, match=r"did not end within 0 s(.|\n)*it began"):
        machine.run(["sh", "-c", "echo it began; exec sleep 60"], 0.2)


def test_fp8_is_compared_with_bf16_in_loss_and_speed(script: ModuleType, tmp_path: Path) -> None:
    def worse_in_eight_bits(run: str, row: dict[str, Any]) -> None:
        if run == "fp8" and row["event"] == "step":
            row |= {"loss": row["loss"] * 1.03, "tok_per_sec": 1.4e5}

    code, text = report(script, tmp_path, StubMachine(1, worse_in_eight_bits), "fp8")
    assert f"- {script.LOSS}: 3 %, at most 1 %: **MISSED**" in text
    assert "- 140,000 tokens a second in FP8, 100,000 tokens a second in bf16" in text
    assert code == 1


@pytest.mark.parametrize(
    ("rounding", "end"), [(1.008, "at most 1.6 %: ok"), (1.0, "at most 0.5 %: **MISSED**")]
)
def test_kernel_of_attention_may_differ_by_twice_what_rounding_alone_does(
    script: ModuleType, tmp_path: Path, rounding: float, end: str
) -> None:
    factors = {"cudnn": 1.012, "wide-halves": rounding}

    def rounded(run: str, row: dict[str, Any]) -> None:
        if row["event"] == "step":
            row["loss"] *= factors.get(run, 1)

    code, text = report(script, tmp_path, StubMachine(1, rounded), "attention")
    assert f"- cudnn, {script.LOSS}: 1.2 %, {end}" in text
    assert code == int(rounding == 1)


class OldGpu(StubMachine):
    """The trainer refuses what it lacks."""

    def __init__(self, script: ModuleType) -> None:
        super().__init__(1)
        self.error = script.PartError

    def run(self, command: Sequence[str], limit_s: float) -> str:
        for option, reason in (("--fp8", "--fp8: A100 does not"), ("fa3", "--attention fa3: A100 does not")):
            if option in command:
                raise self.error(f"exit code 1: {' '.join(command)}\n{reason}")
        return super().run(command, limit_s)


def test_what_the_gpu_lacks_is_skipped_with_the_trainers_reason(script: ModuleType, tmp_path: Path) -> None:
    code, text = report(script, tmp_path, OldGpu(script), "fp8,attention")
    assert "- skipped: --fp8: A100 does not" in text
    assert "- fa3 skipped: --attention fa3: A100 does not" in text
    assert "- cudnn: 100,000 tokens a second" in text
    assert (code, "Failed" in text) == (0, False)


def test_every_training_says_how_many_tokens_a_step_has(script: ModuleType, tmp_path: Path) -> None:
    """The default on a GPU is half a million, of which a tiny shape makes a thousand micro-batches."""
    machine = StubMachine(2)
    report(script, tmp_path, machine)
    trainings = [command for command in machine.commands if "gputel.trainer --out" in command]
    assert len(trainings) > 20
    assert [command for command in trainings if "--total-batch-size" not in command] == []


def test_run_that_two_parts_need_is_made_once(script: ModuleType, tmp_path: Path) -> None:
    machine = StubMachine(1)
    report(script, tmp_path, machine, "memory,fp8,mfu")
    outs = [command.split("--out ")[1].split()[0] for command in machine.commands if "--out" in command]
    assert [Path(out).name for out in outs] == ["d12", "fp8", "d16", "d20"]


def test_part_for_which_no_time_is_left_is_not_begun(script: ModuleType, tmp_path: Path) -> None:
    words = ["--only", "fp8", "--seconds", "0", "--out", str(tmp_path / "report.md")]
    machine = StubMachine(1)
    assert script.main(words, machine) == 1
    assert "**Not begun**: the time is up." in (tmp_path / "report.md").read_text()
    assert machine.commands == []


def test_evaluation_that_failed_is_missed_and_quoted(script: ModuleType, tmp_path: Path) -> None:
    def spoil(name: str, row: dict[str, Any]) -> None:
        if row["event"] == "eval_end":
            row["fault"] = "evaluation at step 20 failed: out of memory"

    code, text = report(script, tmp_path, StubMachine(1, spoil), "evaluation")
    assert "- evaluations that failed: 1, at most 0: **MISSED**" in text
    assert "failed: out of memory" in text
    assert code == 1
