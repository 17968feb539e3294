"""The textual app: a thread follows the runs, the event loop draws changed lines in the 16 ANSI colors."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gputel.analysis.live.terminal import panes, screen
from gputel.analysis.live.terminal.screen import MODES, SHARES, ViewOptions
from gputel.analysis.live.terminal.snapshots import Snapshot
from gputel.analysis.live.terminal.text import in_ascii

Feed = Callable[[threading.Event], Iterator[Snapshot]]
READING_S = 0.25


class SnapshotReady(Message):
    """A new snapshot from the thread."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.snapshot = snapshot


class FeedFailed(Message):
    """The exception that ended the thread."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class OutputDriver(LinuxDriver):
    """Draws on standard output; textual's own driver uses standard error."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if sys.__stdout__ is not None:
            self._file = sys.__stdout__


class Canvas(Widget):
    """Lines of text; `drawn` counts the lines that were redrawn."""

    DEFAULT_CSS = "Canvas { width: 100%; height: 100%; background: ansi_default; }"
    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[Text] = []
        self.drawn = 0

    def show(self, lines: list[Text]) -> None:
        before, self.lines = self.lines, lines
        changed = [
            Region(0, y, self.size.width, 1)
            for y, text in enumerate(lines)
            if y >= len(before) or before[y].plain != text.plain or before[y].spans != text.spans
        ]
        self.drawn += len(changed)
        if changed:
            self.refresh(*changed)

    def render_line(self, y: int) -> Strip:
        if y >= len(self.lines):
            return Strip.blank(self.size.width)
        text = self.lines[y]
        return Strip(text.render(self.app.console), text.cell_len).adjust_cell_length(self.size.width)


class Terminal(App[bool]):
    """The app, whose value is True if an alarm ended it.

    A thread iterates over `feed`, which ends when the event passed to it is set.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = "Screen { background: ansi_default; color: ansi_default; overflow: hidden; }"
    BINDINGS = [  # noqa: RUF012 - textual's own way
        Binding("q,ctrl+c,ctrl+q", "quit", "quit", priority=True),
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("tab,right,down", "choose(1)", "next run", priority=True),  # not the next widget
        Binding("shift+tab,left,up", "choose(-1)", priority=True),
        Binding("v", "mode", "view"),
        Binding("m", "metric(1)", "metric"),
        Binding("M", "metric(-1)"),
        Binding("z", "zoom", "zoom"),
        Binding("l", "log", "log scale"),
        Binding("e", "events", "events"),
        Binding("ctrl+z", "suspend_process"),
    ]

    def __init__(
        self,
        feed: Feed,
        wake: Callable[[], None] = lambda: None,
        *,
        reading: Callable[[], str] = lambda: "",
        bell: bool = False,
        exit_on_alarm: bool = False,
        has_unicode: bool = True,
    ) -> None:
        super().__init__(driver_class=OutputDriver, ansi_color=True)
        self._feed, self._wake, self._reading = feed, wake, reading
        self._rings_bell, self._exits, self._has_unicode = bell, exit_on_alarm, has_unicode
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="gputel-tail", daemon=True)
        self.snapshot = Snapshot(datetime.now(timezone.utc), reading=reading())
        self.options = ViewOptions()
        self.canvas = Canvas()
        self.fault: BaseException | None = None

    def compose(self) -> ComposeResult:
        yield self.canvas

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            with contextlib.suppress(ValueError, RuntimeError):  # only a main thread hears signals
                loop.add_signal_handler(number, self.exit)
        self._first_reading = self.set_interval(READING_S, self._show_reading)
        self._thread.start()

    def _show_reading(self) -> None:
        self.snapshot = replace(self.snapshot, reading=self._reading())
        self._draw()

    def on_unmount(self) -> None:
        self._ending.set()
        self._wake()

    def wait(self) -> None:
        """Ends the thread and waits for it."""
        self._ending.set()
        self._wake()
        if self._thread.ident is not None:
            self._thread.join()

    def on_snapshot_ready(self, message: SnapshotReady) -> None:
        self._first_reading.stop()
        rings_before, self.snapshot = self.snapshot.rings, message.snapshot
        if self._rings_bell and self.snapshot.rings > rings_before:
            self.bell()
        self._draw()
        if self._exits and self.snapshot.alarmed:
            self.exit(True)

    def on_feed_failed(self, message: FeedFailed) -> None:
        self.fault = message.error
        self.exit()

    def on_resize(self, event: events.Resize) -> None:
        self.canvas.lines = []
        self._draw(event.size.width, event.size.height)

    def action_choose(self, by: int) -> None:
        self._change(chosen=self.options.chosen + by)

    def action_mode(self) -> None:
        self._change(mode=MODES[(MODES.index(self.options.mode) + 1) % len(MODES)])

    def action_metric(self, by: int) -> None:
        names = panes.metrics(self.snapshot.runs)
        if names:
            current = names.index(screen.metric(self.snapshot.runs, self.options))
            self._change(metric=names[(current + by) % len(names)])

    def action_zoom(self) -> None:
        self._change(share=SHARES[(SHARES.index(self.options.share) + 1) % len(SHARES)])

    def action_log(self) -> None:
        self._change(log=not self.options.log)

    def action_events(self) -> None:
        self._change(events=not self.options.events)

    def action_help(self) -> None:
        self._change(help=not self.options.help)

    def _change(self, **changes: object) -> None:
        self.options = replace(self.options, **changes)  # type: ignore[arg-type]
        self._draw()

    def _draw(self, width: int = 0, height: int = 0) -> None:
        width, height = width or self.size.width, height or self.size.height
        if width > 0 and height > 0:
            lines = screen.screen(self.snapshot, self.options, width, height, self._keys())
            self.canvas.show(lines if self._has_unicode else [in_ascii(line) for line in lines])

    def _keys(self) -> list[tuple[str, str]]:
        """Keys and their names, without those that need several runs if there is only one."""
        several, shown = len(self.snapshot.runs) > 1, []
        for binding in self.BINDINGS:
            assert isinstance(binding, Binding)
            if binding.description and (several or binding.action not in ("choose(1)", "mode")):
                shown.append((binding.key_display or binding.key.partition(",")[0], binding.description))
        return shown

    def _follow(self) -> None:
        try:
            for snapshot in self._feed(self._ending):
                self.post_message(SnapshotReady(snapshot))
        except BaseException as error:  # re-raised where the view was started
            self.post_message(FeedFailed(error))
