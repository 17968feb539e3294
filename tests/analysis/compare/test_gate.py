"""The gate: worse than the baseline by more than noise, not worse, or unknown."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gputel.analysis.compare import gate
from gputel.analysis.logs.log import Log
from gputel.analysis.runs import paths
from gputel.telemetry.errors import GputelError


def log(
    folder: Path,
    name: str,
    *,
    pace: float = 10_000.0,
    loss: float = 0.0,
    steps: int = 400,
    noise: float = 0.01,
    seed: int = 0,
) -> Log:
    """A run whose first ten steps are slow, whose throughput wanders and whose loss falls."""
    chance = np.random.default_rng(seed)
    lines = []
    for step, speed in enumerate(speeds(chance, pace, steps, noise)):
        value = (3 + 8 * np.exp(-step / 50)) * (1 + loss) + chance.normal(0, 0.02)
        lines.append(f"step {step} | loss: {value:.4f} | dt: {4096e3 / speed:.2f}ms | tok/sec: {speed:.1f}\n")
        if step % 100 == 99:
            lines.append(f"Step {step:05d} | Validation bpb: {value / 3:.4f}\n")
    path = folder / f"{name}.log"
    path.write_text("".join(lines))
    return paths.parse(path)


def speeds(
    chance: np.random.Generator, pace: float, steps: int = 400, noise: float = 0.01
) -> Iterator[float]:
    wander = np.cumsum(chance.normal(0, noise / 10, steps))
    for step in range(steps):
        yield pace * (0.2 if step < 10 else 1 + wander[step] - wander.mean() + chance.normal(0, noise))


def verdict(run: Log, baseline: Log, **limits: float) -> list[str]:
    return [check.verdict for check in gate.judge(run, baseline, limits, {})]


def test_gate_passes_a_run_that_differs_by_noise_alone(tmp_path: Path) -> None:
    run, baseline = log(tmp_path, "a", seed=1), log(tmp_path, "b", seed=2)
    assert verdict(run, baseline, tok_per_sec=0.03, loss=0.01, dt_ms=0.03, val_bpb=0.03) == ["passed"] * 4


def test_gate_fails_a_slower_run_and_passes_a_faster_one(tmp_path: Path) -> None:
    run, baseline = log(tmp_path, "a", pace=9_000, seed=1), log(tmp_path, "b", seed=2)
    assert verdict(run, baseline, tok_per_sec=0.03, dt_ms=0.03) == ["failed"] * 2
    assert verdict(baseline, run, tok_per_sec=0.03, dt_ms=0.03) == ["passed"] * 2


def test_gate_fails_when_loss_is_2_percent_higher(tmp_path: Path) -> None:
    run, baseline = log(tmp_path, "a", loss=0.02, seed=1), log(tmp_path, "b", seed=2)
    assert verdict(run, baseline, loss=0.01) == ["failed"]
    assert verdict(run, baseline, loss=0.05) == ["passed"]


def test_slow_steps_at_the_start_do_not_count(tmp_path: Path) -> None:
    run, baseline = log(tmp_path, "a", steps=60, noise=0.001), log(tmp_path, "b", steps=400, noise=0.001)
    (check,) = gate.judge(run, baseline, {"tok_per_sec": 0.03}, {})
    assert check.verdict == "passed"
    assert check.steps == 50


def test_noise_that_reaches_over_the_limit_is_not_judged(tmp_path: Path) -> None:
    run, baseline = (
        log(tmp_path, "a", pace=9_700, noise=0.3, steps=60, seed=1),
        log(tmp_path, "b", noise=0.3, seed=2),
    )
    (check,) = gate.judge(run, baseline, {"tok_per_sec": 0.03}, {})
    assert check.verdict == "unknown"
    assert check.why.endswith("too noisy to decide")


def test_too_few_steps_are_not_judged(tmp_path: Path) -> None:
    run, baseline = log(tmp_path, "a", steps=25), log(tmp_path, "b")
    checks = gate.judge(run, baseline, {"tok_per_sec": 0.03, "loss": 0.01}, {})
    assert [check.verdict for check in checks] == ["unknown"] * 2
    assert checks[0].why == "only 15 steps after warm-up; 20 are needed"
    assert checks[1].why == "only 15 shared steps after warm-up; 20 are needed"


def test_interval_has_the_true_change_about_as_often_as_it_claims(tmp_path: Path) -> None:
    template, held = log(tmp_path, "a"), 0

    def drawn(pace: float, seed: int) -> Log:
        rates = pl.Series("tok_per_sec", speeds(np.random.default_rng(seed), pace))
        return template.with_results(records=template.records.with_columns(rates))

    for seed in range(40):
        run, baseline = drawn(9_500, seed), drawn(10_000, seed + 1000)
        (check,) = gate.judge(run, baseline, {"tok_per_sec": 0.03}, {})
        assert check.low is not None
        assert check.high is not None
        held += check.low <= 0.05 <= check.high
    assert held >= 32


def test_target_is_reached_by_the_best_evaluation(tmp_path: Path) -> None:
    run = log(tmp_path, "a")
    reached, missed, absent = gate.judge(run, None, {}, {"val_bpb": 1.1, "loss": 2.0, "core_metric": 0.2})
    assert (reached.verdict, missed.verdict, absent.verdict) == ("passed", "failed", "unknown")
    assert absent.why == "the run has no core_metric"


def printed(folder: Path, name: str, line: str) -> Log:
    path = folder / f"{name}.log"
    path.write_text("".join(f"step {step} | loss: 3.0 | {line}\n" for step in range(100)))
    return paths.parse(path)


def test_gate_fails_when_reward_loss_is_10_percent_higher(tmp_path: Path) -> None:
    run, baseline = printed(tmp_path, "a", "reward_loss: 1.1"), printed(tmp_path, "b", "reward_loss: 1.0")
    assert verdict(run, baseline, reward_loss=0.01) == ["failed"]
    assert verdict(baseline, run, reward_loss=0.01) == ["passed"]


def test_gate_refuses_a_metric_of_unknown_direction_unless_a_flag_says_it(tmp_path: Path) -> None:
    run, baseline = printed(tmp_path, "a", "kl: 1.1"), printed(tmp_path, "b", "kl: 1.0")
    with pytest.raises(GputelError) as caught:
        gate.judge(run, baseline, {"kl": 0.01}, {})
    assert str(caught.value) == (
        "kl: its name does not say whether lower or higher is better; add --lower kl or --higher kl"
    )
    for lower, higher, expected in ((["kl"], [], "failed"), ([], ["kl"], "passed")):
        (check,) = gate.judge(run, baseline, {"kl": 0.01}, {}, lower=lower, higher=higher)
        assert check.verdict == expected


def test_gate_takes_no_metric_as_both_lower_and_higher(tmp_path: Path) -> None:
    run = printed(tmp_path, "a", "kl: 1.1")
    with pytest.raises(GputelError, match="kl: is both --lower and --higher; keep one of the two"):
        gate.judge(run, run, {"kl": 0.01}, {}, lower=["kl"], higher=["kl"])


@pytest.mark.parametrize(("verdicts", "code"), [("pp", 0), ("pu", 5), ("uf", 4), ("", 0)])
def test_broken_limit_goes_before_one_that_cannot_be_judged(verdicts: str, code: int) -> None:
    names = {"p": "passed", "u": "unknown", "f": "failed"}
    checks = [gate.GateResult("loss", 0.01, "regress", names[v], "") for v in verdicts]  # type: ignore[arg-type]
    assert gate.exit_code(checks) == code
