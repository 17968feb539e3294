"""The process beside a recording: judges the run, stops the command if that was asked for, serves what is known.

It reads the run folder from outside, at the lowest priority, so that whatever becomes of it neither recorder nor
command notice. It lives until both have ended, and then runs what was to come after.

Stops a command because somebody asked for it beforehand: TERM once, and KILL after a grace.

TERM goes to the recorder, which hands it on exactly once, as it does with anybody's `kill`; to the command itself
where the recorder is gone. KILL goes to the command and all that came of it.

What is to be done beside a recording, as the command line orders it and `attend.py` carries it out.

It loads nothing heavy: who gives the orders is the recorder, which must stay without threads.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputel.analysis import text
from gputel.analysis.alarms import rules
from gputel.analysis.live.alarms import AlarmLog, RunAlarms
from gputel.analysis.live.follower import Follower
from gputel.analysis.live.view import Terms
from gputel.telemetry import clock, events, run_folder
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.alarms.watch import Alarm
    from gputel.analysis.live.prometheus import Exporter
    from gputel.analysis.live.update import Update
    from gputel.analysis.live.view import View

LAST_WORD_S = 600.0  # that the recorder may take to close


class Guard:
    def __init__(self, orders: Instructions) -> None:
        self._orders = orders
        self._began = time.monotonic()
        self._rules = rules.load(rules.presets(), orders.alarms)
        self._command, self._recorder = held(orders.command), held(orders.recorder)
        self._stopper = Stopper(orders.command, orders.recorder, orders.grace_s) if orders.command else None
        self._exporter: Exporter | None = None
        self._told = AlarmLog(Path(orders.segment))
        self._judge: RunAlarms | None = None

    def attend(self) -> None:
        """Until command and recorder have ended; what was printed last, or before we were there, is judged too."""
        with contextlib.closing(Follower([self._orders.run])) as follower, self._serving():
            for updates in follower.updates(self._is_over):
                self._take(follower, updates)
            while updates := follower.read():
                self._take(follower, updates)
        self._afterwards()

    def _take(self, follower: Follower, updates: Sequence[Update]) -> None:
        for followed in follower.runs:
            self._judge = self._judge or RunAlarms(followed, self._rules)
            for update in updates:
                self._hear(self._judge.take(update))
            self._look(self._judge, followed.state.view(Terms(self._orders.price, self._orders.budget)))

    @contextlib.contextmanager
    def _serving(self) -> Iterator[None]:
        if self._orders.prometheus is None:
            yield
            return
        from gputel.analysis.live import prometheus

        self._exporter = prometheus.Exporter(self._orders.prometheus)
        with contextlib.closing(self._exporter):
            yield

    def _is_over(self) -> bool:
        """A recorder that was killed leaves a command that goes on."""
        return has_ended(self._command) and has_ended(self._recorder)

    def _look(self, judge: RunAlarms, view: View) -> None:
        self._hear(judge.look(view))
        if self._exporter is not None:
            self._exporter.show([(view, [alarm.rule for alarm in judge.active])])
        orders, now = self._orders, time.monotonic()
        if orders.stop_after_s is not None and now - self._began >= orders.stop_after_s:
            self._stop("time", f"{text.duration(orders.stop_after_s)} are over")
        if view.cost and orders.budget is not None and view.cost.spent >= orders.budget:
            spent, allowed = text.money(view.cost.spent), text.money(orders.budget)
            self._stop("budget", f"{spent} are spent, and {allowed} were allowed")
        if self._stopper is not None and self._stopper.look(now):
            self._write("stop", f"killed, for it had not ended {orders.grace_s:g} s after it was asked to")

    def _hear(self, alarms: Sequence[Alarm]) -> None:
        for alarm in alarms:
            if self._told.is_new(alarm) and alarm.state == "on" and alarm.rule in self._orders.stop_on:
                at = "" if alarm.step is None else f" at step {alarm.step}"
                self._stop(alarm.rule, f"{alarm.what}{at}: {alarm.text}")

    def _stop(self, rule: str, why: str) -> None:
        if self._stopper is not None and self._stopper.ask(time.monotonic()):
            self._write("stop", f"stopped: {why}", rule=rule)
            with contextlib.suppress(OSError, GputelError):
                run_folder.update(Path(self._orders.segment), stopped={"rule": rule, "text": why})

    def _write(self, kind: str, words: str, **facts: object) -> None:
        with contextlib.suppress(OSError):
            events.append(Path(self._orders.segment), clock.SystemClock().stamp().wall, kind, words, **facts)
        say(words)

    def _afterwards(self) -> None:
        """What comes after the run, once the command has ended and the recorder has closed."""
        has_ended(self._command, None)
        has_ended(self._recorder, LAST_WORD_S)
        if self._orders.then:
            try:
                subprocess.run(self._orders.then, stdin=subprocess.DEVNULL, stdout=2, check=False)
            except OSError as error:
                say(f"error: --then {self._orders.then[0]}: {(error.strerror or str(error)).lower()}")


def say(words: str) -> None:
    """A line of its own, also where the recorder draws its status line."""
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{clear}gputel: {words}\n")
        sys.stderr.flush()


def main(orders: str) -> None:
    with contextlib.suppress(OSError):
        os.nice(19)
    try:
        Guard(Instructions(**json.loads(orders))).attend()
    except GputelError as error:
        say(f"error: {error}")


class Stopper:
    """Takes the numbers of both while they surely live, and holds on to them: numbers are given again."""

    def __init__(self, command: int, recorder: int, grace_s: float) -> None:
        self._number, self._grace_s = command, grace_s
        self._command, self._recorder = held(command), held(recorder)
        self._asked_s: float | None = None
        self._killed = False

    @property
    def asked(self) -> bool:
        return self._asked_s is not None

    def ask(self, now_s: float) -> bool:
        """TERM, the first time; False where it was sent before or nothing is left to stop."""
        if self.asked or has_ended(self._command):
            return False
        self._asked_s = now_s
        _send(self._command if has_ended(self._recorder) else self._recorder, signal.SIGTERM)
        return True

    def look(self, now_s: float) -> bool:
        """KILL once the grace is over; True when that was done now. Called about once a second."""
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
    """Children first, each before its own."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            after_name = stat.read_text(errors="replace").rpartition(")")[2].split()
            children.setdefault(int(after_name[1]), []).append(int(stat.parent.name))
    waiting = [number]
    while waiting:
        own = children.get(waiting.pop(0), [])
        yield from own
        waiting += own


def held(process: int) -> int | None:
    """0 is no process."""
    try:
        return os.pidfd_open(process)
    except OSError:
        return None


def has_ended(process: int | None, patience_s: float | None = 0) -> bool:
    """Now, or within so many seconds; None waits for it."""
    return process is None or bool(select.select([process], [], [], patience_s)[0])


def _send(process: int | None, number: signal.Signals) -> None:
    if process is not None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, number)


START = "import sys; del sys.path[0]; from gputel.analysis.live.guard import main; main(sys.argv[1])"
"""Without the user's folder on the path, in which any of our modules' names may stand."""


@dataclass(frozen=True)
class Instructions:
    """`command` and `recorder` are processes, 0 is none."""

    run: str = ""
    segment: str = ""
    command: int = 0
    recorder: int = 0
    stop_on: list[str] = field(default_factory=list)
    stop_after_s: float | None = None
    budget: float | None = None
    price: float | None = None
    grace_s: float = 600.0
    then: list[str] = field(default_factory=list)
    prometheus: str | None = None
    alarms: dict[str, dict[str, Any]] = field(default_factory=dict)

    def as_argv(self) -> list[str]:
        return [sys.executable, "-c", START, json.dumps(asdict(self))]
