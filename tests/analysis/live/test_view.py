"""Costs of a run at one moment."""

import pytest

from gputel.analysis.live.view import GpuUserView, RunCost


@pytest.mark.parametrize(
    ("cost", "is_over"),
    [
        (RunCost(8.0, 99.0, None, 100.0, 2), False),
        (RunCost(8.0, 10.0, 120.0, 100.0, 2), True),
        (RunCost(8.0, 101.0, 90.0, 100.0, 2), True),
        (RunCost(8.0, 10_000.0, None, None, 2), False),
    ],
    ids=["within", "over at the end", "over already", "without a budget"],
)
def test_cost_is_over_budget_now_or_at_the_end(cost: RunCost, is_over: bool) -> None:
    assert cost.is_over is is_over


def test_share_of_a_process_on_two_gpus_is_of_one_of_them() -> None:
    words = GpuUserView("0,1", "python", None, None, memory_mib=2 * 4096.0, share=190.0).words
    assert words == "GPU 0,1 python 8.0 GiB 95 %"
