"""One life of the sampler on virtual time: a process that samples into a run folder until the plan kills it.

`python -m tests.soak.life FOLDER NUMBER`: `FOLDER/plan.json` has the plan, `FOLDER/driver` the fake driver. Loop,
watchdog, budget, store and compaction are the recorder's own; the main thread plays the faults. What happened is
written to `FOLDER/life-NUMBER.json` before the kill, as no real kill would allow.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from gputel.telemetry.clock import SECOND
from gputel.telemetry.sampling import plan as planning
from gputel.telemetry.sampling.budget import Budget
from gputel.telemetry.sampling.cost import SamplingCost
from gputel.telemetry.sampling.loop import Loop
from gputel.telemetry.sampling.watchdog import LOOK_EVERY_S, Turn, Watchdog
from gputel.telemetry.store import compact
from gputel.telemetry.store.journal import Writer
from gputel.telemetry.store.part_writer import PartWriter
from tests.fake_nvml import GPU_IS_LOST, FakeNvml
from tests.soak.plan import Fault, SoakPlan, plan_from_json
from tests.soak.virtual_time import VirtualTime

ORIGIN = 100 * SECOND
"""The driver's clock at the start of the soak."""
UNLIMITED = resource.RLIM_INFINITY
MOST_PENDING = 4_000_000
StallHook = ctypes.CFUNCTYPE(None, ctypes.c_int64)


class Life:
    """A sampler from `begins_s` to `ends_s`, and the faults in between."""

    def __init__(self, folder: Path, soak: SoakPlan, begins_s: float, ends_s: float) -> None:
        self._folder, self._soak = folder, soak
        self._begins, self._ends = round(begins_s * SECOND), round(ends_s * SECOND)
        self._fake = FakeNvml.attached(folder / "driver")
        self._clock = VirtualTime(self._begins, self._set_driver_clock)
        self.happened: dict[str, Any] = {"begins": self._begins, "events": [], "stalls": []}

    def live(self) -> None:
        """Sample to the end of this life. The journals then lack what came since the last whole second."""
        soak, clock = self._soak, self._clock
        self._find_faults_of_before()
        library = ctypes.CDLL(str(self._fake.library))
        hook = StallHook(self._stall)
        library.fake_nvml_on_stall(hook)
        self._machine = self._fake.open()
        self._plan = planning.make(self._machine, self._machine.gpus, soak.hz, clock)
        tiers = [planned.tier for planned in self._plan.tiers]
        self._store = Writer(
            PartWriter(
                self._folder / "run" / "gpu", tiers, clock, on_trouble=self._report, compactor=compact.start
            )
        )
        self._cost, self._turn = SamplingCost(round(SECOND / soak.hz)), Turn()
        self._budget = Budget(self._plan, self._report)
        self._watchdog = Watchdog(self._turn, lambda: clock.start(self._sample), self._report)
        clock.start(self._sample)
        clock.start(self._watch)
        clock.start(self._play)
        clock.sleep_until(self._ends)
        self._written()

    def end(self) -> None:
        """End as a recording ends, with a seal."""
        self._turn.stopping = True
        self._store.close()

    def write_report(self, path: Path) -> None:
        cost = self._cost
        facts = {
            "ends": self._clock.now,
            "first": cost.first,
            "last": cost.last,
            "ticks": cost.ticks,
            "missed": cost.missed,
            "hz": cost.hz,
        }
        path.write_text(json.dumps({**self.happened, **facts}))

    def _sample(self) -> None:
        Loop(
            self._machine,
            self._plan,
            self._store,
            self._clock,
            cost=self._cost,
            budget=self._budget,
            turn=self._turn,
            report=self._report,
        ).run()

    def _watch(self) -> None:
        while True:
            self._clock.sleep_until(self._clock.now + round(LOOK_EVERY_S * SECOND))
            self._watchdog.look(self._clock.now)
            if self._store.pending_bytes > MOST_PENDING:  # time runs faster here than any disk
                self._written()

    def _find_faults_of_before(self) -> None:
        """The driver as the last life left it, but for what has passed since."""
        for gpu in self._fake.gpus:
            gpu.gone = gpu.stall_ns = 0
        for fault in self._soak.of_kind("gone"):
            end = round((fault.at_s + fault.lasts_s) * SECOND)
            if round(fault.at_s * SECOND) < self._begins < end:
                self._fake.state.gpus[fault.gpu].gone = GPU_IS_LOST
                self._clock.start(partial(self._come_back, fault.gpu, end))

    def _come_back(self, gpu: int, at: int) -> None:
        self._clock.sleep_until(at)
        self._fake.state.gpus[gpu].gone = 0

    def _play(self) -> None:
        """Play the faults of this life, each in its own time."""
        for fault in self._soak.faults:
            at = round(fault.at_s * SECOND)
            if self._begins <= at < self._ends and fault.kind != "kill":
                self._clock.sleep_until(at)
                self._happen(fault)

    def _happen(self, fault: Fault) -> None:
        fake, end = self._fake, round((fault.at_s + fault.lasts_s) * SECOND)
        if fault.kind == "stall":
            fake.stall(fault.call, round(fault.lasts_s * SECOND), fault.gpu)
        elif fault.kind == "restart":
            fake.restart_driver()
        elif fault.kind == "gone":
            fake.state.gpus[fault.gpu].gone = GPU_IS_LOST
            self._clock.start(partial(self._come_back, fault.gpu, end))
        elif fault.kind == "full":
            self._written()
            _limit_files(max(file.stat().st_size for file in (self._folder / "run" / "gpu").iterdir()))
            self._clock.start(partial(self._make_room, end))

    def _make_room(self, at: int) -> None:
        self._clock.sleep_until(at)
        self._written()
        _limit_files(UNLIMITED)

    def _stall(self, ns: int) -> None:
        self.happened["stalls"].append((self._clock.now, ns))
        self._clock.sleep_until(self._clock.now + ns)

    def _written(self) -> None:
        """Wait, in real time, until all whole seconds are in the journals."""
        while self._store.pending_bytes:
            time.sleep(0.0005)

    def _set_driver_clock(self, now: int) -> None:
        self._fake.state.now_ns = now + ORIGIN

    def _report(self, kind: str, text: str, **facts: object) -> None:
        self.happened["events"].append({"at": self._clock.now, "kind": kind, "text": text, **facts})


def _limit_files(size: int) -> None:
    """No file of this process grows beyond this: a full disk that needs no root."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, UNLIMITED))


def lives(soak: SoakPlan) -> list[tuple[float, float]]:
    """When each process of the sampler begins and ends."""
    begins, spans = 0.0, []
    for kill in soak.of_kind("kill"):
        if kill.at_s > begins:
            spans.append((begins, kill.at_s))
            begins = kill.at_s + kill.lasts_s
    return [*spans, (begins, soak.seconds)]


def main(folder: Path, number: int) -> None:
    soak = plan_from_json(json.loads((folder / "plan.json").read_text()))
    spans = lives(soak)
    life = Life(folder, soak, *spans[number])
    life.live()
    is_last = number == len(spans) - 1
    if is_last:
        life.end()
    life.write_report(folder / f"life-{number}.json")
    if is_last:
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
