"""The guard: a process beside a recording that judges the run and stops the command when its instructions say so.

It reads the run folder from outside, once a second and at the lowest priority, so that a failure here harms
neither recorder nor command. The time limit alone does not wait for its turn on busy cores, nor for polars, whose
import takes seconds there. The guard lives until both have ended, and then runs the `--then` command. To stop a
command it sends TERM once, through the recorder if that still runs, and KILL to the command and all its descendants
after a grace period.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gputel.analysis import text
from gputel.analysis.alarms import rules
from gputel.analysis.live.instructions import Instructions
from gputel.analysis.live.view import Terms
from gputel.telemetry import clock, events, run_folder, training_state
from gputel.telemetry.characters import visible_line
from gputel.telemetry.errors import GputelError
from gputel.telemetry.secrets import mask
from gputel.telemetry.training_state import TrainingState

if TYPE_CHECKING:
    from gputel.analysis.alarms.watch import Alarm
    from gputel.analysis.live.alarms import AlarmLog, RunAlarms
    from gputel.analysis.live.follower import Follower
    from gputel.analysis.live.prometheus import Exporter
    from gputel.analysis.live.update import Update
    from gputel.analysis.live.view import View

EVERY_S = 1.0  # between two reads; more frequent reads would take CPU time from the training
CLOSING_S = 600.0  # time the recorder may take to close the run


class Guard:
    """Guards one run as its `Instructions` say."""

    def __init__(self, instructions: Instructions) -> None:
        self._instructions = instructions
        self._began = _recording_began(Path(instructions.segment))
        self._rules = rules.load(rules.presets(), instructions.alarms)
        command, recorder = instructions.command, instructions.recorder
        self._command, self._recorder = open_process(command), open_process(recorder)
        self._stopper = Stopper(command, recorder, instructions.grace_s) if command else None
        self._exporter: Exporter | None = None
        self._run_alarms: RunAlarms | None = None

    def stop_at_limit(self) -> None:
        """Stops the command when its time is over, from a thread of its own that keeps the caller's priority."""
        limit_s = self._instructions.stop_after_s
        if limit_s is not None:
            why = f"time limit of {limit_text(limit_s)} reached"
            left_s = max(self._began + limit_s - time.monotonic(), 0)
            timer = threading.Timer(left_s, self._stop, ("time", why))
            timer.daemon = True
            timer.start()

    def run(self) -> None:
        """Judges the run until command and recorder have ended, up to the last line printed."""
        with contextlib.closing(self._follower()) as follower, self._serving():
            with contextlib.suppress(OSError):
                # of this thread alone, and not for its imports, which busy cores would hold up for minutes
                os.nice(19)
            for updates in follower.updates(self._is_over):
                self._take(follower, updates)
            while updates := follower.read():
                self._take(follower, updates)
        self._run_then()

    def _follower(self) -> Follower:
        """Reads once a second; GPUs and machine are read in full only for Prometheus."""
        from gputel.analysis.live.follower import Follower

        serves = self._instructions.prometheus is not None
        return Follower([self._instructions.run], every_s=EVERY_S, viewed=serves)

    @cached_property
    def _alarm_log(self) -> AlarmLog:
        from gputel.analysis.live.alarms import AlarmLog

        return AlarmLog(Path(self._instructions.segment))

    def _take(self, follower: Follower, updates: Sequence[Update]) -> None:
        from gputel.analysis.live.alarms import RunAlarms

        for followed in follower.runs:
            self._run_alarms = self._run_alarms or RunAlarms(followed, self._rules)
            for update in updates:
                self._act_on(self._run_alarms.take(update))
                self._repeat_faults(update)
            terms = Terms(self._instructions.price, self._instructions.budget)
            self._look(self._run_alarms, followed.state.view(terms))

    @contextlib.contextmanager
    def _serving(self) -> Iterator[None]:
        if self._instructions.prometheus is None:
            yield
            return
        from gputel.analysis.live import prometheus

        self._exporter = prometheus.Exporter(self._instructions.prometheus)
        with contextlib.closing(self._exporter):
            yield

    def _is_over(self) -> bool:
        """Whether both have ended; a command outlives a recorder that was killed."""
        return has_ended(self._command) and has_ended(self._recorder)

    def _look(self, run_alarms: RunAlarms, view: View) -> None:
        """Checks rules and budget, and kills a command whose grace period is over."""
        self._act_on(run_alarms.look(view))
        active = [alarm.rule for alarm in run_alarms.active]
        if self._exporter is not None:
            self._exporter.show([(view, active)])
        if self._instructions.pushes:
            from gputel.analysis.live import prometheus

            state = TrainingState(prometheus.training_figures(view), active)
            training_state.write(Path(self._instructions.segment), state)
        limits = self._instructions
        if view.cost and limits.budget is not None and view.cost.spent >= limits.budget:
            spent, budget = text.money(view.cost.spent), text.money(limits.budget)
            self._stop("budget", f"{spent} spent of a budget of {budget}")
        if self._stopper is not None and self._stopper.look(time.monotonic()):
            self._write("stop", f"killed: still running {limits.grace_s:g} s after the stop signal")

    def _act_on(self, alarms: Sequence[Alarm]) -> None:
        """Logs alarms, and stops the command on those that the instructions name."""
        for alarm in alarms:
            is_new = self._alarm_log.is_new(alarm)
            if is_new and alarm.state == "on" and alarm.rule in self._instructions.stop_on:
                at = "" if alarm.step is None else f" at step {alarm.step}"
                self._stop(alarm.rule, f"{alarm.what}{at}: {alarm.text}")

    def _repeat_faults(self, update: Update) -> None:
        """Says how pushing goes: the process that pushes may outlive the reader of its lines, and says nothing."""
        for event in update.recorder_events if update.live else ():
            if event.get("kind") == events.PUSH:
                say(f"{event.get('text')}")

    def _stop(self, rule: str, why: str) -> None:
        why = mask(why)
        if self._stopper is not None and self._stopper.ask(time.monotonic()):
            self._write("stop", f"stopped: {why}", rule=rule)
            with contextlib.suppress(OSError, GputelError):
                run_folder.update(Path(self._instructions.segment), stopped={"rule": rule, "text": why})

    def _write(self, kind: str, words: str, **facts: object) -> None:
        """Writes an event to the segment, and a line to standard error."""
        segment = Path(self._instructions.segment)
        with contextlib.suppress(OSError):
            events.note(segment, kind, words, **facts)
        say(words)

    def _run_then(self) -> None:
        """Runs the `--then` command once the command has ended and the recorder has closed."""
        has_ended(self._command, None)
        has_ended(self._recorder, CLOSING_S)
        then = self._instructions.then
        if then:
            try:
                subprocess.run(then, stdin=subprocess.DEVNULL, stdout=2, check=False)
            except OSError as error:
                say(f"error: --then {then[0]}: {(error.strerror or str(error)).lower()}")


def _recording_began(segment: Path) -> float:
    """When the recording began, on the monotonic clock in seconds; our own start comes a second later."""
    with contextlib.suppress(GputelError, OSError):
        started = run_folder.describe(segment).get("started")
        if isinstance(started, dict) and isinstance(began := started.get("monotonic_ns"), int):
            return began / clock.SECOND
    return time.monotonic()


def limit_text(seconds: float) -> str:
    """A time limit as a person would type it: `3 s`, `1.5 s`, `1 d 07 h`."""
    return f"{seconds:g} s" if 1 <= seconds < 60 else text.duration(seconds)


def say(words: str) -> None:
    """Writes a line to standard error, over the recorder's status line if there is one."""
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{clear}gputel: {visible_line(words)}\n")
        sys.stderr.flush()


def main(instructions: str) -> None:
    """Runs the guard; `instructions` is the JSON that `Instructions.as_argv` made."""
    try:
        guard = Guard(Instructions(**json.loads(instructions)))
        guard.stop_at_limit()
        guard.run()
    except GputelError as error:
        say(f"error: {error}")


class Stopper:
    """Stops a command: TERM, then KILL. It holds pidfds, because the kernel reuses process numbers."""

    def __init__(self, command: int, recorder: int, grace_s: float) -> None:
        self._number, self._grace_s = command, grace_s
        self._command, self._recorder = open_process(command), open_process(recorder)
        self._asked_s: float | None = None
        self._asking = threading.Lock()
        self._killed = False

    @property
    def asked(self) -> bool:
        return self._asked_s is not None

    def ask(self, now_s: float) -> bool:
        """Sends TERM; returns False if it was sent before or the command has ended."""
        with self._asking:
            if self.asked or has_ended(self._command):
                return False
            self._asked_s = now_s
        _send(self._command if has_ended(self._recorder) else self._recorder, signal.SIGTERM)
        return True

    def look(self, now_s: float) -> bool:
        """Sends KILL once the grace period is over, and returns whether it did so now."""
        if self._asked_s is None or self._killed or now_s - self._asked_s < self._grace_s:
            return False
        self._killed = not has_ended(self._command)
        if self._killed:
            for child in [*descendants(self._number)]:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(child, signal.SIGKILL)
            _send(self._command, signal.SIGKILL)
        return self._killed


def descendants(number: int) -> Iterator[int]:
    """All descendants of a process, parents before their children."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            after_name = stat.read_text(errors="replace").rpartition(")")[2].split()
            children.setdefault(int(after_name[1]), []).append(int(stat.parent.name))
    waiting = [number]
    while waiting:
        next_generation = children.get(waiting.pop(0), [])
        yield from next_generation
        waiting += next_generation


def open_process(process: int) -> int | None:
    """A pidfd; None if the process is gone or the number is 0."""
    try:
        return os.pidfd_open(process)
    except OSError:
        return None


def has_ended(process: int | None, patience_s: float | None = 0) -> bool:
    """Whether a process ends within `patience_s`; with None it waits for the end."""
    return process is None or bool(select.select([process], [], [], patience_s)[0])


def _send(process: int | None, number: signal.Signals) -> None:
    if process is not None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, number)
