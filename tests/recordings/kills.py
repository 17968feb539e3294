"""One recording in which one process is killed at a given moment, and what must hold of it afterwards.

The command prints numbers as fast as a training might, and is not touched; the benchmark runs 200 of these rounds.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.recordings import Recorder, is_alive, until

LINES, PAUSE_S, EXIT_CODE = 5000, 0.0005, 7
PROGRAM = f"""
import os, sys, time
os.write(1, b"0\\n")
while not os.path.exists(sys.argv[1]):
    time.sleep(0.001)
begin = time.monotonic()
for i in range(1, {LINES}):
    os.write(1, b"%d\\n" % i)
    time.sleep(max(0, begin + i * {PAUSE_S} - time.monotonic()))
os._exit({EXIT_CODE})
"""
LAST_SAMPLE_S, LONGEST_GAP_S = 1.1, 2.2


@dataclass(frozen=True)
class Round:
    """What was seen after the kill of `victim`."""

    victim: str
    output_as_printed: bool
    exit_code: int | None
    """As run.json has it."""
    returned: int
    """As the recorder itself ended."""
    before_end_s: float | None
    """How long before the command's end the last sample was taken."""
    gap_s: float | None
    after_s: float
    """When it was killed, counted from the command's second line."""
    lost_s: float | None
    """How much of what was sampled before the kill is not in the store."""
    back_s: float | None
    """How long after the kill the next sample was taken."""
    unsampled_why: str | None
    """What the recording says of it if nothing was sampled, as where a busy machine starts the sampler too late."""

    def losses(self) -> list[str]:
        """What must be right on any machine."""
        faults = []
        if not self.output_as_printed:
            faults.append("output differs")
        if self.exit_code != EXIT_CODE or (self.victim != "viewer" and self.returned != EXIT_CODE):
            faults.append(f"exit code {self.exit_code}, returned {self.returned}")
        if self.before_end_s is None and self.unsampled_why is None:
            faults.append("no sample, and no reason")
        return faults

    def faults(self) -> list[str]:
        """What is wrong, or took long: a busy machine may take longer."""
        faults = self.losses()
        if self.before_end_s is None:
            faults.append("no sample")
        if self.before_end_s is not None and self.before_end_s > LAST_SAMPLE_S:
            faults.append(f"last sample {self.before_end_s} s before the end")
        if self.gap_s is None or self.gap_s > LONGEST_GAP_S:
            faults.append(f"a gap of {self.gap_s} s")
        return faults

    def check(self) -> None:
        assert not self.losses(), (self.losses(), self)


def kill_round(record: Callable[..., Recorder], victim: str, after_s: float) -> Round:
    """`after_s` counts from the command's second line, before which the processes are found.

    On a busy machine the recording had ended before its sampler was looked for.
    """
    with tempfile.TemporaryDirectory() as folder:
        return _kill_round(record, victim, after_s, Path(folder) / "go")


def _kill_round(record: Callable[..., Recorder], victim: str, after_s: float, go: Path) -> Round:
    recorder = record(sys.executable, "-c", PROGRAM, str(go))
    recorder.printed(b"0\n")
    pid = {"viewer": lambda: recorder.viewer, "keeper": recorder.keeper, "sampler": recorder.sampler}[
        victim
    ]()
    sampler = recorder.sampler()
    go.touch()
    time.sleep(after_s)
    killed = time.time_ns()
    if is_alive(pid):
        os.kill(pid, signal.SIGKILL)
    returned = recorder.wait()
    until(lambda: recorder.facts().get("ended"), "the end in run.json")
    until(lambda: not is_alive(sampler) and not is_alive(pid), "the end of the sampler")
    ended = recorder.facts()["ended"]["wall_ns"]
    times = _sample_times(recorder)
    return Round(
        victim,
        recorder.output() == b"".join(b"%d\n" % i for i in range(LINES)),
        recorder.facts()["exit_code"],
        returned,
        (ended - times[-1]) / 1e9 if times else None,
        max(b - a for a, b in pairwise(times)) / 1e9 if len(times) > 1 else None,
        after_s,
        min(((killed - at) / 1e9 for at in times if at <= killed), default=None),
        min(((at - killed) / 1e9 for at in times if at > killed), default=None),
        next((event["text"] for event in recorder.events() if event["kind"] == "no_telemetry"), None),
    )


def _sample_times(recorder: Recorder) -> list[int]:
    """The folder is read as anybody reads it."""
    import gputel

    frame = gputel.open_run(recorder.folder).gpu
    return [int(wall) for wall in frame["time"].dt.epoch("ns")]
