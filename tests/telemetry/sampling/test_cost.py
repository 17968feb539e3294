"""Quantiles of lateness, and when a tick is late."""

from hypothesis import given
from hypothesis import strategies as st

from gputel.telemetry.sampling.cost import Durations, SamplingCost


@given(st.lists(st.integers(0, 10**12), min_size=1), st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_quantile_is_above_its_share_of_the_values_by_less_than_a_sixteenth(
    values: list[int], share: float
) -> None:
    lateness = Durations()
    for value in values:
        lateness.add(value)
    ordered = sorted(values)
    exact = ordered[max(0, -(-int(share * 1000) * len(values) // 1000) - 1)]
    quantile = lateness.quantile(share)
    assert quantile is not None
    assert exact <= quantile <= exact * 17 / 16 + 1


def test_cost_has_no_lateness_and_no_rate_before_the_first_tick() -> None:
    cost = SamplingCost(10_000_000)
    assert (cost.hz, cost.lateness.quantile(0.5)) == (None, None)
    assert cost.as_json()["lateness_us"] == {"p50": None, "p99": None, "max": None}


def test_tick_is_late_when_it_fires_more_than_a_period_after_its_deadline() -> None:
    cost = SamplingCost(10_000_000)
    for lateness in (0, 9_999_999, 10_000_000, 10_000_001):
        cost.tick(1_000_000_000, 1_000_000_000 + lateness)
    facts = cost.as_json()
    assert (facts["ticks"], facts["late"]) == (4, 1)


def test_late_first_tick_makes_no_rate_too_high() -> None:
    cost = SamplingCost(10_000_000)
    for deadline in range(0, 1_000_000_001, 10_000_000):
        cost.tick(deadline, max(deadline, 25_000_000))
    assert cost.sampled_s == 1.0
