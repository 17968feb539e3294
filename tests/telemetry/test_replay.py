"""A recording is a machine like any other: what was recorded comes out again, at the rate that is asked for."""

from datetime import datetime, timedelta, timezone
from pathlib import Path

import polars as pl
import pytest

from gputel.telemetry import replay, run_folder
from gputel.telemetry.errors import GputelError
from gputel.telemetry.identity import facts
from gputel.telemetry.readings import BY_NAME
from gputel.telemetry.sampling import plan
from gputel.telemetry.sampling.budget import Budget
from gputel.telemetry.sampling.cost import SamplingCost
from gputel.telemetry.sampling.loop import Loop
from gputel.telemetry.sampling.watchdog import Turn
from gputel.telemetry.simulated import open_machine
from gputel.telemetry.store.journal import Writer
from gputel.telemetry.store.part_writer import PartWriter
from tests.telemetry.conftest import Rows, Spending, SteppedClock

SECOND = 1_000_000_000
START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def frame(**columns: list[float | None]) -> pl.DataFrame:
    rows = len(next(iter(columns.values())))
    times = [START + timedelta(milliseconds=100 * i) for i in range(rows)]
    return pl.DataFrame({"time": times, "gpu": ["0"] * rows, **columns})


def test_moment_has_the_last_value_recorded_before_it() -> None:
    clock = SteppedClock()
    machine = replay.from_frame("a run", frame(power_w=[300.5, 301.25, None, 302.0]), clock)
    reader = machine.reader(machine.gpus[0], [BY_NAME["power_w"], BY_NAME["util"]])
    seen = []
    for _ in range(5):
        seen.append(list(reader.answer(clock.monotonic())))
        clock.advance(100_000_000)
    assert [power for power, _ in seen] == [300_500, 301_250, None, 302_000, None]
    assert {util for _, util in seen} == {None}


def test_replay_is_null_before_and_after_the_recording() -> None:
    track = replay.Track([0, 10, 20], {"power_w": [1, 2, 3]})
    assert [track.at(moment) for moment in (-1, 0, 9, 10, 20, 21)] == [None, 0, 0, 1, 2, None]


def test_reading_that_was_not_recorded_is_in_no_tier() -> None:
    clock = SteppedClock()
    machine = replay.from_frame("a run", frame(power_w=[1.0, 2.0], temp_c=[None, None]), clock)
    made = plan.make(machine, machine.gpus, 100, clock)
    assert [column.name for planned in made.tiers for column in planned.tier.columns] == ["power_w"]


def test_frame_without_a_sample_is_refused() -> None:
    with pytest.raises(GputelError, match="a run: has no GPU samples"):
        replay.from_frame("a run", frame(power_w=[1.0]).clear(), SteppedClock())


def test_run_folder_replayed_gives_what_it_holds(tmp_path: Path) -> None:
    """Recorded from a simulation, then replayed: the same readings, and it says that it is a replay."""
    folder, clock = tmp_path / "run", SteppedClock()
    simulated = open_machine("2xH100", clock)
    segment = run_folder.create(folder, facts([], env={}, cwd=tmp_path, name="test", tags={}))
    run_folder.update(folder, gpus=[gpu.as_json() for gpu in simulated.gpus])
    clock.advance(10 * SECOND)
    made = plan.make(simulated, simulated.gpus, 100, clock)
    store = Writer(
        PartWriter(
            segment.gpu, [planned.tier for planned in made.tiers], clock, on_trouble=print, compactor=None
        )
    )
    kept = Rows()
    for destination in (store, kept):
        loop = Loop(
            simulated,
            made,
            destination,
            clock,
            cost=SamplingCost(10_000_000),
            budget=Budget(made, print, Spending()),
            turn=Turn(),
            report=lambda *_, **__: None,
        )
        loop.run(clock.now + 3 * SECOND)
        clock.advance(-3 * SECOND)
    store.close()
    machine = replay.open_machine(folder, clock)
    assert machine.simulated == f"replay of {folder}"
    assert machine.gpus == simulated.gpus
    reader = machine.reader(machine.gpus[1], [BY_NAME["power_w"], BY_NAME["energy_j"]])
    at = [
        next(i for i, c in enumerate(made.tiers[0].tier.columns) if (c.name, c.subject) == (name, "1"))
        for name in ("power_w", "energy_j")
    ]
    _, _, first, _ = kept.rows[0]
    start = clock.monotonic()
    for _, _, stamp, values in [row for row in kept.rows if row[0] == 0][::37]:
        assert list(reader.answer(start + stamp - first)) == [values[place] for place in at]
