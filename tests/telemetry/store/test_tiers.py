"""Tiers and their JSON."""

import json

from hypothesis import given
from hypothesis import strategies as st

from gputel.telemetry.store.tiers import Tier, TierColumn, tier_from_json

COLUMNS = st.builds(
    TierColumn,
    st.text(max_size=9),
    st.none() | st.text(max_size=9),
    st.integers(1, 10**9),
    st.sampled_from(["0", "1", "0:1"]),
)
TIERS = st.builds(
    Tier, st.text(max_size=9), st.floats(0.01, 10_000), st.lists(COLUMNS, max_size=6).map(tuple)
)


@given(TIERS)
def test_tier_survives_json(tier: Tier) -> None:
    assert tier_from_json(json.loads(json.dumps(tier.as_json()))) == tier


@given(TIERS)
def test_tier_is_the_sum_of_its_gpus(tier: Tier) -> None:
    of_each = [column for gpu in ("0", "1", "0:1") for column in tier.only(subject=gpu).columns]
    assert sorted(of_each, key=str) == sorted(tier.columns, key=str)


def test_tier_of_some_readings_keeps_their_order() -> None:
    tier = Tier("fast", 100.0, tuple(TierColumn(name, None, 1, "0") for name in ("c", "a", "b")))
    assert [column.name for column in tier.only(["b", "c", "x"]).columns] == ["c", "b"]
    assert tier.only(["b"], "1").columns == ()
    assert tier.period_ns == 10_000_000
