"""The terminal view as it stands on the screen, and what its keys do."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from typing import Any

import numpy as np
import pytest
from textual.pilot import Pilot

from gputel.analysis.alarms import rules
from gputel.analysis.alarms.watch import Alarm
from gputel.analysis.live.follower import Follower
from gputel.analysis.live.log_state import UpcomingEvent
from gputel.analysis.live.series import CurveHistory, Points
from gputel.analysis.live.session import Session
from gputel.analysis.live.state import RunState
from gputel.analysis.live.terminal.app import Terminal
from gputel.analysis.live.terminal.screen import ViewOptions, screen
from gputel.analysis.live.terminal.snapshots import RunSnapshot, Snapshot, snapshots
from gputel.analysis.live.view import GpuView, RunCost, View

AT = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
NAN = Alarm("nan", "NaN or infinite loss", "on", "loss", "loss is NaN", 812, None)
Use = Callable[[Pilot[int]], Awaitable[None]]


def points(values: list[float], every: int = 1) -> Points:
    curve = CurveHistory()
    curve.add(np.arange(0.0, every * len(values), every), np.array(values))
    return curve.points()


def view(name: str = "d16", **facts: Any) -> View:
    known: dict[str, Any] = {
        "status": "running",
        "phase": "base",
        "step": 250,
        "total_steps": 1000,
        "last": {"loss": 2.4179, "tok_per_sec": 512_340.0, "mfu": 50.77, "grad_norm": 0.41},
        "curves": {
            "loss": points([10 / (1 + step / 50) for step in range(250)]),
            **{
                metric: points([1.0 + step % 7 for step in range(250)])
                for metric in ("tok_per_sec", "mfu", "grad_norm")
            },
        },
        "evals": {"val_loss": points([3.0, 2.6, 2.5], 100)},
        "seconds_a_step": 0.51,
        "elapsed_s": 7500.0,
        "eta_s": 19_200.0,
        "upcoming": [
            UpcomingEvent("checkpoint", 300, AT + timedelta(seconds=30)),
            UpcomingEvent("end", 1000, AT + timedelta(days=1)),
        ],
    }
    return replace(RunState(name, name).view(), **{**known, **facts})


def gpu(index: int) -> GpuView:
    last = {"power_w_mean": 640.0, "temp_c_max": 64.0, "util_mean": 98.0, "mem_used_mib_max": 72_704.0}
    strips = {name: [value] * 60 for name, value in last.items()}
    limits = {"power_w": 700.0, "memory_total_mib": 81_559.0}
    return GpuView(str(index), "", "box", None, "H100", AT, last, strips, limits)


def text(snapshot: Snapshot, options: ViewOptions | None = None, width: int = 80, height: int = 24) -> str:
    lines = screen(snapshot, options or ViewOptions(), width, height, [("q", "quit")])
    assert [one.cell_len for one in lines] == [width] * height
    return "\n".join(one.plain.rstrip() for one in lines)


def snapshot(*shown: RunSnapshot, **facts: Any) -> Snapshot:
    return Snapshot(AT, shown, **facts)


def test_eighty_columns_hold_everything_that_is_known_of_a_run() -> None:
    cost = RunCost(5.0, 10.42, 37.08, 100.0)
    said = text(
        snapshot(RunSnapshot(view(gpus=[gpu(0), gpu(1)], cost=cost, caution="SIMULATED: 2xH100"), [NAN]))
    )
    for expected in (
        " d16   running  base",
        "▲ 1 alarm",
        "SIMULATED: 2xH100",
        "step 250/1,000  ━━━━━━━━━━━━━━━━━━━━ 25.0 %",
        "510 ms a step",
        "elapsed 2 h 05 min",
        "ETA 5 h 20 min",
        "cost $10.42 of $100.00, $37.08 at the end",
        "loss 2.4179  val_loss 2.5000  tok/s 512,340  MFU 50.770  grad norm 0.4100",
        "● loss  ● val_loss",
        "steps 0 to 249",
        "gpu power",
        "640 W",
        "64 °C",
        "98 %",
        "71 GiB",
        "next  checkpoint 300",
        "end 1,000",
        "▲ NaN or infinite loss at step 812: loss is NaN",
        " q  quit",
    ):
        assert expected in said


def test_what_comes_on_another_day_says_which() -> None:
    said = text(snapshot(RunSnapshot(view())))
    tomorrow = (AT + timedelta(days=1)).astimezone()
    assert f"end 1,000 {tomorrow:%a %d %b %H:%M}" in said


def test_an_alarm_that_is_over_is_said_to_be() -> None:
    over = replace(NAN, state="off", step=820, text="loss is 2.4")
    said = text(snapshot(RunSnapshot(view(), [], [NAN, over])))
    assert "no alarms" in said
    assert "✓ over: NaN or infinite loss at step 820: loss is 2.4" in said


@pytest.mark.parametrize("size", [(80, 24), (200, 50), (120, 30), (40, 12), (20, 5), (3, 2), (500, 100)])
@pytest.mark.parametrize("mode", ["overlaid", "beside", "one"])
@pytest.mark.parametrize("count", [0, 1, 2, 30])
def test_every_size_is_filled_and_none_is_exceeded(size: tuple[int, int], mode: str, count: int) -> None:
    runs = [
        RunSnapshot(view(f"run {n} 名前", gpus=[gpu(n) for n in range(8)]), [NAN] * n, [NAN])
        for n in range(count)
    ]
    shown = snapshot(*runs, notes=["x.log: does not exist yet; waiting for it"])
    for options in (ViewOptions(mode, 7), ViewOptions(mode, events=True, log=True)):
        text(shown, options, *size)


def test_many_gpus_are_told_in_few_words_and_none_is_left_out_silently() -> None:
    said = text(snapshot(RunSnapshot(view(gpus=[gpu(n) for n in range(8)]))))
    assert said.count("64°C") == 8 or "GPUs" in said
    assert "+" in text(snapshot(RunSnapshot(view(gpus=[gpu(n) for n in range(64)]))))


def test_several_runs_lie_over_one_another_or_stand_side_by_side() -> None:
    shown = snapshot(RunSnapshot(view("d16")), RunSnapshot(view("d20", step=99), [NAN]))
    overlaid = text(shown)
    assert "status" in overlaid
    assert "▲ d20: NaN or infinite loss at step 812" in overlaid
    assert "loss  ● d16  ● d20" in overlaid
    beside = text(shown, ViewOptions("beside")).splitlines()
    assert " d16 " in beside[0]
    assert " d20 " in beside[0]
    assert " d16 " not in text(shown, ViewOptions("one", 1))


def test_names_that_differ_at_their_ends_can_be_told_apart() -> None:
    names = [f"nanochat-d20-lr-sweep-of-november-{at}" for at in range(3)]
    said = text(snapshot(*(RunSnapshot(view(name)) for name in names)))
    assert all(f"nanochat-d…november-{at} " in said for at in range(3))


def test_alarms_of_many_runs_that_have_no_room_are_counted() -> None:
    said = text(snapshot(*(RunSnapshot(view(f"d{at}"), [NAN]) for at in range(30))))
    assert "▲ d2: NaN" in said
    assert "▲ 27 more" in said


def test_events_that_say_the_same_are_one_line() -> None:
    stop = {"kind": "stop", "step": 4, "time": None, "text": "SIGTERM, exiting"}
    said = text(snapshot(RunSnapshot(view(events=[{**stop, "step": 3, "text": "asked"}, stop, stop, stop]))))
    assert "step 3  stop asked" in said
    assert "step 4  stop ×3 SIGTERM, exiting" in said
    assert said.count("SIGTERM") == 1


def test_a_record_of_another_day_says_which() -> None:
    yesterday = (AT - timedelta(days=1)).astimezone()
    said = text(snapshot(RunSnapshot(view(silent_s=86_400.0))))
    assert f"last record {yesterday:%a %d %b %H:%M}" in said


def test_what_a_log_says_is_no_order_to_the_terminal() -> None:
    event = {"kind": "traceback", "step": 3, "time": None, "text": "\x1b[2J\x07[bold]x\rY"}
    said = text(snapshot(RunSnapshot(view("a\x1b]0;b\x07", events=[event], cause="\x1b[2Jdead"))))
    assert not set("\x1b\x07\r") & set(said)
    assert "[bold]x" in said


def test_a_run_of_which_nothing_is_known_yet_can_be_shown() -> None:
    said = text(snapshot(RunSnapshot(RunState("new", "new.log").view())))
    assert "nothing to draw yet" in said
    assert "step -" in said


def test_a_loss_that_is_no_number_is_said() -> None:
    assert "loss nan" in text(snapshot(RunSnapshot(view(last={"loss": math.nan}))))


class Fed:
    """Pictures as a test hands them over."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[Snapshot | None] = SimpleQueue()

    def __call__(self, ending: Event) -> Iterator[Snapshot]:
        while (one := self.queue.get()) is not None:
            yield one


def used(use: Callable[[Terminal, Fed, Pilot[int]], Awaitable[None]], **options: Any) -> Terminal:
    """A terminal of 80 by 24 that `use` has used."""
    fed = Fed()
    terminal = Terminal(fed, lambda: fed.queue.put(None), **options)

    async def run() -> None:
        async with terminal.run_test(size=(80, 24)) as pilot:
            await use(terminal, fed, pilot)

    asyncio.run(run())
    terminal.wait()
    return terminal


async def until(pilot: Pilot[int], holds: Callable[[], bool]) -> None:
    while not holds():
        await pilot.pause(0.01)


def on_screen(terminal: Terminal) -> str:
    return "\n".join(text.plain for text in terminal.canvas.lines)


def test_an_alarm_shows_and_recovers() -> None:
    async def use(terminal: Terminal, fed: Fed, pilot: Pilot[int]) -> None:
        fed.queue.put(snapshot(RunSnapshot(view(), [NAN], [NAN]), alarmed=True, rings=1))
        await until(pilot, lambda: "▲ 1 alarm" in on_screen(terminal))
        fed.queue.put(snapshot(RunSnapshot(view(), [], [NAN, replace(NAN, state="off")])))
        await until(pilot, lambda: "no alarms" in on_screen(terminal))
        assert "✓ over: NaN" in on_screen(terminal)

    used(use)


def test_only_lines_that_changed_are_drawn() -> None:
    async def use(terminal: Terminal, fed: Fed, pilot: Pilot[int]) -> None:
        fed.queue.put(snapshot(RunSnapshot(view())))
        await until(pilot, lambda: "step 250" in on_screen(terminal))
        drawn = terminal.canvas.drawn
        fed.queue.put(snapshot(RunSnapshot(view(step=251))))
        await until(pilot, lambda: "step 251" in on_screen(terminal))
        assert terminal.canvas.drawn == drawn + 1
        fed.queue.put(snapshot(RunSnapshot(view(step=251))))
        fed.queue.put(snapshot(RunSnapshot(view(step=252))))
        await until(pilot, lambda: "step 252" in on_screen(terminal))
        assert terminal.canvas.drawn == drawn + 2

    used(use)


def test_keys_choose_what_is_shown() -> None:
    async def use(terminal: Terminal, fed: Fed, pilot: Pilot[int]) -> None:
        fed.queue.put(snapshot(RunSnapshot(view("d16")), RunSnapshot(view("d20"))))
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

    used(use)


def test_keys_that_would_do_nothing_are_not_shown() -> None:
    async def use(terminal: Terminal, fed: Fed, pilot: Pilot[int]) -> None:
        fed.queue.put(snapshot(RunSnapshot(view())))
        await until(pilot, lambda: "step 250" in on_screen(terminal))
        last = on_screen(terminal).splitlines()[-1]
        assert last.rstrip() == " q  quit   m  metric   z  zoom   l  log scale   e  events"

    used(use)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_q_ends_the_view(key: str) -> None:
    async def use(terminal: Terminal, fed: Fed, pilot: Pilot[int]) -> None:
        fed.queue.put(snapshot(RunSnapshot(view())))
        await until(pilot, lambda: "step 250" in on_screen(terminal))
        await pilot.press(key)

    assert used(use).return_value is None


def test_exit_on_alarm_ends_with_4() -> None:
    async def use(terminal: Terminal, fed: Fed, pilot: Pilot[int]) -> None:
        fed.queue.put(snapshot(RunSnapshot(view(), [NAN]), alarmed=True))
        await until(pilot, lambda: terminal.return_value is not None)

    assert used(use, exit_on_alarm=True).return_value == 4


def test_the_bell_rings_once_for_an_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[bool] = []
    monkeypatch.setattr(Terminal, "bell", lambda _: rung.append(True))

    async def use(terminal: Terminal, fed: Fed, pilot: Pilot[int]) -> None:
        for step in (1, 2, 3):
            fed.queue.put(snapshot(RunSnapshot(view(step=step), [NAN]), rings=1))
        await until(pilot, lambda: "step 3/" in on_screen(terminal))

    used(use, bell=True)
    assert rung == [True]


def test_what_goes_wrong_while_following_ends_the_view_and_is_handed_on() -> None:
    def fails(ending: Event) -> Iterator[Snapshot]:
        yield snapshot()
        raise OSError("gone")

    async def run() -> None:
        async with terminal.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: terminal.fault is not None)

    terminal = Terminal(fails)
    asyncio.run(run())
    terminal.wait()
    assert str(terminal.fault) == "gone"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    log = tmp_path / "d16.log"
    log.write_text("".join(f"step {step} | loss: 3.0 | dt: 9.00ms\n" for step in range(5)))
    following = Session(Follower([str(log)]), rules.load())
    yield following
    following.follower.close()


class Ending(Event):
    """Ends after so many turns, and never waits."""

    def __init__(self, turns: int) -> None:
        super().__init__()
        self._left = turns

    def is_set(self) -> bool:
        self._left -= 1
        return self._left < 0

    def wait(self, timeout: float | None = None) -> bool:
        return False


@pytest.mark.long
def test_nothing_is_pictured_while_nothing_changes(session: Session) -> None:
    clock = iter(range(1000))
    found = list(snapshots(session, [], Ending(5), lambda: next(clock)))
    assert [shown.view.step for one in found for shown in one.runs] in ([4], [3, 4], [4, 4])


@pytest.mark.long
def test_at_most_four_pictures_are_made_in_a_second_and_the_last_state_is_among_them(
    session: Session,
) -> None:
    found = list(snapshots(session, [], Ending(5), lambda: 0.0))
    assert len(found) <= 2
    assert found[-1].runs[0].view.step == 4


def test_trouble_with_those_who_are_to_be_told_is_shown(session: Session) -> None:
    *_, last = snapshots(session, ["webhook at there: 'nan' was not delivered"], Ending(2))
    assert "was not delivered" in text(last)
