"""What a run does besides computing steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_letters_are_tokens_if_the_vocabulary_is_small() -> None:
    assert pace.characters_per_token(32) == computed(1.0, "one character per token")
    assert pace.characters_per_token(50_257).value == pytest.approx(4.65)


@given(st.integers(1, 10**6), st.integers(0, 10**5), st.none() | st.integers(1, 100))
def test_checkpoints_on_the_way_never_fall_on_the_last_step(steps: int, every: int, keep: int | None) -> None:
    made = pace.schedule(inputs.of_depth(4), Recipe(1), steps, every, keep)
    saved = list(range(every, steps, every)) if every else []
    assert made.count == len(saved)
    assert made.kept == (len(saved) + 1 if keep is None else min(keep, len(saved) + 1))


def test_sharded_weights_are_sent_twice_per_micro_batch() -> None:
    size, eight = inputs.of_depth(24), machine("8xH100-PCIe")
    slow = computed(10.0)
    one = pace.gathering(size, Recipe(8, shard="fsdp"), eight, 1, slow)
    four = pace.gathering(size, Recipe(8, shard="fsdp"), eight, 4, slow)
    assert one
    assert four
    each = 7 / 8 * size.parameters
    assert one.bytes_per_node == pytest.approx(each * (2 * 2 + 4))
    assert four.bytes_per_node == pytest.approx(each * (4 * 2 * 2 + 4))
    assert one.seconds.value == 0
    assert one.seconds.high > 0
    assert pace.gathering(size, Recipe(8), eight, 4, slow) is None
