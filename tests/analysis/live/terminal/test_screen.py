"""The screen as lines of text: one run, several runs, every size."""

import pytest

from gputel.analysis.live.state import RunState
from gputel.analysis.live.terminal.screen import ViewOptions
from gputel.analysis.live.terminal.snapshots import RunSnapshot
from gputel.analysis.live.view import RunCost
from tests.analysis.live.terminal.scenes import NAN, d16_view, h100, screen_text, snapshot_of


def test_one_run_fills_eighty_columns_with_every_figure() -> None:
    cost = RunCost(5.0, 10.42, 37.08, 100.0, 2)
    drawn = screen_text(
        snapshot_of(
            RunSnapshot(d16_view(gpus=[h100(0), h100(1)], cost=cost, caution="SIMULATED: 2xH100"), [NAN])
        )
    )
    for expected in (
        " d16   running  base",
        "▲ 1 alarm",
        "SIMULATED: 2xH100",
        "step 250/1,000  ━━━━━━━━━━━━━━━━━━━━ 25.0 %",
        "510 ms/step",
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
        assert expected in drawn


@pytest.mark.parametrize("size", [(80, 24), (200, 50), (120, 30), (40, 12), (20, 5), (3, 2), (500, 100)])
@pytest.mark.parametrize("mode", ["overlaid", "beside", "one"])
@pytest.mark.parametrize("count", [0, 1, 2, 30])
def test_screen_has_exactly_the_size_of_the_terminal(size: tuple[int, int], mode: str, count: int) -> None:
    runs = [
        RunSnapshot(d16_view(f"run {n} 名前", gpus=[h100(n) for n in range(8)]), [NAN] * n, [NAN])
        for n in range(count)
    ]
    shown = snapshot_of(*runs, notes=["x.log: does not exist yet; waiting for it"])
    for options in (ViewOptions(mode, 7), ViewOptions(mode, events=True, log=True)):
        screen_text(shown, options, *size)


def test_columns_of_many_runs_never_touch() -> None:
    last = {"loss": 2.4179, "tok_per_sec": 12_747_626.0, "mfu": 47.1234}
    shown = snapshot_of(
        *(RunSnapshot(d16_view(f"d{n}", step=123_456, total_steps=1_000_000, last=last)) for n in range(3))
    )
    cells = " ".join(screen_text(shown).split())
    assert "d0 running 123,456/1,000,000 2.4179 12,747,626 47.1 5 h 20 min ●" in cells


def test_completed_run_has_a_full_bar() -> None:
    """Its last record is of step 999, as it counts from 0."""
    shown = snapshot_of(RunSnapshot(d16_view(status="completed", step=999)))
    assert "step 999/1,000  ━━━━━━━━━━━━━━━━━━━━ 100.0 %" in screen_text(shown)


def test_several_runs_are_overlaid_or_side_by_side() -> None:
    shown = snapshot_of(RunSnapshot(d16_view("d16")), RunSnapshot(d16_view("d20", step=99), [NAN]))
    overlaid = screen_text(shown)
    assert "status" in overlaid
    assert "▲ d20: NaN or infinite loss at step 812" in overlaid
    assert "loss  ● d16  ● d20" in overlaid
    beside = screen_text(shown, ViewOptions("beside")).splitlines()
    assert " d16 " in beside[0]
    assert " d20 " in beside[0]
    assert " d16 " not in screen_text(shown, ViewOptions("one", 1))


def test_names_that_differ_at_their_ends_stay_distinct() -> None:
    names = [f"nanochat-d20-lr-sweep-of-november-{at}" for at in range(3)]
    drawn = screen_text(snapshot_of(*(RunSnapshot(d16_view(name)) for name in names)))
    assert all(f"nanochat-d…november-{at} " in drawn for at in range(3))


def test_alarms_without_room_are_counted() -> None:
    drawn = screen_text(snapshot_of(*(RunSnapshot(d16_view(f"d{at}"), [NAN]) for at in range(30))))
    assert "▲ d2: NaN" in drawn
    assert "▲ 27 more" in drawn


def test_run_without_a_record_is_shown_with_dashes() -> None:
    drawn = screen_text(snapshot_of(RunSnapshot(RunState("new", "new.log").view())))
    assert "nothing to draw yet" in drawn
    assert "step -" in drawn


def test_control_characters_of_a_log_never_reach_the_terminal() -> None:
    event = {"kind": "traceback", "step": 3, "time": None, "text": "\x1b[2J\x07[bold]x\rY"}
    drawn = screen_text(
        snapshot_of(RunSnapshot(d16_view("a\x1b]0;b\x07", events=[event], cause="\x1b[2Jdead")))
    )
    assert not set("\x1b\x07\r") & set(drawn)
    assert "[bold]x" in drawn
