"""A recorded run that has just become slow or silent -> what the machine around it says of its last seconds."""

from __future__ import annotations

from pathlib import Path

from gputel.telemetry import run_folder
from gputel.telemetry.errors import GputelError

UNSEEN = "cause not seen"


def cause_now(path: Path, lasts_s: float, rank: int | None = None) -> str | None:
    """Returns the cause with its evidence, or that none was seen; None where the machine was not recorded.

    `lasts_s` is how long it has been slow, `rank` whose processes are looked at, if they are known.
    """
    from gputel.analysis.report.causes import cause
    from gputel.analysis.report.machine_seconds import open_machine, recent
    from gputel.analysis.runs.recording import open_recording

    if not run_folder.is_run(path):
        return None
    try:
        recording = open_recording(path)
        machine = open_machine(recording, rank=rank) or open_machine(recording)
    except (GputelError, OSError):
        return None
    named = cause(machine, recent(machine, lasts_s)) if machine else None
    if machine is None or named is None:
        return UNSEEN if machine else None
    return f"{named.answer}: {'; '.join(named.evidence)}"
