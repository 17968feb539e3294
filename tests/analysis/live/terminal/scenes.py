"""Views of runs with chosen figures, and the text of the screen that shows them."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np

from gputel.analysis.alarms.watch import Alarm
from gputel.analysis.live.log_state import UpcomingEvent
from gputel.analysis.live.series import CurveHistory, Points
from gputel.analysis.live.state import RunState
from gputel.analysis.live.terminal.screen import ViewOptions, screen
from gputel.analysis.live.terminal.snapshots import RunSnapshot, Snapshot
from gputel.analysis.live.view import GpuView, View

AT = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
NAN = Alarm("nan", "NaN or infinite loss", "on", "loss", "loss is NaN", 812, None)


def curve_points(values: list[float], every: int = 1) -> Points:
    curve = CurveHistory()
    curve.add(np.arange(0.0, every * len(values), every), np.array(values))
    return curve.points()


def d16_view(name: str = "d16", **facts: Any) -> View:
    facts_of_d16: dict[str, Any] = {
        "status": "running",
        "phase": "base",
        "step": 250,
        "total_steps": 1000,
        "last": {"loss": 2.4179, "tok_per_sec": 512_340.0, "mfu": 50.77, "grad_norm": 0.41},
        "curves": {
            "loss": curve_points([10 / (1 + step / 50) for step in range(250)]),
            **{
                metric: curve_points([1.0 + step % 7 for step in range(250)])
                for metric in ("tok_per_sec", "mfu", "grad_norm")
            },
        },
        "evals": {"val_loss": curve_points([3.0, 2.6, 2.5], 100)},
        "seconds_a_step": 0.51,
        "elapsed_s": 7500.0,
        "eta_s": 19_200.0,
        "upcoming": [
            UpcomingEvent("checkpoint", 300, AT + timedelta(seconds=30)),
            UpcomingEvent("end", 1000, AT + timedelta(days=1)),
        ],
    }
    return replace(RunState(name, name).view(), **{**facts_of_d16, **facts})


def h100(index: int) -> GpuView:
    last = {"power_w_mean": 640.0, "temp_c_max": 64.0, "util_mean": 98.0, "mem_used_mib_max": 72_704.0}
    strips = {name: [value] * 60 for name, value in last.items()}
    limits = {"power_w": 700.0, "memory_total_mib": 81_559.0}
    return GpuView(str(index), "", "box", None, "H100", AT, last, strips, limits)


def snapshot_of(*shown: RunSnapshot, **facts: Any) -> Snapshot:
    return Snapshot(AT, shown, **facts)


def screen_text(
    snapshot: Snapshot, options: ViewOptions | None = None, width: int = 80, height: int = 24
) -> str:
    lines = screen(snapshot, options or ViewOptions(), width, height, [("q", "quit")])
    assert [each.cell_len for each in lines] == [width] * height
    return "\n".join(each.plain.rstrip() for each in lines)
