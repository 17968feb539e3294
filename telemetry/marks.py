"""Marks: what a person, or a script beside the training, wants to find again on the curves."""

from __future__ import annotations

from pathlib import Path

from gputel.telemetry import events, run
from gputel.telemetry.clock import Clock, SystemClock
from gputel.telemetry.errors import GputelError
from gputel.telemetry.identity import mask


def write(path: Path, text: str, clock: Clock | None = None) -> None:
    """Into the last segment that has no end, of the run at `path`."""
    live = [s for s in run.open_folder(path).segments if run.describe(s.path).get("ended") is None]
    if not live:
        raise GputelError(
            str(path), "this run has ended", "marks go into a run while it is recorded; name another --run"
        )
    try:
        events.append(live[-1].path, (clock or SystemClock()).stamp().wall, "mark", mask(text))
    except OSError as error:
        raise GputelError(str(live[-1].path / events.NAME), f"cannot write: {error.strerror}") from error
