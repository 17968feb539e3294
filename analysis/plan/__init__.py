"""A question -> Plan: what a run will take before it starts, a row per size, each figure with range and origin.

request     the options of `gputel plan` -> a plan, or a check of a plan against a run
question    what is asked, apart from sizes
inputs      GPUs and model sizes
estimate    a value with its range and origin
memory      bytes that a GPU holds
mfu         MFU by width of the model
pace        start, evaluations, checkpoints, network and data, in seconds
course      steps, hours, energy and cost
rows        all figures of one size; what would make it fit
past_runs   a finished run in the terms of a plan
timing      its step time, hours, start, evaluations and checkpoints
calibrate   a plan corrected by a finished run
check       planned against measured figures
answer      the JSON and CSV of `gputel plan`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gputel.analysis import text
from gputel.analysis.plan.estimate import Estimate
from gputel.analysis.plan.inputs import DEEPEST, Cluster, Size
from gputel.analysis.plan.mfu import NO_MEASUREMENT
from gputel.analysis.plan.pace import MOST_EPOCHS
from gputel.analysis.plan.question import Question
from gputel.analysis.plan.rows import Row, changes, row
from gputel.telemetry.errors import GputelError


@dataclass(frozen=True)
class Plan:
    """The answer to a question; `notes` apply to the whole plan, the notes of a row are in the row."""

    question: Question
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    targets: tuple[Target, ...] = ()


def of_sizes(question: Question, sizes: Sequence[Size], target_tok_per_sec: float | None = None) -> Plan:
    """Plans the given sizes."""
    return _plan(question, [row(question, size) for size in sizes], [], target_tok_per_sec)


def of_limits(
    question: Question, size_of: Callable[[int], Size], target_tok_per_sec: float | None = None
) -> Plan:
    """Plans the largest depth within `--budget` and `--hours`, and the next one for comparison."""
    rows, notes = largest(question, size_of)
    return _plan(question, rows, ["; ".join(notes)], target_tok_per_sec)


@dataclass(frozen=True)
class Target:
    """The MFU that a wanted throughput requires, in percent; more than 100 is impossible on these GPUs."""

    name: str
    tok_per_sec: float
    mfu: float
    most_tok_per_sec: float
    expected_tok_per_sec: float

    @property
    def possible(self) -> bool:
        return self.mfu <= 100

    @property
    def words(self) -> str:
        return (
            f"{self.name}: {self.tok_per_sec:,.0f} tok/s is {self.mfu:.0f}% MFU; {self.most_tok_per_sec:,.0f} "
            f"would be 100%, {self.expected_tok_per_sec:,.0f} is expected"
        )


def targets(rows: Iterable[Row], machine: Cluster, tok_per_sec: float) -> list[Target]:
    return [_target(row, machine, tok_per_sec) for row in rows]


def largest(question: Question, size_of: Callable[[int], Size]) -> tuple[list[Row], list[str]]:
    """Returns the last depth that is expected to fit, the next one, and a note on the worst case of every range.

    Training length follows from the size: limits do not cut runs short here."""
    limit = question.most_hours
    asked = replace(question, hours=None, budget=None)
    rows: list[Row] = []
    for depth in range(1, DEEPEST):
        candidate = row(asked, size_of(depth))
        rows.append(candidate)
        if broken(asked, candidate, limit):
            break
    fitting = rows[:-1] if broken(asked, rows[-1], limit) else rows
    if not fitting:
        why = ", ".join(broken(asked, rows[0], limit))
        raise GputelError(_limits(question), "nothing fits", f"the nearest is {rows[0].name}, which {why}")
    sure = [candidate for candidate in fitting if not broken(asked, candidate, limit, surely=True)]
    notes = [f"{fitting[-1].name} is the largest that fits"]
    if rows[-1] is not fitting[-1]:
        notes.append(f"{rows[-1].name} {', '.join(broken(asked, rows[-1], limit))}")
    if sure:
        notes.append(f"in the worst case of every range: {sure[-1].name}")
    return rows[-2:] if len(fitting) < len(rows) else rows[-1:], notes


def broken(question: Question, planned: Row, most_hours: float | None, *, surely: bool = False) -> list[str]:
    """Lists the limits that a row breaks: as expected, or with `surely` in the worst case of its ranges."""

    def end(figure: Estimate) -> float:
        return figure.high if surely else figure.value

    def faults() -> Iterator[str]:
        hours = end(planned.figures["hours"])
        if most_hours is not None and hours > most_hours:
            dollars = question.dollars(hours)
            cost = f" and {text.money(dollars)}" if dollars is not None else ""
            yield f"takes {text.duration(3600 * hours)}{cost}"
        if planned.fits == "no" or (surely and planned.fits == "tight"):
            yield f"needs {end(planned.figures['memory_gib']):.0f} of {question.machine.gpu.memory_gib:.0f} GiB"
        epochs = planned.figures.get("epochs")
        if epochs and epochs.value > MOST_EPOCHS:
            yield f"reads its data {epochs.value:.1f} times"

    return list(faults())


def _plan(question: Question, rows: Sequence[Row], notes: list[str], target: float | None) -> Plan:
    rows_with_changes = [
        planned if planned.fits == "fits" else replace(planned, changes=changes(question, planned))
        for planned in rows
    ]
    if any(NO_MEASUREMENT in source for row in rows for source in row.figures["mfu"].sources):
        gpu = question.machine.gpu.name
        notes.append(
            f"{NO_MEASUREMENT} ({gpu}): time and money are the widest range; --like a run on it narrows them"
        )
    if question.like:
        notes += question.like.notes
    wanted = targets(rows_with_changes, question.machine, target) if target is not None else []
    return Plan(question, tuple(rows_with_changes), tuple(notes), tuple(wanted))


def _target(row: Row, machine: Cluster, tok_per_sec: float) -> Target:
    most = machine.peak_flops / row.size.flops_per_token
    return Target(row.name, tok_per_sec, 100 * tok_per_sec / most, most, row.figures["tok_per_sec"].value)


def _limits(question: Question) -> str:
    asked = {"--budget": question.budget, "--hours": question.hours}
    return " ".join(f"{name} {value:g}" for name, value in asked.items() if value is not None)
