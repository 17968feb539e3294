"""Laws planted in generated data are found again, and where there can be none it is said why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from gputel.analysis.compare import Comparison, compare, power_law
from gputel.analysis.compare.power_law import Interval, Law
from gputel.analysis.documents.compare import law_tables
from gputel.trainer.shape import shape_of

Numbers = npt.NDArray[np.float64]
SIZES = (9e7, 1.9e8, 3.4e8, 5.6e8, 8.8e8)
TIMES = (5, 20, 60)
GRID: Numbers = np.array([(size, size * times) for size in SIZES for times in TIMES])
COMPUTE: Numbers = np.array([[1e17], [4e17], [2e18], [1e19], [5e19], [2e20]])
BATCH = 524_288
TRIALS = 24


def of_both(x: Numbers) -> Numbers:
    loss: Numbers = 1.69 + 406.4 / x[:, 0] ** 0.34 + 410.7 / x[:, 1] ** 0.28
    return loss


def of_compute(x: Numbers) -> Numbers:
    loss: Numbers = 1.8 + 600 / x[:, 0] ** 0.155
    return loss


def holds(result: Interval, truth: float) -> bool:
    return result.low <= truth <= result.high


def test_law_of_two_powers_is_recovered_from_exact_data() -> None:
    law = power_law.fit(GRID, of_both(GRID))
    assert law.floor.value == pytest.approx(1.69, rel=1e-5)
    assert [result.value for result in law.exponents] == pytest.approx([0.34, 0.28], rel=1e-4)
    assert [result.value for result in law.factors] == pytest.approx([406.4, 410.7], rel=1e-3)


def test_law_of_one_power_is_recovered_from_exact_data() -> None:
    law = power_law.fit(COMPUTE, of_compute(COMPUTE))
    assert law.floor.value == pytest.approx(1.8, rel=1e-5)
    assert law.exponents[0].value == pytest.approx(0.155, rel=1e-4)
    assert law.deviation < 1e-6


@pytest.mark.long
@pytest.mark.parametrize(
    ("x", "truth", "exponents", "floor", "ahead"),
    [
        (GRID, of_both, (0.34, 0.28), 1.69, (4e9, 8e10)),
        (COMPUTE, of_compute, (0.155,), 1.8, (3e21,)),
        (COMPUTE[:4], of_compute, (0.155,), 1.8, (5e19,)),
    ],
    ids=["parameters and tokens", "compute", "compute, four points"],
)
def test_intervals_hold_the_truth_about_as_often_as_they_say(
    x: Numbers,
    truth: Callable[[Numbers], Numbers],
    exponents: tuple[float, ...],
    floor: float,
    ahead: tuple[float, ...],
) -> None:
    """Of 24 seeded trials; 23 are to be expected of intervals of 95 %."""
    held = np.zeros(len(exponents) + 2)
    for seed in range(TRIALS):
        random = np.random.default_rng(seed)
        law = power_law.fit(x, truth(x) * (1 + 0.002 * random.standard_normal(len(x))), seed=seed)
        reached = truth(np.array([ahead]))[0] * (1 + 0.002 * random.standard_normal())
        held += [
            *(holds(result, exponent) for result, exponent in zip(law.exponents, exponents, strict=True)),
            holds(law.floor, floor),
            holds(law.predict(np.array(ahead)), reached),
        ]
    assert min(held) >= 20


def test_one_run_that_went_wrong_does_not_bend_the_law() -> None:
    loss = of_both(GRID)
    loss[4] *= 1.1
    law = power_law.fit(GRID, loss)
    assert law.floor.value == pytest.approx(1.69, rel=0.01)
    assert [result.value for result in law.exponents] == pytest.approx([0.34, 0.28], rel=0.02)


def test_fewer_points_give_wider_intervals() -> None:
    def width(points: int) -> float:
        x = np.geomspace(1e17, 1e20, points)[:, None]
        noise = 1 + 0.002 * np.random.default_rng(3).standard_normal(points)
        result = power_law.fit(x, of_compute(x) * noise).predict(np.array([1e21]))
        return result.high - result.low

    assert width(4) > width(8) > width(64)


def test_nothing_in_a_law_is_negative_even_where_the_data_rise() -> None:
    law = power_law.fit(COMPUTE, np.linspace(2, 3, len(COMPUTE)))
    assert (law.draws >= 0).all()


def test_more_parameters_than_points_is_no_law() -> None:
    with pytest.raises(ValueError, match="5 points cannot tell a law of 5 parameters"):
        power_law.fit(GRID[:5], of_both(GRID[:5]))


Plant = Callable[..., Path]


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """The log of a run of some depth and tokens per parameter whose loss follows the planted law all the way."""

    def plant(depth: int, times: float, *, until: float = 1.0) -> Path:
        shape = shape_of(depth, vocab=65536, seq=2048)
        steps = int(times * shape.parameters) // BATCH
        at = np.unique(np.linspace(0, until * (steps - 1), 300).astype(int))
        loss = of_both(np.array([(shape.parameters, (step + 1) * BATCH) for step in at]))
        path = tmp_path / f"d{depth}-x{times:g}.log"
        rate = 0.45 * 2 * 989e12 / shape.flops_per_token
        banner = (
            f"Vocab size: 65,536\nnum_layers: {depth}\nNumber of parameters: {shape.parameters:,}\n"
            f"Total batch size {BATCH:,} => gradient accumulation steps: 16\n"
            f"Estimated FLOPs per token: {shape.flops_per_token:.9e}\n"
        )
        lines = [
            f"step {step:05d}/{steps} (0.00%) | loss: {value:.6f} | lrm: 1.00 | dt: {BATCH / rate * 1000:.2f}ms "
            f"| tok/sec: {rate:,.0f} | mfu: 45.00 | total time: {(step + 1) * BATCH / rate / 60:.2f}m\n"
            for step, value in zip(at.tolist(), loss.tolist(), strict=True)
        ]
        path.write_text(banner + "".join(lines))
        return path

    return plant


def law_of(found: Comparison) -> Law:
    assert found.scaling.law is not None
    return found.scaling.law


def test_four_sizes_at_three_ratios_give_the_law_of_parameters_and_tokens(plant: Plant) -> None:
    runs = [plant(depth, times) for depth in (8, 12, 16, 20) for times in TIMES]
    found = compare(runs, price=2.0)
    result = found.scaling
    assert (result.formula, result.why) == ("L = E + A/N^a + B/D^b", None)
    assert {name: known.value for name, known in result.constants.items()} == pytest.approx(
        {"E": 1.69, "A": 406.4, "B": 410.7, "a": 0.34, "b": 0.28}, rel=0.02
    )
    assert result.points["run"].to_list()[:3] == ["d8-x5", "d8-x20", "d8-x60"]
    assert result.points["frontier"].to_list()[0] is True


def test_next_depth_has_its_own_shape_and_the_largest_runs_pace(plant: Plant) -> None:
    """The users planned depth 24 by hand: 880,803,840 parameters, 33,600 steps of 524,288 tokens."""
    found = compare([plant(depth, 20) for depth in (8, 12, 16, 20)], price=3.0)
    ahead = found.scaling.next
    assert ahead is not None
    shape = shape_of(24, vocab=65536, seq=2048)
    assert (ahead.depth, ahead.parameters) == (24, 880_803_840)
    assert ahead.tokens == pytest.approx(33_600 * BATCH, rel=0.01)
    assert ahead.flops == pytest.approx(shape.flops_per_token * ahead.tokens, rel=1e-3)
    seconds = ahead.flops / (0.45 * 2 * 989e12)
    assert ahead.hours == pytest.approx(seconds / 3600, rel=0.01)
    assert ahead.cost == pytest.approx(seconds / 3600 * 2 * 3.0, rel=0.01)
    assert ahead.energy_j is None


def test_law_at_one_ratio_is_of_compute_and_says_so(plant: Plant) -> None:
    found = compare([plant(depth, 20) for depth in (8, 12, 16, 20)])
    assert found.scaling.formula == "L = E + A/C^a"
    assert found.scaling.why is not None
    assert "cannot be separated" in found.scaling.why
    law = law_of(found)
    truth = of_both(np.array([(880_803_840, 33_600 * BATCH)]))[0]
    assert law.predict(np.array([9.84e19])).value == pytest.approx(truth, rel=0.005)


def test_frontier_is_the_best_of_all_curves_at_each_compute(plant: Plant) -> None:
    """The small model first, until the larger one overtakes it."""
    found = compare([plant(8, 60), plant(16, 20)])
    result = found.frontier
    assert result["run"].unique(maintain_order=True).to_list() == ["d8-x60", "d16-x20"]
    assert result["flops"].is_sorted()
    assert result["value"][-1] == pytest.approx(found.curves.filter(run="d16-x20")["y"][-1], abs=0.01)


def test_with_three_sizes_there_is_no_law(plant: Plant) -> None:
    found = compare([plant(depth, times) for depth in (8, 12, 16) for times in TIMES])
    assert found.scaling.law is None
    assert found.scaling.next is None
    assert found.scaling.why == "a law needs 4 sizes with known parameters and tokens; there are 3"
    assert list(law_tables(found)) == []


def test_law_leaves_out_a_run_that_is_still_running(plant: Plant) -> None:
    runs = [*(plant(depth, 20) for depth in (8, 12, 16)), plant(20, 20, until=0.4)]
    result = compare(runs).scaling
    assert result.law is None
    assert result.why is not None
    assert result.why.endswith("there are 3; not counted, as still running or cut off: d20-x20")
    assert result.unfinished == ["d20-x20"]


def test_losses_that_rise_have_no_law(plant: Plant) -> None:
    runs = [plant(depth, 20) for depth in (8, 12, 16, 20)]
    result = compare(runs, metric="tok_per_sec").scaling
    assert result.law is None
    assert result.why == "a scaling law needs a falling loss, and tok_per_sec should rise"


def test_sizes_at_three_ratios_that_follow_from_the_size_are_a_law_of_compute(plant: Plant) -> None:
    runs = [
        plant(depth, times)
        for depth, times in zip((6, 8, 12, 16, 20, 24), (2, 4, 8, 12, 20, 30), strict=True)
    ]
    result = compare(runs).scaling
    assert result.formula == "L = E + A/C^a"


def test_tables_of_a_law_say_what_the_next_depth_costs(plant: Plant) -> None:
    points, constants, ahead = law_tables(compare([plant(depth, 20) for depth in (8, 12, 16, 20)], price=3.0))
    assert points.columns == ["run", "depth", "parameters", "tokens", "FLOPs", "loss", "frontier"]
    assert constants.title.startswith("L = E + A/C^a (C FLOPs)")
    assert [row[0] for row in constants.rows] == ["E", "A", "a"]
    assert ahead.title == "Estimate for depth 24 at the pace of d20-x20"
    assert [row[0] for row in ahead.rows] == ["parameters", "tokens", "FLOPs", "loss", "time", "cost"]
