"""Damages whole run folders at random and runs the commands on them: none may end in a traceback.

Each round copies a small recording, changes one to three of its files, and runs info, report, compare, export and
tail in one process. A seed makes a round again: `python benchmarks/fuzz_run_folders.py --seconds 3600 --seed 1`
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from gputel.telemetry import run_folder
from gputel.telemetry.clock import SECOND, Stamp
from gputel.telemetry.process import keeper
from gputel.telemetry.store import parquet
from gputel.telemetry.store.journal import Writer
from gputel.telemetry.store.tiers import GpuColumn, Tier

START = 10**18
READINGS = (("power_w", "W", 1000), ("energy_j", "J", 1000), ("temp_c", "C", 1), ("throttle", None, 1))
TIERS = [
    Tier("fast", 10.0, tuple(GpuColumn(*reading, gpu) for gpu in "01" for reading in READINGS)),
    Tier("slow", 1.0, (GpuColumn("fan", "%", 1, "0"),)),
]
VALUES = (
    None,
    0,
    -1,
    2**63,
    2**200,
    1e308,
    True,
    "",
    "x",
    "\x1b]52;c;x",
    [],
    {},
    [[]],
    {"a": {"b": []}},
    "../x",
)
EVENT = '{"time": "2001-09-09T01:46:41.000000000Z", "kind": "mark", "text": "here"}\n'
TAIL_S = 1.5  # of a run whose end is damaged, tail waits for more


class InTime(BaseException):
    """The time of a command is over."""


class GivenClock:
    now = 0

    def stamp(self) -> Stamp:
        return Stamp(self.now + START, self.now, self.now)

    def monotonic(self) -> int:
        return self.now

    def sleep_until(self, monotonic: int) -> None:
        self.now = max(self.now, monotonic)


def recording(folder: Path, *, compacted: bool) -> None:
    """Twelve seconds of two GPUs in three parts, with steps and an event."""
    moments = {"started": _moment(0), "ended": _moment(12 * SECOND)}
    gpus = [{"gpu": gpu, "name": "H100", "uuid": f"GPU-{gpu}", "limits": {"power_w": 700}} for gpu in "01"]
    facts = {"run": folder.name, "argv": ["train"], "gpus": gpus, "exit_code": 0, **moments}
    segment = run_folder.create(
        folder, {**facts, "sampling": {"hz": 10, "statistics": None}, "tags": {"lr": "1"}}
    )
    clock = GivenClock()
    writer = Writer(segment.gpu, TIERS, clock, on_trouble=print, compactor=None, seal_after_s=4)
    for n in range(120):
        clock.now = n * SECOND // 10
        writer.append(0, clock.now, clock.now, [300_000 + n, n * 30_000, 50, n % 4] * 2)
        if n % 10 == 0:
            writer.append(1, clock.now, clock.now, [n])
    writer.close()
    with segment.output.open("wb") as output, segment.index.open("wb") as index:
        for step in range(40):
            output.write(f"step {step} loss {5 - step / 20:.3f} lr 0.001 dt 290ms tok/s 1000\n".encode())
            index.write(keeper.pack(START + step * 300_000_000, output.tell()))
    (folder / "events.jsonl").write_text(EVENT)
    if compacted:
        parquet.compact(segment.gpu, everything=True)


def _moment(ns: int) -> dict[str, int]:
    return {"wall_ns": START + ns, "monotonic_ns": ns, "boot_ns": ns}


def truncate(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size + 1)])


def flip(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(chance.randrange(1, 20) if data else 0):
        data[chance.randrange(len(data))] = chance.randrange(256)
    path.write_bytes(data)


def overwrite(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    at, length = chance.randrange(len(data) + 1), chance.randrange(1, 400)
    data[at : at + length] = chance.choice((bytes(length), b"\xff" * length, chance.randbytes(length)))
    path.write_bytes(data)


def remove(path: Path, _chance: random.Random) -> None:
    path.unlink()


def exchange(path: Path, chance: random.Random) -> None:
    others = sorted(other for other in path.parent.iterdir() if other.is_file())
    path.write_bytes(chance.choice(others).read_bytes())


def nest(path: Path, _chance: random.Random) -> None:
    path.write_text("[" * 100_000)


def change_json(path: Path, chance: random.Random) -> None:
    """One value anywhere in run.json becomes one of another type."""
    if path.name != run_folder.DESCRIPTION:
        flip(path, chance)
        return
    facts = place = json.loads(path.read_text())
    while True:
        key = chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
        if isinstance(place[key], (dict, list)) and place[key] and chance.random() < 0.6:
            place = place[key]
            continue
        place[key] = chance.choice(VALUES)
        break
    path.write_text(json.dumps(facts))


CHANGES: tuple[Callable[[Path, random.Random], None], ...] = (
    truncate, flip, overwrite, remove, exchange, nest, change_json, change_json,
)  # fmt: skip


def damage(folder: Path, chance: random.Random) -> list[str]:
    """Changes some files; says which and how."""
    made = []
    for _ in range(chance.randrange(1, 4)):
        files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
        likely = (
            [path for path in files if path.name == run_folder.DESCRIPTION] if chance.random() < 0.4 else []
        )
        if files:
            path, change = chance.choice(likely or files), chance.choice(CHANGES)
            with contextlib.suppress(ValueError, IndexError):  # already damaged by the change before
                change(path, chance)
            made.append(f"{change.__name__} {path.relative_to(folder)}")
    return made


def commands(run: Path, other: Path, out: Path) -> list[list[str]]:
    return [
        ["info", str(run), "--json"],
        ["report", str(run), "--json"],
        ["compare", str(run), str(other)],
        ["export", str(run), "--csv", str(out / "x.csv"), "--force"],
        ["tail", "--plain", str(run)],
    ]


def fault_of(arguments: list[str]) -> str | None:
    """The last line of an exception that is no GputelError; None if the command ended as it should."""
    from gputel.cli import main

    shown = io.TextIOWrapper(io.BytesIO())
    signal.signal(signal.SIGALRM, _interrupt)
    signal.setitimer(signal.ITIMER_REAL, TAIL_S if arguments[0] == "tail" else 60.0)
    try:
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            main(arguments)
    except SystemExit:
        return None
    except InTime:
        return None if arguments[0] == "tail" else f"{arguments[0]}: takes over a minute"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "gputel" in f.filename]
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
        return f"{arguments[0]}: {type(error).__name__} at {place}: {str(error).splitlines()[:1]}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return None


def _interrupt(*_: object) -> None:
    raise InTime


def fuzz(seed: int, seconds: float, rounds: int | None = None) -> tuple[int, Counter[str]]:
    """Number of rounds, and each fault with how often it came; prints the first round of each."""
    faults: Counter[str] = Counter()
    done, end = 0, time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="gputel-fuzz-") as name:
        home = Path(name)
        for kind in ("journals", "parquet", "other"):
            recording(home / kind, compacted=kind != "journals")
        while time.monotonic() < end and (rounds is None or done < rounds):
            chance = random.Random(seed + done)
            run = home / "damaged"
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(home / chance.choice(("journals", "parquet")), run)
            made = damage(run, chance)
            for arguments in commands(run, home / "other", home):
                fault = fault_of(arguments)
                if fault and not faults[fault]:
                    print(f"seed {seed + done}: {', '.join(made)}: {fault}", file=sys.__stderr__)
                faults.update([fault] if fault else [])
            done += 1
    return done, faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("once")
    done, faults = fuzz(options.seed, options.seconds)
    print(
        f"{done} damaged run folders, {sum(faults.values())} commands ended in {len(faults)} kinds of exceptions"
    )
    for fault, count in faults.most_common():
        print(f"{count:6d}  {fault}")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
