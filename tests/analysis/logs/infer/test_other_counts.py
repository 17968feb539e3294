"""A rate that counts updates where the records count batches is no record."""

from __future__ import annotations

from collections.abc import Callable

from gputel.analysis.logs.log import Log


def with_updates(per_batch: float) -> str:
    """Batches, and at each 500th a summary that counts updates."""
    lines = []
    for batch in range(20, 2020, 20):
        lines.append(
            f"[train] E={batch // 400} B={batch} s/sec=1797.10 tok/sec=30691.0 ppl={9000 / (batch + 9):.4f}"
        )
        if batch % 500 == 0:
            updates = int(batch * per_batch)
            lines.append(f"[save] Checkpoint Updates={updates} Samples={900 * batch} Updates/sec=3.532")
    return "\n".join(lines)


def test_rate_that_counts_updates_between_batches_is_no_record(read: Callable[[str], Log]) -> None:
    log = read(with_updates(0.5))
    assert log.records["step"].to_list() == [*range(20, 2020, 20)]
    assert log.records["attempt"].n_unique() == 1


def test_rate_at_the_step_of_the_record_above_is_of_it(read: Callable[[str], Log]) -> None:
    log = read(with_updates(1))
    assert log.records["step"].unique().to_list() == [*range(20, 2020, 20)]
    assert log.records["attempt"].n_unique() == 1
