"""Records taken column by column are those taken line by line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputel.analysis.logs.columnwise import Columnwise
from gputel.analysis.logs.hits import Aside, HitRun

LOGS = {
    "rising": "".join(f"iter {i}: loss {9 - i}.5, time 10.00ms, mfu 20.00%\n" for i in range(40)),
    "restart": "".join(f"iter {i % 15}: loss {9 - i}.5, time 10.00ms, mfu 20.00%\n" for i in range(40)),
    "copies": "".join(f"iter {i // 2}: loss {9 - i}.5, time 10.00ms, mfu 20.00%\n" for i in range(40)),
    "evaluations": "".join(
        f"iter {i}: loss {9 - i}.5, time 10.00ms, mfu 20.00%\n"
        + f"step {i}: train loss {i}.25, val loss {i}.5\n" * (i % 5 == 0)
        for i in range(40)
    ),
    "evaluations without a step": "".join(
        f"step {i:5d} | loss: {9 - i}.500000 | lr 6.0000e-04 | norm: 0.5 | dt: 400.00ms | tok/sec: 1280000.00\n"
        + f"validation loss: {i}.2500\n" * (i % 12 == 5)
        + f"HellaSwag accuracy: {i}/100=0.2500\n" * (i % 12 == 5)
        for i in range(40)
    ),
    "ranks": "".join(
        f"[rank{i % 2}]: iter {i // 2}: loss {9 - i}.5, time 10.00ms, mfu 20.00%\n" for i in range(40)
    ),
    "stepless": "".join(f"{{'loss': {9 - i}.5, 'learning_rate': 1e-05, 'epoch': {i}.25}}\n" for i in range(40)),
    "two lines": "".join(f"step {i}: loss {9 - i}.5\n  lr 3.0e-04 grad {i}.125\n" for i in range(40)),
    "two lines, restart": "".join(
        f"step {i % 15}: loss {9 - i}.5\n  lr 3.0e-04 grad {i}.125\n" for i in range(40)
    ),
    "two lines, one of which is missing or copied": "".join(
        f"step {i}: loss {9 - i}.5\n" * (i != 7) + f"  lr 3.0e-04 grad {i}.125\n" * (1 + (i == 20) - (i == 30))
        for i in range(40)
    ),
    "two lines and evaluations": "".join(
        f"step {i}: loss {9 - i}.5\n  lr 3.0e-04 grad {i}.125\n" + f"val loss: {i}.25\n" * (i % 10 == 8)
        for i in range(40)
    ),
    "two lines with times": "".join(
        f"2026-03-01 10:00:{i:02d} step {i}: loss {9 - i}.5\n2026-03-01 10:00:{i:02d} lr 3.0e-04 grad {i}.125\n"
        for i in range(40)
    ),
    "two lines of ranks": "".join(
        f"[rank{i % 2}]: step {i // 2}: loss {9 - i}.5\n[rank{i % 2}]: lr 3.0e-04 grad {i}.125\n" for i in range(40)
    ),
    "too large": "".join(f"iter {i * 10**18}: loss {9 - i}.5, time 10.00ms, mfu 20.00%\n" for i in range(12)),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_columns_at_once_give_the_rows_of_one_line_after_the_other(
    name: str, read: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = read(LOGS[name])
    monkeypatch.setattr(Columnwise, "take", lambda *_: False)
    by_line = read(LOGS[name])
    for frame in ("records", "evals", "partials"):
        left, right = getattr(at_once, frame), getattr(by_line, frame)
        assert left.equals(right.select(left.columns), null_equal=True), frame
    assert at_once.records.height >= 12


@pytest.mark.parametrize(
    ("name", "most"), [("rising", 38), ("evaluations without a step", 32), ("two lines", 38)]
)
def test_columns_at_once_take_most_of_a_log_that_only_rises(
    name: str, most: int, read: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    take = Columnwise.take

    def counted(self: Columnwise, run: HitRun, asides: list[Aside]) -> bool:
        done = take(self, run, asides)
        taken.append(done * (run.end - run.first))
        return done

    monkeypatch.setattr(Columnwise, "take", counted)
    read(LOGS[name])
    assert sum(taken) == most
