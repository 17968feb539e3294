"""Runs -> Selection: the phase and metric that most of them share, and one curve per run.

Of the phases that most runs share, the one with the most steps is compared. A log that announces no stage has a
single phase, `train`, which matches any phase that it does not name. A run that lacks the phase, metric or axis is
left out, and a note says why; fewer than two remaining runs are an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gputel.analysis import progress, text
from gputel.analysis.columns import MAIN
from gputel.analysis.compare import axes, curves, settings
from gputel.analysis.compare.axes import AXES, Prices
from gputel.analysis.compare.curves import MetricCurve, RunPhase, metric_curve, run_phase
from gputel.analysis.logs.log import DEFAULT_PHASE
from gputel.analysis.runs import RunData
from gputel.telemetry.errors import GputelError
from gputel.telemetry.file_names import unique_names
from gputel.telemetry.remote.local_copy import shown

if TYPE_CHECKING:
    from gputel.analysis.logs.log import Log

SEE = "see what each holds: gputel parse RUN"

BITS = "bpb"
LOSS = re.compile(r"(?:^|_)loss(?:_avg)?$")


@dataclass(frozen=True)
class Selection:
    """What is compared: a curve per run.

    `phases`: all that could be chosen; `tokenizers`: why losses cannot be compared, if so.
    """

    curves: list[MetricCurve]
    metric: str
    phase: str
    phases: list[str]
    tokenizers: str | None
    notes: list[str]


def select(
    given: Sequence[RunData], by: str, metric: str | None, phase: str | None, prices: Prices
) -> Selection:
    choice = choose([subject.log for subject in given], phase)
    phased, unphased = _with_phase(given, choice, phase, prices)
    why = settings.tokenizers([track.subject for track in phased])
    chosen, tracks, silent = _with_metric(phased, metric, why)
    tracks, lacking = _on_axis(tracks, by)
    notes = [*chosen.notes, *unphased, *silent, *lacking, *_of_epochs(tracks)]
    return Selection(tracks, chosen.name, choice.phase, choice.shared, why, notes)


def left_out(names: Sequence[str], why: str) -> list[str]:
    """Returns a note on the runs that are left out, if any."""
    return [f"left out: {text.names(names)}: {why}"] if names else []


@dataclass(frozen=True)
class MetricChoice:
    name: str
    notes: list[str]


def names(subjects: Sequence[RunData]) -> list[str]:
    """Returns unique names: the run's own, with as much of its path as needed, else a number."""
    places = [Path(shown(Path(subject.log.source).absolute())) for subject in subjects]
    return unique_names([subject.name for subject in subjects], places)


def metric(tracks: Sequence[RunPhase], asked: str | None, tokenizers: str | None) -> MetricChoice:
    """Chooses the metric: as asked, else the loss or evaluation that most runs share.

    If the tokenizers differ (`tokenizers` says how), bits per byte are compared instead of losses.
    """
    have = [curves.metrics(track) for track in tracks]
    every = list(dict.fromkeys(name for names in have for name in names))
    if tokenizers and (asked is None or depends_on_tokenizer(asked)):
        return _in_bits(have, every, tokenizers)
    if asked is not None:
        if asked not in every:
            raise GputelError(
                f"--metric {asked}", "no run has it", f"they have {', '.join(every) or 'no metric'}"
            )
        return MetricChoice(asked, [])
    evaluated = {name for track in tracks for name in curves.evaluated(track)}
    ranked = [*MAIN, *(n for n in every if n not in MAIN and (LOSS.search(n) or n in evaluated))]
    best = max(ranked, key=lambda name: sum(name in names for names in have))
    return MetricChoice(best, [])


def depends_on_tokenizer(metric: str) -> bool:
    """Returns whether a metric is a mean over tokens."""
    return "loss" in metric or "perplexity" in metric or "ppl" in metric


@dataclass(frozen=True)
class Choice:
    """The chosen phase; `names` are what each run calls it, None if it lacks it."""

    phase: str
    names: list[str | None]
    shared: list[str]  # all that could be chosen, most steps first


def choose(logs: Sequence[Log], asked: str | None) -> Choice:
    """Chooses the phase to compare: as asked, else the one that most logs share."""
    names = [list(dict.fromkeys(phase for phase, _ in log.places)) for log in logs]
    candidates = list(dict.fromkeys(name for phase_names in names for name in phase_names))
    owns = {phase: [_own(phase_names, phase) for phase_names in names] for phase in candidates}
    ranked = sorted(candidates, key=lambda phase: _rank(logs, owns[phase], phase), reverse=True)
    if asked is not None:
        return Choice(asked, owns.get(asked, [None] * len(logs)), ranked)
    if not ranked:
        return Choice(DEFAULT_PHASE, [None] * len(logs), [])
    most = _sharers(owns[ranked[0]])
    shared = [phase for phase in ranked if _sharers(owns[phase]) == most and _is_named(phase, ranked)]
    return Choice(ranked[0], owns[ranked[0]], shared)


def _with_phase(
    given: Sequence[RunData], choice: Choice, asked: str | None, prices: Prices
) -> tuple[list[RunPhase], list[str]]:
    named = list(zip(given, names(given), choice.names, strict=True))
    have = [(subject, name, own_phase) for subject, name, own_phase in named if own_phase is not None]
    if len(have) < 2:
        there = ", ".join(choice.shared) or "none"
        fault = "no phase that two runs have" if asked is None else f"no phase {asked}"
        raise _nothing(names(given), f"{fault} (there is {there})", SEE)
    clock = axes.shared([curves.rows_of(subject, own_phase) for subject, _, own_phase in have])
    tracks = [
        run_phase(subject, name, own_phase, prices, clock)
        for subject, name, own_phase in progress.each(have, "comparing runs")
    ]
    return tracks, left_out(
        [name for _, name, own_phase in named if own_phase is None], f"no phase {choice.phase}"
    )


def _with_metric(
    given: list[RunPhase], asked: str | None, tokenizers: str | None
) -> tuple[MetricChoice, list[MetricCurve], list[str]]:
    chosen = metric(given, asked, tokenizers)
    candidates = [metric_curve(track, chosen.name) for track in given]
    with_metric = [curve for curve in candidates if len(curve.y)]
    if len(with_metric) < 2:
        raise _nothing([track.name for track in given], "no metric that two runs have", SEE)
    silent = [curve.track.name for curve in candidates if not len(curve.y)]
    return chosen, with_metric, left_out(silent, f"no {chosen.name}")


def _on_axis(candidates: list[MetricCurve], by: str) -> tuple[list[MetricCurve], list[str]]:
    """Keeps the curves that have the axis; at least two must overlap on it."""
    lacking = {curve.track.name: curve.track.lacks[by] for curve in candidates if by in curve.track.lacks}
    with_axis = [curve for curve in candidates if curve.track.name not in lacking]
    if len(with_axis) < 2:
        name, why = next(iter(lacking.items()))
        raise GputelError(f"--by {by}", f"{name}: {why}", _hint(candidates, by))
    starts = [float(np.nanmin(curve.x(by))) for curve in with_axis]
    ends = [float(np.nanmax(curve.x(by))) for curve in with_axis]
    if len(with_axis) == 2 and max(starts) > min(ends):
        late, early = with_axis[int(np.argmax(starts))].track.name, with_axis[int(np.argmin(ends))].track.name
        column = AXES[by].column
        fault = f"{early} ends at {column} {min(ends):g}, and {late} begins at {max(starts):g}"
        raise _nothing([curve.track.name for curve in with_axis], fault, _hint(candidates, by))
    reasons = dict.fromkeys(lacking.values())
    return with_axis, [
        note
        for why in reasons
        for note in left_out([name for name, reason in lacking.items() if reason == why], why)
    ]


def _of_epochs(candidates: Sequence[MetricCurve]) -> list[str]:
    """Says why there are no values at equal steps, where the steps of some runs are epochs."""
    if "step" in curves.comparable_axes(candidates):
        return []
    epochs = text.names(curve.track.name for curve in candidates if curve.track.counts_epochs)
    steps = text.names(curve.track.name for curve in candidates if not curve.track.counts_epochs)
    fault = f"steps of {epochs} are epochs, and those of {steps} are not: no values at equal steps"
    return ["; ".join(filter(None, (fault, _hint(candidates, "step"))))]


def _hint(candidates: Sequence[MetricCurve], but: str) -> str:
    """Names the other axes that all runs have; empty if there is none."""
    names = [name for name in curves.shared_axes(candidates) if name != but]
    return f"compare by {' or '.join(names)}" if names else ""


def _nothing(names: Sequence[str], fault: str, hint: str) -> GputelError:
    return GputelError(text.names(names), f"nothing in common: {fault}", hint)


def _in_bits(have: list[list[str]], every: list[str], why: str) -> MetricChoice:
    bits = [name for name in every if BITS in name]
    if not bits:
        raise GputelError(
            "loss", f"cannot be compared: {why}", "compare runs that print validation bits per byte"
        )
    best = max(bits, key=lambda name: sum(name in evaluated for evaluated in have))
    return MetricChoice(best, [f"compared by {best} (bits per byte) instead of loss: {why}"])


def _own(names: list[str], phase: str) -> str | None:
    if phase in names:
        return phase
    return DEFAULT_PHASE if DEFAULT_PHASE in names else None


def _rank(logs: Sequence[Log], phase_names: list[str | None], phase: str) -> tuple[int, int, bool]:
    steps = [_steps(log, name) for log, name in zip(logs, phase_names, strict=True) if name]
    return len(steps), sum(steps), phase != DEFAULT_PHASE


def _steps(log: Log, phase: str) -> int:
    if len(log.places) == 1:
        return log.records.height
    return int((log.records["phase"] == phase).sum())


def _sharers(phase_names: list[str | None]) -> int:
    return sum(name is not None for name in phase_names)


def _is_named(phase: str, ranked: list[str]) -> bool:
    return phase != DEFAULT_PHASE or len(ranked) == 1
