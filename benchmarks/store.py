"""What the store costs: bytes a value in journals and compacted; hours of eight GPUs through writer and compaction.

The first part replays a real log (an A100 polled every 13 ms) with its own stamps, and writes the same table of
scaled integers by polars' defaults beside it. The second runs a recording of hours with the clock given: ten
minutes of 8xH100 are simulated, then appended again and again. `python benchmarks/store.py --help`
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import polars as pl

from gputel.telemetry.clock import SECOND, Stamp
from gputel.telemetry.store import compact, frames, parquet, parts
from gputel.telemetry.store.journal import Writer
from gputel.telemetry.store.part_writer import PartWriter
from gputel.telemetry.store.tiers import Tier, TierColumn

STEP = SECOND // 100
Row = tuple[int, Sequence[int | None]]
Tick = tuple[int, int, int, Sequence[int | None]]
"""Tier, lateness, deadline, values."""


class GivenClock:
    """Monotonic time is what it was last set to; the wall is 10^18 ns ahead."""

    now = 0

    def stamp(self) -> Stamp:
        return Stamp(self.now + 10**18, self.now, self.now)

    def monotonic(self) -> int:
        return self.now

    def sleep_until(self, monotonic: int) -> None:
        self.now = max(self.now, monotonic)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=Path, help="nvidia-smi-query-a100-13ms.csv")
    parser.add_argument(
        "--hours", type=float, default=24.0, help="of the simulated recording; 0 leaves it out"
    )
    parser.add_argument(
        "--out", type=Path, help="where to write the results as Markdown, else standard output"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gputel-store-") as folder:
        lines = list(head())
        if options.log:
            lines += real(options.log, Path(folder) / "real")
        if options.hours:
            tiers, minutes = ten_minutes()
            lines += recording(options.hours, Path(folder) / "recording", tiers, minutes)
            lines += day_of_seconds(Path(folder) / "seconds", tiers, minutes)
    text = "\n".join(lines) + "\n"
    if options.out:
        options.out.write_text(text)
    else:
        print(text)


def head() -> Iterator[str]:
    yield "# The store"
    yield ""
    machine = f"{os.cpu_count()} cores ({platform.machine()})"
    yield f"{date.today()}, {machine}, Python {platform.python_version()}, polars {pl.__version__}."
    yield "Another run of `benchmarks/store.py` gives the same bytes; times depend on what else the machine does."


def real(log: Path, folder: Path) -> Iterator[str]:
    tier, table = write_real(log, folder)
    values = table.height * len(tier.columns)
    journals = size(folder, ".gtb")
    parquet.compact(folder, everything=True)
    fast = size(folder, ".parquet") - seconds_size(folder)
    plain = folder / "plain"
    table.write_parquet(plain)
    assert integers(folder, tier).equals(table.drop("time_ns"))
    yield from ("", "## A real A100, polled every 13 ms, with its ms stamps", "")
    yield f"{table.height:,} ticks of {len(tier.columns)} readings; bytes a reading, with the times in every file:"
    yield from ("", "| | bytes | a value | to reach |", "|---|---|---|---|")
    yield f"| journal | {journals:,} | {journals / values:.3f} | 0.55 |"
    yield f"| compacted | {fast:,} | {fast / values:.3f} | 0.46 |"
    seconds = seconds_size(folder)
    yield f"| compacted, with the tier of whole seconds | {fast + seconds:,} | {(fast + seconds) / values:.3f} | |"
    for what, file in (("the same table by polars' defaults (zstd-3)", plain), ("the log itself", log)):
        yield f"| {what} | {file.stat().st_size:,} | {file.stat().st_size / values:.3f} | |"


def write_real(log: Path, folder: Path) -> tuple[Tier, pl.DataFrame]:
    """Journals of the log, and the integers that are in them."""
    table = scaled_integers(log)
    units = {"power_w": 1000, "power_avg_w": 1000}
    columns = tuple(TierColumn(name, None, units.get(name, 1), "0") for name in table.columns[1:])
    tier = Tier("fast", 1000 / 13, columns)
    start = table["time_ns"][0]
    write(folder, tier, ((row[0] - start, row[1:]) for row in table.iter_rows()))
    return tier, table


def integers(folder: Path, tier: Tier) -> pl.DataFrame:
    """The driver's integers again, from units."""
    counts = [(pl.col(c.name) * c.per_unit).round().cast(pl.Int64) for c in tier.readings.values()]
    return frames.ticks(folder).select(counts)


def scaled_integers(log: Path) -> pl.DataFrame:
    """Watts in thousandths, the pstate without its P, the rest as it is."""
    text = pl.read_csv(log, infer_schema=False)
    text.columns = [name.strip() for name in text.columns]
    cells = {name: pl.col(name).str.strip_chars() for name in text.columns}
    stamp = cells["timestamp"].str.to_datetime("%Y/%m/%d %H:%M:%S%.f", time_unit="ns")
    watts = {"power_avg_w": "power.draw [W]", "power_w": "power.draw.instant [W]"}
    whole = {"util": "utilization.gpu [%]", "temp_c": "temperature.gpu", "sm_mhz": "clocks.current.sm [MHz]"}
    return text.select(
        stamp.dt.epoch("ns").alias("time_ns"),
        *(cells[cell].cast(pl.Int64).alias(name) for name, cell in whole.items()),
        cells["pstate"].str.slice(1).cast(pl.Int64).alias("pstate"),
        *((cells[cell].cast(pl.Float64) * 1000).round().cast(pl.Int64).alias(n) for n, cell in watts.items()),
    )


def write(folder: Path, tier: Tier, rows: Iterator[Row]) -> None:
    clock = GivenClock()
    writer = Writer(PartWriter(folder, [tier], clock, on_trouble=failed, compactor=None))
    for at, values in rows:
        clock.now = at
        writer.append(0, at, at, values)
    writer.close()


def failed(kind: str, text: str) -> None:
    """Called in a thread of the writer's: figures of a recording with gaps would be none."""
    print(f"{kind}: {text}", file=sys.stderr)
    os._exit(1)


def recording(hours: float, folder: Path, tiers: list[Tier], minutes: list[Tick]) -> Iterator[str]:
    """Time runs some hundred times faster than it would, so the writer waits for each compaction."""
    clock = GivenClock()
    children: list[float] = []

    def compactor(part_of: Path) -> None:
        start = time.perf_counter()
        subprocess.run(compact.command([part_of]), env=compact.environment(), check=True)
        children.append(time.perf_counter() - start)

    writer = Writer(PartWriter(folder, tiers, clock, on_trouble=failed, compactor=compactor))
    rounds = round(hours * 6)
    start = time.perf_counter()
    worst = 0
    for number in range(rounds):
        for tier, late, at, row in minutes:
            clock.now = number * 600 * SECOND + at + late
            writer.append(tier, clock.now - late, clock.now, row)
            while writer.pending_bytes > 8_000_000:
                time.sleep(0.001)
        while writer.pending_bytes > 1_000_000 or len(children) < number:
            time.sleep(0.01)
        worst = max(worst, size(folder, ".gtb"))
    writer.close()
    took = time.perf_counter() - start
    parquet.compact(folder, everything=True)
    values = rounds * sum(len(row) for _, _, _, row in minutes)
    yield from ("", f"## {hours:g} hours of 8xH100, simulated, 100 Hz", "")
    yield f"{values:,} values in {len(tiers)} tiers, {rounds} parts; appended and compacted in {took:.0f} s."
    yield from ("", "| | |", "|---|---|")
    yield f"| journal, bytes a value | {writer.bytes_written / values:.3f} |"
    compacted = size(folder, ".parquet")
    yield f"| compacted, bytes a value | {compacted / values:.3f} ({compacted / 1e6:,.0f} MB) |"
    yield f"| of it the tier of whole seconds | {seconds_size(folder) / 1e6:,.0f} MB |"
    yield f"| most in journals at once | {worst / 1e6:.1f} MB |"
    yield f"| files at the end | {len(list(folder.glob('*.parquet')))} |"
    median = sorted(children)[len(children) // 2]
    yield f"| a compaction of ten minutes | {median:.1f} s (median), {max(children):.1f} s at most |"
    yield f"| its memory, at most | {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MB |"
    start = time.perf_counter()
    mean = frames.scan(folder).select(pl.col("power_w").mean()).collect(engine="streaming").item()
    yield f"| mean power of all ticks by `.scan()` ({mean:.1f} W) | {time.perf_counter() - start:.1f} s |"


def day_of_seconds(folder: Path, tiers: list[Tier], minutes: list[Tick]) -> Iterator[str]:
    """The same readings at 1 Hz: their tables of seconds are as long and as wide as those of any rate."""
    clock = GivenClock()
    slow = [replace(tier, hz=1.0) for tier in tiers]
    writer = Writer(PartWriter(folder, slow, clock, on_trouble=failed, compactor=None))
    for number in range(144):
        for tier, late, at, row in minutes:
            if at % SECOND == 0:
                clock.now = number * 600 * SECOND + at + late
                writer.append(tier, clock.now - late, clock.now, row)
        while writer.pending_bytes > 8_000_000:
            time.sleep(0.001)
    writer.close()
    parquet.compact(folder, everything=True)
    yield from ("", "## A day of whole seconds, 8xH100", "", "| | |", "|---|---|")
    yield f"| tables of seconds | {len(list(folder.glob('seconds-*')))}, {seconds_size(folder) / 1e6:,.0f} MB |"
    yield from opened(folder)


def ten_minutes() -> tuple[list[Tier], list[Tick]]:
    return simulated("8xH100", 600)


def simulated(gpus: str, seconds: int) -> tuple[list[Tier], list[Tick]]:
    """Ticks of a simulated machine at 100 Hz; lateness like that of a real loop."""
    from gputel.telemetry.sampling import plan as planning
    from gputel.telemetry.simulated import open_machine

    clock = GivenClock()
    machine = open_machine(gpus, clock)
    plan = planning.make(machine, machine.gpus, 100.0, clock)
    chance = random.Random(7)
    rows: list[Tick] = []
    readers = [[machine.reader(gpu, wanted) for gpu, wanted in planned.parts] for planned in plan.tiers]
    for n in range(100 * seconds):
        late = int(chance.lognormvariate(11, 0.4))
        clock.now = n * STEP + late
        for tier, planned in enumerate(plan.tiers):
            if n % round(100 / planned.tier.hz) == 0:
                answers = [reader.answer(clock.now) for reader in readers[tier]]
                rows.append((tier, late, n * STEP, [value for answer in answers for value in answer]))
    return [planned.tier for planned in plan.tiers], rows


def opened(folder: Path) -> Iterator[str]:
    """In a process of its own, as `gputel` would: with and without the start of Python and polars."""
    code = (
        "import sys, time; from pathlib import Path; import polars; from gputel.telemetry.store import frames\n"
        "start = time.perf_counter(); table = frames.seconds(Path(sys.argv[1]))\n"
        "print(time.perf_counter() - start, table.height, table.width)"
    )
    taken = []
    for _ in range(5):
        said = subprocess.run(
            [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
        )
        seconds, height, width = said.stdout.split()
        taken.append(float(seconds))
    yield f"| `.gpu_1s` of it: {int(height):,} rows, {width} columns | {sorted(taken)[2]:.2f} s (median of 5) |"


def size(folder: Path, ending: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(f"*{ending}") if path.exists())


def seconds_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob(f"{parts.SECONDS}-*"))


if __name__ == "__main__":
    main()
