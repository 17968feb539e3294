"""Composed logs are read as they were meant, or the reading says what makes it doubtful."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gputel.analysis.logs import unread_doubts
from gputel.analysis.logs.log import Log
from tests.analysis.logs.composed_logs import Composed, composed

Read = Callable[[str], Log]
GROUPS, SEEDS = 20, 6


def faults(log: Log, meant: Composed) -> Iterator[str]:
    """What was read otherwise: a loss, the step of a record, the place of an evaluation, one too many."""
    losses = log.records["loss"].to_list() if "loss" in log.records.columns else []
    if losses != [record.loss for record in meant.records]:
        yield f"{len(losses)} records of {len(meant.records)}, or with other losses"
        return
    attempts = log.records["attempt"].to_list()
    if attempts != [record.training for record in meant.records]:
        yield f"{len({*attempts})} trainings"
    for step, record in zip(log.records["step"], meant.records, strict=True):
        if record.step not in (None, step):
            yield f"step {step} for {record}"
    rows = log.evals.select("value", "name", "step", "after").rows()
    placed = {value: where for value, *where in rows}
    for evaluation in meant.evaluations:
        name, step, after = placed.get(evaluation.value, [None] * 3)
        if name not in ("val_loss", "test_loss"):
            yield f"{name} for {evaluation}"
        elif evaluation.above not in (None, step, after):
            yield f"at step {step}, after {after}: {evaluation}"
    known = {evaluation.value for evaluation in meant.evaluations}
    for name, value in log.evals.filter(name="val_loss").select("name", "value").rows():
        if value not in known:
            yield f"{name} {value} too many"


def is_said(log: Log) -> bool:
    return bool(log.doubts or log.rejects or unread_doubts.not_read(log))


@pytest.mark.parametrize("group", range(GROUPS))
def test_composed_log_is_read_as_meant_or_doubtful(group: int, read: Read) -> None:
    for seed in range(group * SEEDS, (group + 1) * SEEDS):
        meant = composed(seed)
        log = read(meant.text)
        wrong = [*faults(log, meant)]
        assert not wrong or is_said(log), f"seed {seed}: {wrong[:3]}"
