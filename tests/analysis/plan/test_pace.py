"""What a run does besides computing steps."""

from __future__ import annotations

import pytest

from gputel.analysis.plan import inputs, pace
from gputel.analysis.plan.estimate import computed
from gputel.analysis.plan.inputs import machine
from gputel.analysis.plan.memory import Recipe

SIZE = inputs.of_depth(12)


def test_single_node_has_no_traffic_between_nodes() -> None:
    assert pace.between_nodes(SIZE, Recipe(1), machine("8xH100"), 1, computed(1.0)) is None


def test_ring_sends_gradients_of_all_but_one_node_twice() -> None:
    nodes = machine("16xH100", nodes=2, link_bytes_s=1e9)
    traffic = pace.between_nodes(SIZE, Recipe(1), nodes, 1, computed(1.0))
    assert traffic is not None
    assert traffic.bytes_per_node == pytest.approx(2 * 0.5 * 4 * SIZE.parameters)
    assert traffic.seconds.low < traffic.seconds.value < traffic.seconds.high


def test_last_checkpoint_is_saved_besides_the_regular_ones() -> None:
    schedule = pace.schedule(SIZE, Recipe(1), 3000, 1000, None)
    assert (schedule.count, schedule.kept) == (2, 3)
    assert pace.schedule(SIZE, Recipe(1), 3000, 1000, 1).kept == 1
    assert pace.schedule(SIZE, Recipe(1), 3000, 0, None).count == 0


def test_epochs_are_unknown_without_the_size_of_the_data() -> None:
    assert pace.reading(10**9, 65_536, None).epochs is None
    epochs = pace.reading(10**9, 65_536, 5 * 10**8).epochs
    assert epochs is not None
    assert epochs.value == 2
