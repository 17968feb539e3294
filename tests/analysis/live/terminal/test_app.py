"""The textual app, used through its keys."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from queue import SimpleQueue
from threading import Event
from typing import Any

import pytest
from textual.pilot import Pilot

from gputel.analysis.live.terminal.app import Terminal
from gputel.analysis.live.terminal.screen import ViewOptions
from gputel.analysis.live.terminal.snapshots import RunSnapshot, Snapshot
from tests.analysis.live.terminal.scenes import NAN, d16_view, h100, snapshot_of


class QueueFeed:
    """Yields the snapshots that a test puts into its queue."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[Snapshot | None] = SimpleQueue()

    def __call__(self, ending: Event) -> Iterator[Snapshot]:
        while (snapshot := self.queue.get()) is not None:
            yield snapshot


def use_terminal(
    use: Callable[[Terminal, QueueFeed, Pilot[bool]], Awaitable[None]], **options: Any
) -> Terminal:
    """Runs a terminal of 80 by 24 with the steps of `use`, and returns it."""
    feed = QueueFeed()
    terminal = Terminal(feed, lambda: feed.queue.put(None), **options)

    async def run() -> None:
        async with terminal.run_test(size=(80, 24)) as pilot:
            await use(terminal, feed, pilot)

    asyncio.run(run())
    terminal.wait()
    return terminal


async def until(pilot: Pilot[bool], holds: Callable[[], bool]) -> None:
    while not holds():
        await pilot.pause(0.01)


def on_screen(terminal: Terminal) -> str:
    return "\n".join(text.plain for text in terminal.canvas.lines)


def test_first_reading_is_shown_until_there_is_a_run() -> None:
    """Reading many logs takes a while, in which an empty screen would look as if nothing were found."""

    async def use(terminal: Terminal, feed: QueueFeed, pilot: Pilot[bool]) -> None:
        await until(pilot, lambda: "reading runs: 12 of 300, 8 s left" in on_screen(terminal))
        feed.queue.put(snapshot_of(RunSnapshot(d16_view())))
        await until(pilot, lambda: "step 250" in on_screen(terminal))
        assert "reading runs" not in on_screen(terminal)

    use_terminal(use, reading=lambda: "reading runs: 12 of 300, 8 s left")


def test_alarm_appears_and_is_over() -> None:
    async def use(terminal: Terminal, feed: QueueFeed, pilot: Pilot[bool]) -> None:
        feed.queue.put(snapshot_of(RunSnapshot(d16_view(), [NAN], [NAN]), alarmed=True, rings=1))
        await until(pilot, lambda: "▲ 1 alarm" in on_screen(terminal))
        feed.queue.put(snapshot_of(RunSnapshot(d16_view(), [], [NAN, replace(NAN, state="off")])))
        await until(pilot, lambda: "no alarms" in on_screen(terminal))
        assert "✓ over: NaN" in on_screen(terminal)

    use_terminal(use)


def test_only_changed_lines_are_drawn() -> None:
    async def use(terminal: Terminal, feed: QueueFeed, pilot: Pilot[bool]) -> None:
        feed.queue.put(snapshot_of(RunSnapshot(d16_view())))
        await until(pilot, lambda: "step 250" in on_screen(terminal))
        drawn = terminal.canvas.drawn
        feed.queue.put(snapshot_of(RunSnapshot(d16_view(step=251))))
        await until(pilot, lambda: "step 251" in on_screen(terminal))
        assert terminal.canvas.drawn == drawn + 1
        feed.queue.put(snapshot_of(RunSnapshot(d16_view(step=251))))
        feed.queue.put(snapshot_of(RunSnapshot(d16_view(step=252))))
        await until(pilot, lambda: "step 252" in on_screen(terminal))
        assert terminal.canvas.drawn == drawn + 2

    use_terminal(use)


def test_keys_choose_what_is_shown() -> None:
    async def use(terminal: Terminal, feed: QueueFeed, pilot: Pilot[bool]) -> None:
        feed.queue.put(snapshot_of(RunSnapshot(d16_view("d16")), RunSnapshot(d16_view("d20"))))
        await until(pilot, lambda: "status" in on_screen(terminal))
        for key, expected in (
            ("m", "tok/s  ● d16  ● d20"),
            ("l", ", log"),
            ("z", "steps 187 to 249, log"),
            ("M", "loss  ● d16  ● d20"),
            ("v", "no alarms"),
            ("v", " d16 "),
            ("tab", " d20 "),
            ("e", " d20 "),
        ):
            await pilot.press(key)
            await until(pilot, lambda expected=expected: expected in on_screen(terminal))  # type: ignore[misc]
        assert terminal.options == ViewOptions("one", 1, "loss", 0.25, True, True)

    use_terminal(use)


def test_keys_without_effect_are_not_shown() -> None:
    async def use(terminal: Terminal, feed: QueueFeed, pilot: Pilot[bool]) -> None:
        feed.queue.put(snapshot_of(RunSnapshot(d16_view())))
        await until(pilot, lambda: "step 250" in on_screen(terminal))
        last = on_screen(terminal).splitlines()[-1]
        assert last.rstrip() == " q  quit   ?  help   m  metric   z  zoom   l  log scale   e  events"

    use_terminal(use)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_q_and_ctrl_c_end_the_view(key: str) -> None:
    async def use(terminal: Terminal, feed: QueueFeed, pilot: Pilot[bool]) -> None:
        feed.queue.put(snapshot_of(RunSnapshot(d16_view())))
        await until(pilot, lambda: "step 250" in on_screen(terminal))
        await pilot.press(key)

    assert use_terminal(use).return_value is None


def test_view_says_that_an_alarm_ended_it_if_asked() -> None:
    async def use(terminal: Terminal, feed: QueueFeed, pilot: Pilot[bool]) -> None:
        feed.queue.put(snapshot_of(RunSnapshot(d16_view(), [NAN]), alarmed=True))
        await until(pilot, lambda: terminal.return_value is not None)

    assert use_terminal(use, exit_on_alarm=True).return_value is True


def test_bell_rings_once_per_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[bool] = []
    monkeypatch.setattr(Terminal, "bell", lambda _: rung.append(True))

    async def use(terminal: Terminal, feed: QueueFeed, pilot: Pilot[bool]) -> None:
        for step in (1, 2, 3):
            feed.queue.put(snapshot_of(RunSnapshot(d16_view(step=step), [NAN]), rings=1))
        await until(pilot, lambda: "step 3/" in on_screen(terminal))

    use_terminal(use, bell=True)
    assert rung == [True]


def test_error_while_following_ends_the_view_and_is_passed_on() -> None:
    def fails(ending: Event) -> Iterator[Snapshot]:
        yield snapshot_of()
        raise OSError("gone")

    async def run() -> None:
        async with terminal.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: terminal.fault is not None)

    terminal = Terminal(fails)
    asyncio.run(run())
    terminal.wait()
    assert str(terminal.fault) == "gone"


def test_question_mark_shows_the_keys_and_hides_them_again() -> None:
    async def use(terminal: Terminal, feed: QueueFeed, pilot: Pilot[bool]) -> None:
        feed.queue.put(snapshot_of(RunSnapshot(d16_view())))
        await until(pilot, lambda: "step 250" in on_screen(terminal))
        await pilot.press("question_mark")
        await until(pilot, lambda: "draw the next metric" in on_screen(terminal))
        assert "step 250" not in on_screen(terminal)
        await pilot.press("question_mark")
        await until(pilot, lambda: "step 250" in on_screen(terminal))

    use_terminal(use)


def test_terminal_without_unicode_shows_ascii() -> None:
    async def use(terminal: Terminal, feed: QueueFeed, pilot: Pilot[bool]) -> None:
        feed.queue.put(snapshot_of(RunSnapshot(d16_view("名前", gpus=[h100(0)]), [NAN])))
        await until(pilot, lambda: "step 250" in on_screen(terminal))
        assert on_screen(terminal).isascii()
        assert {line.cell_len for line in terminal.canvas.lines} == {80}
        assert "! NaN or infinite loss" in on_screen(terminal)

    use_terminal(use, has_unicode=False)
