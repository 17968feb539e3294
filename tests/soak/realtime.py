"""A soak in real time: a real `gputel record` of a command that prints, and faults that are done to it.

Where the user may mount, the run folder is on a small disk of its own, which the soak fills now and then.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gputel.telemetry import events
from gputel.telemetry.clock import SECOND
from tests.fake_nvml import GPU_IS_LOST, FakeNvml
from tests.recordings import GPUTEL, Recorder, is_alive, until
from tests.soak.check import WARM_UP, Excuses, Soaked, Span, check
from tests.soak.plan import Fault, SoakPlan
from tests.soak.virtual import BACK, make_driver

DISK = "48m"
EXIT_CODE = 7
PROGRAM = """
import os, sys, time
begin, n = time.monotonic(), 0
while time.monotonic() < begin + float(sys.argv[1]):
    os.write(1, b"step %d loss 2.5\\n" % n)
    n += 1
    time.sleep(max(0, begin + n * 0.01 - time.monotonic()))
os._exit(7)
"""
RESTART = 4 * SECOND
"""How long a busy machine may take to start another sampler."""


@dataclass(frozen=True)
class RealTime:
    """The result: what was found in the store, and what became of the command."""

    soaked: Soaked
    exit_code: int
    lines: int
    torn: int
    """Lines that are missing, twice there or out of order."""
    events: dict[str, int]
    missed: int
    """Ticks that the last sampler itself counted as missed."""
    faults: int
    small_disk: bool


@contextmanager
def disk(place: Path) -> Iterator[bool]:
    """A small disk at this folder, if the user may mount one."""
    place.mkdir(parents=True)
    mounted = not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "gputel-soak", str(place)],
        capture_output=True,
        check=False,
    ).returncode
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(place)], check=True)


def run(folder: Path, soak: SoakPlan) -> RealTime:
    """Record for the time of the plan, do its faults, and check what was recorded."""
    fake = make_driver(folder, soak.gpus)
    with disk(folder / "disk") as mounted:
        recorder = Recorder(
            folder / "disk" / "run",
            *(sys.executable, "-c", PROGRAM, str(soak.seconds)),
            options=("--hz", f"{soak.hz:g}"),
            env=fake.environment,
            program=(*GPUTEL, "record"),
        )
        try:
            until(lambda: list((recorder.folder / "gpu").glob("fast-*")), "the first journal")
            player = Player(fake, recorder, soak, mounted)
            player.play()
            code = recorder.wait()
            return _result(player, recorder, code, mounted)
        finally:
            recorder.stop()


class Player:
    """Does the faults to the recorder, each at its time, and notes when it was done."""

    def __init__(self, fake: FakeNvml, recorder: Recorder, soak: SoakPlan, small_disk: bool) -> None:
        self.fake, self._recorder, self.soak = fake, recorder, soak
        self._small_disk = small_disk
        self.done: list[tuple[Fault, int, int]] = []
        """Each fault with when it began and ended, on the driver's clock."""

    @property
    def now(self) -> int:
        return time.monotonic_ns() - int(self.fake.state.began_ns)

    def play(self) -> None:
        begin = time.monotonic()
        endings: list[tuple[float, Callable[[], object], Fault, int]] = []
        faults = [fault for fault in self.soak.faults if fault.kind != "full" or self._small_disk]
        while faults or endings:
            due = min([*(fault.at_s for fault in faults[:1]), *(ending[0] for ending in endings)])
            time.sleep(max(0, begin + due - time.monotonic()))
            endings.sort(key=lambda ending: ending[0])
            if endings and endings[0][0] <= due:
                _, work, fault, began = endings.pop(0)
                work()
                self.done.append((fault, began, self.now))
            else:
                fault = faults.pop(0)
                began = self.now
                endings.append((fault.at_s + fault.lasts_s, self._begin(fault), fault, began))

    def _begin(self, fault: Fault) -> Callable[[], object]:
        """Do a fault; returns what ends it."""
        gpu, recorder = self.fake.state.gpus[fault.gpu], self._recorder
        if fault.kind == "stall":
            self.fake.stall(fault.call, round(fault.lasts_s * SECOND), fault.gpu)
        elif fault.kind == "restart":
            self.fake.restart_driver()
        elif fault.kind == "gone":
            gpu.gone = GPU_IS_LOST
            return lambda: setattr(gpu, "gone", 0)
        elif fault.kind == "full":
            filler = recorder.folder.parent / "filler"
            _fill(filler)
            return filler.unlink
        elif fault.kind == "load":
            loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
            return lambda: _end(loops)
        elif fault.kind == "kill" and is_alive(recorder.viewer):
            victim = recorder.sampler() if fault.gpu % 2 == 0 else recorder.keeper()
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        return lambda: None


def _end(loops: Sequence[subprocess.Popen[bytes]]) -> None:
    for loop in loops:
        loop.kill()
        loop.wait()


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass


def _result(player: Player, recorder: Recorder, code: int, small_disk: bool) -> RealTime:
    to_driver = -player.fake.state.began_ns
    soaked = check(recorder.folder / "gpu", to_driver, player.soak.hz, _excuses(player, recorder))
    lines = recorder.output().splitlines()
    kinds = [str(event["kind"]) for event in events.read(recorder.folder)]
    return RealTime(
        soaked,
        code,
        len(lines),
        sum(line != b"step %d loss 2.5" % n for n, line in enumerate(lines)),
        {kind: kinds.count(kind) for kind in sorted(set(kinds))},
        recorder.facts()["sampling"]["statistics"]["missed"],
        len(player.done),
        small_disk,
    )


def _excuses(player: Player, recorder: Recorder) -> Excuses:
    """What the faults that were done excuse, and the GPUs that were lost by the recorder's own events."""
    done = player.done
    stalls = [(began - SECOND // 10, ended + SECOND) for fault, began, ended in done if fault.kind == "stall"]
    restarts = [
        (began - SECOND, ended + RESTART) for fault, began, ended in done if fault.kind in ("kill", "full")
    ]
    hangs = [
        (began, ended + SECOND)
        for fault, began, ended in done
        if fault.kind == "stall" and fault.lasts_s > 0.2
    ]
    gone = [(began, ended + WARM_UP) for fault, began, ended in done if fault.kind in ("gone", "restart")]
    lost = {str(gpu): _lost(player, recorder, str(gpu)) for gpu in range(player.soak.gpus)}
    first = [(0, _first(recorder) - player.fake.state.began_ns + WARM_UP + SECOND)]
    restarted = _restarts(player, recorder)
    warm = [(begin, end + WARM_UP) for begin, end in (*hangs, *restarts, *restarted)]
    return Excuses([*hangs, *restarts, *restarted], lost, [*first, *warm, *gone], stalls)


def _restarts(player: Player, recorder: Recorder) -> list[Span]:
    """From the death of each sampler until its successor has begun, by the recorder's own events."""
    spans = []
    for event in events.read(recorder.folder):
        if event["kind"] == "gap" and event.get("seconds"):
            at = _driver_time(player, str(event["time"]))
            spans.append((at - round(event["seconds"] * SECOND) - SECOND, at + SECOND))
    return spans


def _lost(player: Player, recorder: Recorder, gpu: str) -> list[Span]:
    spans, since = [], None
    for event in events.read(recorder.folder):
        if event.get("gpu") != gpu:
            continue
        at = _driver_time(player, str(event["time"]))
        if event["kind"] == "gpu_lost" and since is None:
            since = at - BACK
        elif event["kind"] == "gpu_back" and since is not None:
            spans.append((since, at + SECOND // 10))
            since = None
    return spans if since is None else [*spans, (since, player.now)]


def _first(recorder: Recorder) -> int:
    return int(recorder.facts()["started"]["monotonic_ns"])


def _driver_time(player: Player, text: str) -> int:
    seconds, _, nanoseconds = text.removesuffix("Z").partition(".")
    wall = round(datetime.fromisoformat(seconds + "+00:00").timestamp()) * SECOND + int(nanoseconds)
    return player.now - (time.time_ns() - wall)
