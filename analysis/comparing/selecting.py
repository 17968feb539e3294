"""Which of the runs can be compared with each other: subjects go in, one curve a run comes out.

A run is left out of what it lacks, and a sentence says so; where fewer than two are left, that is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gputel.analysis import text
from gputel.analysis.comparing import choices, clocks, curves, phases, settings, tracks
from gputel.analysis.comparing.axes import AXES, Prices
from gputel.analysis.comparing.curves import Curve
from gputel.analysis.comparing.tracks import Track
from gputel.analysis.subjects import Subject
from gputel.telemetry.errors import GputelError

SEE = "see what each holds: gputel parse RUN"


@dataclass(frozen=True)
class Selection:
    """`phases` are all that could have been chosen; `tokenisers` is why losses cannot be compared."""

    curves: list[Curve]
    metric: str
    phase: str
    phases: list[str]
    tokenisers: str | None
    notes: list[str]


def select(
    given: Sequence[Subject], by: str, metric: str | None, phase: str | None, prices: Prices
) -> Selection:
    choice = phases.choose([subject.log for subject in given], phase)
    phased, unphased = _with_phase(given, choice, phase, prices)
    why = settings.tokenisers([track.subject for track in phased])
    chosen, found, silent = _with_metric(phased, metric, why)
    found, lacking = _on_axis(found, by)
    notes = [*chosen.notes, *unphased, *silent, *lacking]
    return Selection(found, chosen.name, choice.phase, choice.shared, why, notes)


def _with_phase(
    given: Sequence[Subject], choice: phases.Choice, asked: str | None, prices: Prices
) -> tuple[list[Track], list[str]]:
    named = list(zip(given, choices.names(given), choice.own, strict=True))
    have = [(subject, name, own) for subject, name, own in named if own is not None]
    if len(have) < 2:
        there = ", ".join(choice.shared) or "none at all"
        fault = "no phase that two runs have" if asked is None else f"no phase {asked}"
        raise _nothing(choices.names(given), f"{fault} (there is {there})", SEE)
    clock = clocks.shared([tracks.rows_of(subject, own) for subject, _, own in have])
    found = [tracks.of(subject, name, own, prices, clock) for subject, name, own in have]
    return found, left_out([name for _, name, own in named if own is None], f"no phase {choice.phase}")


def _with_metric(
    given: list[Track], asked: str | None, tokenisers: str | None
) -> tuple[choices.Metric, list[Curve], list[str]]:
    chosen = choices.metric(given, asked, tokenisers)
    found = [curves.of(track, chosen.name) for track in given]
    have = [curve for curve in found if len(curve.y)]
    if len(have) < 2:
        raise _nothing([track.name for track in given], "no metric that two runs have", SEE)
    silent = [curve.track.name for curve in found if not len(curve.y)]
    return chosen, have, left_out(silent, f"no {chosen.name}")


def _on_axis(found: list[Curve], by: str) -> tuple[list[Curve], list[str]]:
    """Those that have the axis, if two of them meet on it."""
    lacking = {curve.track.name: curve.track.lacks[by] for curve in found if by in curve.track.lacks}
    have = [curve for curve in found if curve.track.name not in lacking]
    if len(have) < 2:
        name, why = next(iter(lacking.items()))
        raise GputelError(f"--by {by}", f"{name}: {why}", f"compare by {others(found)}")
    starts = [float(np.nanmin(curve.x(by))) for curve in have]
    ends = [float(np.nanmax(curve.x(by))) for curve in have]
    if len(have) == 2 and max(starts) > min(ends):
        late, early = have[int(np.argmax(starts))].track.name, have[int(np.argmin(ends))].track.name
        column = AXES[by].column
        fault = f"{early} ends at {column} {min(ends):g}, and {late} begins at {max(starts):g}"
        raise _nothing([curve.track.name for curve in have], fault, f"compare by {others(found, by)}")
    reasons = dict.fromkeys(lacking.values())
    return have, [
        note
        for why in reasons
        for note in left_out([name for name, own in lacking.items() if own == why], why)
    ]


def others(found: Sequence[Curve], but: str = "") -> str:
    """The axes that all have."""
    return " or ".join(
        name
        for name in AXES
        if name != but and (name == "step" or all(name in curve.track.costs for curve in found))
    )


def left_out(names: Sequence[str], why: str) -> list[str]:
    """A sentence for the runs that are not compared; many are counted."""
    return [f"left out: {text.names(names)}: {why}"] if names else []


def _nothing(names: Sequence[str], fault: str, mend: str) -> GputelError:
    return GputelError(text.names(names), f"nothing in common: {fault}", mend)
