"""The process beside a recording: judges the run, stops the command if that was asked for, serves what is known.

It reads the run folder from outside, at the lowest priority, so that whatever becomes of it neither recorder nor
command notice. It lives until both have ended, and then runs what was to come after.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gputel.analysis import text
from gputel.analysis.alarms import rules
from gputel.analysis.live.follow import Follower
from gputel.analysis.live.judging import Judge
from gputel.analysis.live.orders import Orders
from gputel.analysis.live.stop import Stopper, has_ended, held
from gputel.analysis.live.told import Told
from gputel.analysis.live.view import Terms
from gputel.telemetry import clock, events, run
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.alarms.watch import Alarm
    from gputel.analysis.live.exporter import Exporter
    from gputel.analysis.live.update import Update
    from gputel.analysis.live.view import View

LAST_WORD_S = 600.0  # that the recorder may take to close


class Attendant:
    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._began = time.monotonic()
        self._rules = rules.load(rules.presets(), orders.alarms)
        self._command, self._recorder = held(orders.command), held(orders.recorder)
        self._stopper = Stopper(orders.command, orders.recorder, orders.grace_s) if orders.command else None
        self._exporter: Exporter | None = None
        self._told = Told(Path(orders.segment))
        self._judge: Judge | None = None

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
            self._judge = self._judge or Judge(followed, self._rules)
            for update in updates:
                self._hear(self._judge.take(update))
            self._look(self._judge, followed.state.view(Terms(self._orders.price, self._orders.budget)))

    @contextlib.contextmanager
    def _serving(self) -> Iterator[None]:
        if self._orders.prometheus is None:
            yield
            return
        from gputel.analysis.live import exporter

        self._exporter = exporter.Exporter(self._orders.prometheus)
        with contextlib.closing(self._exporter):
            yield

    def _is_over(self) -> bool:
        """A recorder that was killed leaves a command that goes on."""
        return has_ended(self._command) and has_ended(self._recorder)

    def _look(self, judge: Judge, view: View) -> None:
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
                run.update(Path(self._orders.segment), stopped={"rule": rule, "text": why})

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
        Attendant(Orders(**json.loads(orders))).attend()
    except GputelError as error:
        say(f"error: {error}")
