"""The store's layout against that of another checkout: bytes a value, and CPU to read, as ratios of one run.

Both compact the same journals: a real log (an A100 polled every 13 ms), and simulated H100s. Then processes of each
read their files in turn. `python benchmarks/store_layout.py --old CHECKOUT --log LOG`
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from statistics import median

import polars as pl
import store

from gputel.telemetry.store import journal, parts, ticks
from gputel.telemetry.store.journal import Writer
from gputel.telemetry.store.part_writer import PartWriter
from gputel.telemetry.store.tiers import Tier

HERE = Path(__file__).resolve().parents[1]
PAIRS = 7
COMPACT = """
import time
start = time.process_time()
parquet.compact(folder, everything=True)
print(json.dumps({"cpu": time.process_time() - start}))
"""
READ = """
import time
three, ten = ("power_w", "temp_c", "energy_j"), (
    "power_w", "energy_j", "temp_c", "mem_used_mib", "throttle", "util", "sm_mhz", "sm_active", "tensor_active",
    "dram_active")
gpus = sorted({gpu for gpu, _ in frames.columns(folder)})
asked = {
    "all readings of all GPUs": lambda: frames.ticks(folder),
    "one reading of all GPUs, joined": lambda: frames.ticks(folder, ("power_w",)),
    "one reading of all GPUs, as pages take it": lambda: list(frames.one_reading(folder, "power_w")),
    "three readings of one GPU": lambda: frames.ticks(folder, three, gpus[-1]),
    "ten readings, GPU by GPU": lambda: by_gpu(),
    "mean power by `scan`": lambda: frames.scan(folder).select(polars.col("power_w").mean()).collect(),
    "whole seconds, all": lambda: frames.seconds(folder),
    "whole seconds of ten readings, GPU by GPU": lambda: [
        list(frames.seconds_in_turn(folder, ten, ("mean", "max"), gpu)) for gpu in gpus],
}
def by_gpu():
    options = {"cache": ticks.PartCache()} if hasattr(frames, "PartCache") else {}
    return [frames.ticks(folder, ten, gpu, **options) for gpu in gpus]
answer = {}
for what, read in asked.items():
    taken = []
    for _ in range(5):
        start = time.process_time()
        read()
        taken.append(time.process_time() - start)
    answer[what] = sorted(taken)[2]
print(json.dumps(answer))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", type=Path, required=True, help="a checkout of other code")
    parser.add_argument("--log", type=Path, required=True, help="nvidia-smi-query-a100-13ms.csv")
    parser.add_argument("--machine", default=f"{os.cpu_count()} cores ({platform.machine()})")
    parser.add_argument("--out", type=Path, help="where to write the results, else standard output")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gputel-layout-") as folder:
        lines = list(results(options.old.resolve(), options.log, Path(folder), options.machine))
    text = "\n".join(lines) + "\n"
    print(text) if options.out is None else options.out.write_text(text)


def results(old: Path, log: Path, folder: Path, machine: str) -> Iterator[str]:
    yield "# The store's layout"
    yield ""
    yield f"{date.today()}, {machine}, Python {platform.python_version()}, polars {pl.__version__}, one thread."
    yield "Sizes are exact; CPU times are of a busy machine, so only their ratios within a pair of processes count."
    recordings = {
        "real A100, 208 s, a tick each 13 ms": "real",
        "2xH100, 47 s": "two",
        "8xH100, 10 min": "eight",
    }
    store.write_real(log, folder / "real" / "gpu")
    simulate("2xH100", 47, folder / "two" / "gpu")
    simulate("8xH100", 600, folder / "eight" / "gpu")
    yield from (
        "",
        "| | values | journals | fast tier | all tiers | seconds | CPU to compact |",
        "|---|---|---|---|---|---|---|",
    )
    for title, name in recordings.items():
        yield from sizes(title, folder / name / "gpu", old)
    yield ""
    yield "Bytes a value; `seconds` in bytes, and as a share of the tiers that it sums up. Every integer of the"
    yield "driver was compared with what `round(x * per_unit)` gives from the compacted files."
    for title, name in recordings.items():
        yield from (
            "",
            f"## CPU to read: {title}",
            "",
            "| | old, ms | new, ms | old / new |",
            "|---|---|---|---|",
        )
        yield from times(folder / name, old)


def simulate(machine: str, seconds: int, folder: Path) -> None:
    tiers, rows = store.simulated(machine, seconds)
    clock = store.GivenClock()
    writer = Writer(PartWriter(folder, tiers, clock, on_trouble=store.failed, compactor=None))
    for tier, late, at, values in rows:
        clock.now = at + late
        writer.append(tier, at, clock.now, values)
        while writer.pending_bytes > 8_000_000:
            pass
    writer.close()


def sizes(title: str, folder: Path, old: Path) -> Iterator[str]:
    values, journals = 0, store.size(folder, ".gtb")
    contents = [journal.read(part.path) for part in parts.current(folder)]
    for content in contents:
        assert content
        values += sum(block.values.size for block in content.ticks)
    fast_values = sum(block.values.size for c in contents if c and c.tier.name == "fast" for block in c.ticks)
    for word, code in (("old", old), ("new", HERE)):
        copy = folder.parent / word
        shutil.copytree(folder, copy)
        cpu = run(code, copy, COMPACT)["cpu"]
        seconds = store.seconds_size(copy)
        fast = sum(path.stat().st_size for path in copy.glob("fast-*"))
        tiers = store.size(copy, ".parquet") - seconds
        yield (
            f"| {title}: {word} | {values:,} | {journals / values:.3f} | {fast / fast_values:.3f} | "
            f"{tiers / values:.3f} | {seconds:,} ({seconds / tiers:.0%}) | {cpu:.2f} s |"
        )
    for content in contents:
        assert content
        same_integers(content, folder.parent / "new")


def same_integers(content: journal.Journal, compacted: Path) -> None:
    tier: Tier = content.tier
    from_units = pl.read_parquet(compacted / f"{content.path.stem}.parquet")
    direct = ticks.from_journal(content)
    for name, column in tier.readings.items():
        counts = (from_units[name] * column.per_unit).round().cast(pl.Int64)
        driver = [
            pl.concat(pl.Series(block.values[:, place], dtype=pl.Int64) for block in content.ticks)
            for place, other in enumerate(tier.columns)
            if other.name == name
        ]
        whole = pl.concat(driver)
        measured = direct[name].is_not_null()
        if len(whole) == len(counts):  # every GPU has the reading
            assert counts.filter(measured).equals(whole.filter(measured)), name
        assert direct[name].equals(from_units[name])


def times(folder: Path, old: Path) -> Iterator[str]:
    pairs = [(run(old, folder / "old", READ), run(HERE, folder / "new", READ)) for _ in range(PAIRS)]
    for what in pairs[0][0]:
        before, after = (median(pair[place][what] for pair in pairs) for place in (0, 1))
        ratio = median(first[what] / second[what] for first, second in pairs)
        yield f"| {what} | {before * 1000:.1f} | {after * 1000:.1f} | {ratio:.2f} |"


def run(code: Path, folder: Path, script: str) -> dict[str, float]:
    """What the script prints, run with the code of a checkout."""
    head = (
        f"import sys; sys.path[:0] = [{str(code)!r}]\nimport json, polars\nfrom pathlib import Path\n"
        "from gputel.telemetry.store import frames, parquet\n"
        "try: from gputel.telemetry.store import ticks\nexcept ImportError: pass\n"
        f"folder = Path({str(folder)!r})\n"
    )
    env = {**os.environ, "POLARS_MAX_THREADS": "1"}
    answer = subprocess.run(
        [sys.executable, "-c", head + script], env=env, cwd=folder, capture_output=True, text=True, check=True
    )
    return dict(json.loads(answer.stdout))


if __name__ == "__main__":
    main()
