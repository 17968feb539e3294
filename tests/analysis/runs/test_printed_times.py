"""Which printed step times hold more than a step, in logs that print every tenth step."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from gputel.analysis.logs.log import Log
from gputel.analysis.runs.printed_times import contains_others, seconds_by_dt, usual_dt

Read = Callable[[str], Log]


def log_text(evaluated: range, held_ms: float, stamp: Callable[[int], str] = lambda _: "") -> str:
    """Records of steps 0 to 100 whose steps take 200 ms; those behind an evaluation print `held_ms` more."""
    lines = []
    for step in range(0, 101, 10):
        more = held_ms if step in evaluated else 0
        lines += [f"{stamp(step)}validation loss: 2.5"] * (step in evaluated)
        lines.append(f"{stamp(step)}step {step} | loss: 2.{step} | dt: {200 + more:.2f}ms")
    return "\n".join(lines) + "\n"


def test_records_without_a_pause_tell_a_step_where_most_have_one(read: Read) -> None:
    log = read(log_text(range(10, 91, 10), 3000))
    assert usual_dt(log.records, log).to_list() == [200.0] * 11
    assert contains_others(log.records, log).to_list() == [False, *[True] * 9, False]
    seconds = seconds_by_dt(log.records, log, pl.Series([1, *[10] * 10]))
    assert seconds is not None
    assert seconds.to_list() == pytest.approx([0.2, *[5.0] * 9, 2.0])


def test_nothing_tells_a_step_where_every_record_has_a_pause(read: Read) -> None:
    log = read(log_text(range(10, 101, 10), 3000))
    assert usual_dt(log.records, log).null_count() == 11
    assert seconds_by_dt(log.records, log, pl.Series([1, *[10] * 10])) is None
    assert contains_others(log.records, log).sum() == 10


def test_printed_times_without_the_pause_are_those_of_steps(read: Read) -> None:
    log = read(log_text(range(10, 91, 10), 0))
    assert not contains_others(log.records, log).any()


@pytest.mark.parametrize(("held_ms", "held"), [(0, 0), (3000, 10)])
def test_timestamps_tell_whether_printed_times_hold_the_pause(read: Read, held_ms: float, held: int) -> None:
    def stamp(step: int) -> str:
        return f"2026-03-01 10:00:{step // 2:02d}.000 "  # 5 s for 10 steps and a pause

    def slow(step: int) -> str:
        return f"2026-03-01 10:{step // 10:02d}:00.000 "

    log = read(log_text(range(10, 101, 10), held_ms, stamp if held else slow))
    assert contains_others(log.records, log).sum() == held


def test_pauses_behind_every_second_record_do_not_hide_in_the_scatter_of_the_steps(read: Read) -> None:
    """A save of half a step every 10 steps, and an evaluation of ten steps every 20."""
    lines: list[str] = []
    for place in range(40):
        step, dt_ms = 5 * place, 1200 + 60 * (place % 3 - 1)
        if place and place % 4 == 0:
            lines, dt_ms = [*lines, f"step {step}: train loss 3.0, val loss 3.1"], dt_ms + 12_000
        if place and place % 2 == 0:
            lines, dt_ms = [*lines, "saving checkpoint to out"], dt_ms + 600
        lines.append(f"iter {step}: loss 3.0000, time {dt_ms:.2f}ms, mfu 41.00%")
    log = read("\n".join(lines) + "\n")
    assert contains_others(log.records, log).to_list() == [place and place % 2 == 0 for place in range(40)]
    assert usual_dt(log.records, log).to_list() == pytest.approx([1200] * 40, abs=30)


def every_step(
    held_ms: float, saved_ms: float = 0, first_ms: float = 400, *, stamped: bool = False, save: int = 99
) -> str:
    """30 steps of 400 ms, an evaluation of 3 s before each but the first, and a save of 2 s before some.

    `held_ms` and `saved_ms` of them are in the printed times.
    """
    now_ms, lines = 0.0, []
    for step in range(30):
        saves = step % save == save - 1
        if step:
            now_ms += 3000
            lines.append((now_ms, f"validation loss: 2.{step}"))
        if saves:
            now_ms += 2000
            lines.append((now_ms, f"saved checkpoint to out/step_{step}.pt"))
        now_ms += 400
        dt_ms = (400 + held_ms + saved_ms * saves if step else first_ms) + step % 3
        lines.append((now_ms, f"step {step} | loss: 2.{step} | dt: {dt_ms:.2f}ms"))
    stamps = [f"2026-03-01 10:{int(at) // 60_000:02d}:{at / 1000 % 60:06.3f} " * stamped for at, _ in lines]
    return "".join(f"{stamp}{line}\n" for stamp, (_, line) in zip(stamps, lines, strict=True))


@pytest.mark.parametrize("first_ms", [400, 9000])
def test_nothing_tells_a_step_where_every_step_printed_comes_behind_an_evaluation(
    read: Read, first_ms: float
) -> None:
    """The first may have been compiled, however short it is."""
    log = read(every_step(3000, first_ms=first_ms))
    assert usual_dt(log.records, log).null_count() == 30
    assert contains_others(log.records, log).sum() == 29
    seconds = seconds_by_dt(log.records, log, pl.Series([1] * 30))
    assert seconds is not None, "all of it is printed, whatever it is"
    assert seconds.sum() == pytest.approx(29 * 3.4 + first_ms / 1000, abs=0.1)


def test_first_step_tells_that_those_behind_evaluations_leave_them_out(read: Read) -> None:
    log = read(every_step(0))
    assert not contains_others(log.records, log).any()
    assert usual_dt(log.records, log).median() == pytest.approx(401, abs=1)


@pytest.mark.parametrize(("held_ms", "held"), [(0, 0), (3000, 29)])
@pytest.mark.parametrize("saved_ms", [0, 2000])
def test_timestamps_tell_whether_every_printed_step_holds_its_evaluation(
    read: Read, held_ms: float, held: int, saved_ms: float
) -> None:
    """A save that the printed times leave out does not make room for the evaluations that they hold."""
    log = read(every_step(held_ms, saved_ms, first_ms=9000, stamped=True, save=5))
    marked = contains_others(log.records, log)
    assert marked.sum() == (held or 6 * bool(saved_ms))
