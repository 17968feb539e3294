"""Lines become marks: which records, evaluations and checkpoints count, and what a record stands for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from gputel.analysis.align.join import measured
from gputel.analysis.align.per_step import totals
from gputel.analysis.align.spans import cut_spans
from gputel.analysis.runs import RunData, read_run
from tests.analysis.align.conftest import evaluated_every_20
from tests.recordings.printed import kinds_and_seconds, saved, step, validation

Recorded = Callable[..., RunData]


def test_irregular_records_stand_for_as_many_steps_as_lie_between_them(recorded: Recorded) -> None:
    lines = [(10.0 + n, step(n)) for n in (0, 1, 2, 7, 8, 20)]
    assert cut_spans(recorded([(0, 40, lines)])).filter(kind="train")["steps"].to_list() == [
        1,
        1,
        1,
        5,
        1,
        12,
    ]


def test_copies_of_ranks_are_one_record(recorded: Recorded) -> None:
    lines = [
        (10 + n + rank / 100, step(n, dt_ms=1000, head=f"[rank{rank}]: "))
        for n in range(4)
        for rank in range(4)
    ]
    cut = cut_spans(recorded([(9, 13, lines)])).filter(kind="train")
    assert kinds_and_seconds(cut)[1:] == [("train", 10, 11), ("train", 11, 12), ("train", 12, 13)]


def test_evaluation_that_no_step_time_contains_has_no_time_of_its_own(tmp_path: Path) -> None:
    lines = [step(n, dt_ms=1000.0) for n in range(100)]
    (tmp_path / "a.log").write_text("\n".join([*lines[:50], validation(50), *lines[50:]]) + "\n")
    assert set(cut_spans(read_run(tmp_path / "a.log"))["kind"]) == {"train"}


def test_long_first_step_after_an_evaluation_is_compilation(tmp_path: Path) -> None:
    lines = [validation(0), *(step(n, dt_ms=20_000.0 if n == 0 else 1000.0) for n in range(60))]
    (tmp_path / "a.log").write_text("\n".join(lines) + "\n")
    spans = cut_spans(read_run(tmp_path / "a.log"))
    seconds = spans.select(pl.col("end").max() - pl.col("start").min()).item().total_seconds()
    assert (set(spans["kind"]), seconds) == ({"start", "train"}, pytest.approx(79))
    assert spans.filter(kind="start").select((pl.col("end") - pl.col("start")).sum()).item() == timedelta(
        seconds=19
    )


def test_checkpoints_that_no_step_time_contains_are_absent_beside_evaluations_that_one_does(
    tmp_path: Path,
) -> None:
    """Every second checkpoint is printed with an evaluation, whose time is in the step behind both."""
    path = tmp_path / "run.log"
    path.write_text(evaluated_every_20(80, lambda step: step % 10 == 0))
    assert cut_spans(read_run(path))["kind"].unique().sort().to_list() == ["eval", "train"]


def divided(tmp_path: Path, eval_every: int, save_every: int) -> pl.DataFrame:
    """Returns sums of steps of 1 s, whose times hold the evaluation of 10 s and the save of 4 s before them."""
    lines = []
    for number in range(201):
        pauses = [
            (number % eval_every == 0, 10.0, validation(number)),
            (number % save_every == 0, 4.0, saved(number)),
        ]
        within = [(seconds, line) for due, seconds, line in pauses if due and number]
        lines += [line for _, line in within]
        lines.append(step(number, dt_ms=1000 * (1 + sum(seconds for seconds, _ in within))))
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    return totals(measured(cut_spans(read_run(path)), None))


@pytest.mark.parametrize(("eval_every", "save_every"), [(20, 40), (40, 20), (20, 50)])
def test_step_time_that_contains_both_is_divided_by_where_one_stands_alone(
    eval_every: int, save_every: int, tmp_path: Path
) -> None:
    seconds = dict(divided(tmp_path, eval_every, save_every).select("kind", "duration_s").iter_rows())
    assert seconds["eval"] == pytest.approx(200 // eval_every * 10)
    assert seconds["checkpoint"] == pytest.approx(200 // save_every * 4)


def test_evaluation_with_a_save_behind_each_names_both(tmp_path: Path) -> None:
    rows = (
        divided(tmp_path, 20, 20).filter(pl.col("kind") != "train").select("kind", "contains", "duration_s")
    )
    assert rows.rows() == [("eval", "checkpoint", pytest.approx(140))]


@pytest.mark.parametrize(
    ("says", "first"),
    [
        ("Resuming from checkpoint out/step_000030.pt", 1),
        ("Resuming from checkpoint out/step_000027.pt", 4),
        ("Resuming from checkpoint out/step_000003.pt", 10),
        ("", 10),
    ],
)
def test_first_record_of_a_run_that_goes_on_covers_the_steps_since_then(
    recorded: Recorded, says: str, first: int
) -> None:
    """Step 30 of every tenth is ten steps, but for a run that begins there or a few steps before."""
    lines = [(10.0 + n, step(n)) for n in range(30, 70, 10)]
    steps = cut_spans(recorded([(0, 90, [(5.0, says), *lines])])).filter(kind="train")["steps"]
    assert steps.filter(steps > 0).to_list() == [first, 10, 10, 10]
