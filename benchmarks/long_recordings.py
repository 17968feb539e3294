"""Recordings of many hours in minutes: ten minutes are simulated with the clock given, then laid end to end.

Every copy is a compacted part with its own stamps and a counter of energy that goes on, as a recorder would have
left it; a log of steps with its stamps lies beside it, and one tick of one GPU has a peak that no mean may lose.
"""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from gputel.telemetry import run_folder
from gputel.telemetry.clock import SECOND, Stamp
from gputel.telemetry.process import output_index
from gputel.telemetry.sampling import plan as planning
from gputel.telemetry.simulated import open_machine
from gputel.telemetry.store import journal, parquet, parts, ticks
from gputel.telemetry.store.journal import Writer
from gputel.telemetry.store.part_writer import PartWriter
from gputel.telemetry.store.seconds import one_second_rows
from gputel.telemetry.store.tiers import Tier

START_NS = 10**18  # of the wall clock
PART = 600 * SECOND
HZ = 100
PEAK_W = 915.0
LIMITS = {"limits": {"power_w": 700}, "memory_total_mib": 81_559}
EVAL_EVERY, EVAL_S, SAVE_EVERY, SAVE_S = 250, 20.0, 1000, 15.0


class GivenClock:
    now = 0

    def stamp(self) -> Stamp:
        return Stamp(self.now + START_NS, self.now, self.now)

    def monotonic(self) -> int:
        return self.now

    def sleep_until(self, monotonic: int) -> None:
        self.now = max(self.now, monotonic)


def make(folder: Path, machine: str, hours: float, steps: int | None = None) -> Path:
    """A run folder; `steps` None leaves out the log."""
    rounds = math.ceil(hours * 6)
    gpus = open_machine(machine, GivenClock()).gpus
    facts = {
        "run": folder.name,
        "argv": ["python", "train.py"],
        "simulated": machine,
        "gpus": [{"gpu": gpu.index, "name": gpu.name, "uuid": gpu.uuid, **LIMITS} for gpu in gpus],
        "started": _moment(0),
        "ended": _moment(rounds * PART),
        "exit_code": 0,
        "sampling": {"hz": HZ, "statistics": None},
    }
    segment = run_folder.create(folder, facts)
    with tempfile.TemporaryDirectory() as short:
        tables = _ten_minutes(Path(short), machine)
    for number in range(rounds):
        shifted = [
            (tier, _shifted(frame, tier, number, peak=number == rounds // 2)) for tier, frame in tables
        ]
        for tier, frame in shifted:
            name = parts.compacted_name(tier.name, number + 1, number + 1)
            parquet.write_ticks(frame, tier, segment.gpu / name)
        name = parts.compacted_name(parts.SECONDS, number + 1, number + 1)
        parquet.write_seconds(one_second_rows(shifted), segment.gpu / name)
    parquet.compact(segment.gpu, everything=True)
    if steps:
        _log(segment, steps, rounds * 600.0)
    return folder


def _moment(ns: int) -> dict[str, int]:
    return {"wall_ns": START_NS + ns, "monotonic_ns": ns, "boot_ns": ns}


def _ten_minutes(folder: Path, machine: str) -> list[tuple[Tier, pl.DataFrame]]:
    clock = GivenClock()
    simulated = open_machine(machine, clock)
    plan = planning.make(simulated, simulated.gpus, float(HZ), clock)
    readers = [[simulated.reader(gpu, wanted) for gpu, wanted in planned.parts] for planned in plan.tiers]
    writer = Writer(
        PartWriter(folder, [planned.tier for planned in plan.tiers], clock, on_trouble=print, compactor=None)
    )
    chance = random.Random(7)
    for n in range(600 * HZ):
        at, late = n * SECOND // HZ, int(chance.lognormvariate(11, 0.4))
        clock.now = at + late
        for tier, planned in enumerate(plan.tiers):
            if n % round(HZ / planned.tier.hz) == 0:
                answers = [reader.answer(clock.now) for reader in readers[tier]]
                writer.append(tier, at, clock.now, [value for answer in answers for value in answer])
        while writer.pending_bytes > 8_000_000:
            pass
    writer.close()
    tables: dict[Tier, list[pl.DataFrame]] = {}
    for part in parts.current(folder):  # a tier may have begun another part
        content = journal.read(part.path)
        assert content
        tables.setdefault(content.tier, []).append(ticks.from_journal(content))
    return [(tier, _gpu_by_gpu(tier, frames)) for tier, frames in tables.items()]


def _gpu_by_gpu(tier: Tier, frames: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat([frame.filter(gpu=gpu) for gpu in tier.subjects for frame in frames])


def _shifted(frame: pl.DataFrame, tier: Tier, number: int, *, peak: bool) -> pl.DataFrame:
    whole = frame.with_columns(pl.col("second").dt.offset_by(f"{number * PART // SECOND}s"))
    if "energy_j" in frame.columns:
        joules = pl.col("energy_j")
        whole = whole.with_columns(joules + number * (joules.last() - joules.first()).over("gpu"))
    if not (peak and "power_w" in frame.columns):
        return whole
    # of the last GPU
    place = pl.int_range(pl.len()) == len(frame) - 2 * len(frame) // (3 * len(tier.subjects))
    return whole.with_columns(pl.when(place).then(PEAK_W).otherwise("power_w").alias("power_w"))


def _log(segment: run_folder.Segment, steps: int, seconds_long: float) -> None:
    """As nanochat prints it: steps, evaluations and checkpoints, each line with its stamp."""
    with segment.output.open("wb") as output, segment.index.open("wb") as index:
        for at, line in _lines(steps, seconds_long - 20.0):
            output.write(line.encode())
            index.write(output_index.pack(START_NS + int((at + 5.0) * SECOND), output.tell()))


def _lines(steps: int, length: float) -> Iterator[tuple[float, str]]:
    chance = random.Random(24)
    others = steps // EVAL_EVERY * EVAL_S + steps // SAVE_EVERY * SAVE_S
    each, at = (length - others) / steps, 0.0
    for step in range(steps):
        if step and step % EVAL_EVERY == 0:
            at += EVAL_S
            yield at, f"Step {step:05d} | Validation bpb: {0.8 + 2.4 / (1 + step / 200):.4f}\n"
        if step and step % SAVE_EVERY == 0:
            at += SAVE_S
            yield at, f"Saved model parameters to: checkpoints/model_{step:06d}.pt\n"
        took = each * chance.gauss(1, 0.01)
        at += took
        loss = 2.7 + 8.3 * math.exp(-step / 700) + chance.gauss(0, 0.03)
        yield (
            at,
            f"step {step:05d}/{steps:05d} ({100 * step / steps:.2f}%) | loss: {loss:.6f} | grad norm: "
            f"{abs(chance.gauss(0.4, 0.05)):.4f} | lrm: 1.00 | dt: {1000 * took:.2f}ms | tok/sec: "
            f"{524288 / took:,.0f} | mfu: {abs(chance.gauss(43.9, 0.5)):.2f} | total time: {at / 60:.2f}m\n",
        )
