"""Who holds up a training? Hangs are planted in ranks that train with gloo, and each verdict is checked.

    python benchmarks/why.py [--seed N] [--each N] [--worlds 2,3,4] [--kinds lock,loop,...] [--default-limits]

Writes its table into benchmarks/results/why.md, between two marks; the rest of the page stays. The kind, the
number of ranks and the rank are drawn from the seed. What was judged is kept in build/, a line a training: the
same command again goes on where it was stopped.

With `--default-limits` each training is recorded by `gputel record --inside stacks` and hangs after twelve lines;
judged is the incident that the recorder writes by itself, about 65 s after the last of them. Writes no results.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from gputel.analysis.incidents import incident
from gputel.analysis.incidents.process_states import standings
from gputel.analysis.incidents.verdict import judge
from gputel.telemetry.inside import ask, environment

HERE = Path(__file__).resolve().parent
PLANTS = HERE / "plants" / "hangs.py"
RESULT = HERE / "results" / "why.md"
KEPT = HERE.parent / "build" / "why"
KINDS = ("lock", "loop", "import", "dataset", "worker", "collective", "stop", "gil", "thread")
BEGIN, END = "<!-- benchmarks/why.py writes from here -->", "<!-- to here -->"
HEALTHY = ("healthy", "program", "pool", "threads")
"""A rank that works while the others wait, in these ways: any verdict is wrong."""
HEALTHY_LOOKS = 2
EVERY_S, HEALTHY_EVERY_S = 0.3, 1.0
"""Between two looks; on a full machine a rank may get no CPU for the shorter time."""
PATIENCE_S = 240
"""Seconds until a recorder with the default limits must have written its incident."""
TRIES = 40
"""How often a training is looked at until its ranks stand: under load they take long to get there."""


@dataclass(frozen=True)
class Plant:
    """One hang: what stands where."""

    kind: str
    world: int
    rank: int


@dataclass(frozen=True)
class Judged:
    """A plant and what was said of it: a sentence, or None. `line_right` is None where no line can be named."""

    plant: Plant
    said: str | None
    rank_right: bool
    line_right: bool | None


def plants(seed: int, each: int, worlds: Sequence[int], kinds: Sequence[str] = KINDS) -> list[Plant]:
    """The plants of a seed, `each` of every kind."""
    chance = random.Random(seed)
    drawn = []
    for kind in kinds:
        for _ in range(each):
            world = chance.choice(worlds)
            drawn.append(Plant(kind, world, chance.randrange(world)))
    return drawn


def lines(kind: str) -> set[int]:
    """The lines of the plants' file in which a rank may stand."""
    marked = enumerate(PLANTS.read_text().splitlines(), 1)
    found = ((number, re.search(r"# planted: (.*)", line)) for number, line in marked)
    return {number for number, mark in found if mark and kind in mark[1].split(", ")}


class Server:
    """The process that imported torch once and forks the ranks of each training."""

    def __init__(self, folder: Path) -> None:
        env = environment.Inside("stacks", folder).environment(os.environ)
        self.folder = folder
        self._process = subprocess.Popen(
            [sys.executable, str(PLANTS), "serve"],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._wait("ready")

    def judge(self, plant: Plant) -> Judged:
        """Starts a training, waits until it hangs, and judges it."""
        self._send(json.dumps({**vars(plant), "port": free_port()}))
        self._wait("hung")
        verdict = self._verdict(plant)
        self._send("end")
        self._wait("ended")
        return held_against(plant, verdict)

    def _verdict(self, plant: Plant) -> dict[str, Any] | None:
        """The verdict once all ranks stand: those that wait may still be on their way."""
        count, every_s = (HEALTHY_LOOKS, HEALTHY_EVERY_S) if plant.kind in HEALTHY else (TRIES, EVERY_S)
        for _ in range(count):
            looks = ask.rounds(self.folder, 3, every_s)
            there = [look for look in looks[-1] if look.pid != self._process.pid]
            verdict = judge(
                standings([[each for each in look if each.pid != self._process.pid] for look in looks])
            )
            if verdict and len(there) >= plant.world:
                return incident.verdict_json(verdict)
        return None

    def _send(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _wait(self, word: str) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            if line.strip() == word:
                return
        raise RuntimeError(f"the plants ended before they said {word}")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def judge_by_default(plant: Plant) -> Judged:
    """Records the training as a user does, and judges the first incident of it."""
    folder = KEPT / "recorded"
    shutil.rmtree(folder, ignore_errors=True)
    order = json.dumps({**vars(plant), "port": free_port()})
    recorder = [sys.executable, "-m", "gputel", "record", "--inside", "stacks", "--out", str(folder), "--"]
    process = subprocess.Popen(
        [*recorder, sys.executable, str(PLANTS), "one", order], stdout=subprocess.DEVNULL
    )
    until = time.monotonic() + PATIENCE_S
    written: list[Path] = []
    while not written and time.monotonic() < until and process.poll() is None:
        time.sleep(1)
        written = sorted(folder.glob(f"{incident.FOLDER}/*/{incident.FILE}"))
    process.send_signal(signal.SIGINT)
    process.wait()
    return held_against(plant, json.loads(written[0].read_text())["verdict"] if written else None)


def held_against(plant: Plant, verdict: dict[str, Any] | None) -> Judged:
    """Two ranks in different collectives cannot be told apart: then both must be named."""
    said = verdict["text"] if verdict else None
    if plant.kind in HEALTHY:
        return Judged(plant, said, verdict is None, None)
    if verdict is None:
        return Judged(plant, None, False, None if plant.kind == "stop" else False)
    if plant.kind == "collective" and plant.world == 2:
        named = verdict["kind"] == "mismatched" and "all_gather" in verdict["text"]
        shown = any(f":{line} " in each for each in verdict["evidence"] for line in lines("collective"))
        return Judged(plant, said, named, shown)
    found = verdict["rank"] == plant.rank
    if plant.kind == "stop":
        return Judged(plant, said, found, None)
    place = verdict["place"] or {"file": "", "line": 0}
    if plant.kind == "import":
        right = (Path(place["file"]).name, place["line"]) == ("endless.py", 3)
    else:
        right = Path(place["file"]) == PLANTS and place["line"] in lines(plant.kind)
    return Judged(plant, said, found, right)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextlib.contextmanager
def server() -> Iterator[Server]:
    inside = environment.enter("stacks")
    if inside.folder is None:
        raise RuntimeError(inside.reason)
    started = Server(inside.folder)
    try:
        yield started
    finally:
        started.close()
        environment.leave(inside)


def table(results: Sequence[Judged]) -> list[str]:
    """A row a kind: how many, rank right, line right of those that can answer."""
    rows = ["| planted | runs | right | line right | no verdict |", "|---|---|---|---|---|"]
    for kind in dict.fromkeys(each.plant.kind for each in results):
        of_kind = [each for each in results if each.plant.kind == kind]
        asked = [each for each in of_kind if each.line_right is not None]
        line = f"{sum(bool(each.line_right) for each in asked)} of {len(asked)}" if asked else "none to name"
        silent = sum(each.said is None for each in of_kind)
        ranks = sum(each.rank_right for each in of_kind)
        rows.append(f"| {kind} | {len(of_kind)} | {ranks} | {line} | {silent} |")
    return rows


def with_table(text: str, table_rows: Sequence[str]) -> str:
    """The page with these rows between its marks. Raises ValueError where they are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{RESULT} has no {BEGIN} and {END}")
    return before + "\n".join([begin, *table_rows, "", end]) + after


def keep(file: Path, seconds: float, judged: Judged) -> None:
    """Appends what was judged, and how long it took."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as kept_file:
        kept_file.write(json.dumps({"seconds": seconds, **asdict(judged)}) + "\n")


def kept(file: Path, planted: Sequence[Plant]) -> list[tuple[float, Judged]]:
    """What was judged before the script was stopped, of the same plants in the same order."""
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    found = [(row.pop("seconds"), Judged(**{**row, "plant": Plant(**row["plant"])})) for row in rows]
    if [judged.plant for _, judged in found] != list(planted[: len(found)]):
        raise RuntimeError(f"{file} is of other plants; remove it")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=19)
    parser.add_argument("--each", type=int, default=10)
    parser.add_argument("--worlds", default="2,3,4")
    parser.add_argument("--kinds", default=",".join((*KINDS, *HEALTHY)))
    parser.add_argument(
        "--default-limits", action="store_true", help="recorded as by a user, over a minute each"
    )
    asked = parser.parse_args()
    worlds = [int(world) for world in asked.worlds.split(",")]
    planted = plants(asked.seed, asked.each, worlds, asked.kinds.split(","))
    limits = "-default" if asked.default_limits else ""
    file = KEPT / f"{asked.seed}-{asked.each}-{asked.worlds}-{asked.kinds}{limits}.jsonl"
    results = kept(file, planted)
    with contextlib.ExitStack() as stack:
        judged_by = judge_by_default if asked.default_limits else stack.enter_context(server()).judge
        for plant in planted[len(results) :]:
            began = time.monotonic()
            judged = judged_by(plant)
            results.append((time.monotonic() - began, judged))
            keep(file, *results[-1])
            print(f"{plant}: {judged.rank_right} {judged.line_right}: {judged.said}", flush=True)
    rows = table([judged for _, judged in results])
    print("\n".join(rows))
    if asked.default_limits:
        return
    head = f"{date.today()}, seed {asked.seed}, {asked.worlds} ranks with gloo, {os.cpu_count()} cores shared"
    took = f"{sum(seconds for seconds, _ in results):,.0f} s"
    RESULT.write_text(with_table(RESULT.read_text(), [f"{head}; took {took}.", "", *rows]))


if __name__ == "__main__":
    main()
