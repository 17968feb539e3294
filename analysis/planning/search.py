"""The largest depth that money, time, memory and data allow: depth by depth, until one breaks a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from gputel.analysis import text
from gputel.analysis.planning.data import MOST_EPOCHS
from gputel.analysis.planning.estimate import Estimate
from gputel.analysis.planning.question import Question
from gputel.analysis.planning.rows import Row, row
from gputel.analysis.planning.sizes import DEEPEST, Size
from gputel.telemetry.errors import GputelError


def largest(question: Question, size_of: Callable[[int], Size]) -> tuple[list[Row], list[str]]:
    """The last depth that is expected to fit, and the next, which is not; and in words what holds at the far end of
    every range. How long each trains follows from its size: limits cut no run short here."""
    limit = question.most_hours
    asked = replace(question, hours=None, budget=None)
    rows: list[Row] = []
    for depth in range(1, DEEPEST):
        found = row(asked, size_of(depth))
        rows.append(found)
        if broken(asked, found, limit):
            break
    fitting = rows[:-1] if broken(asked, rows[-1], limit) else rows
    if not fitting:
        why = ", ".join(broken(asked, rows[0], limit))
        raise GputelError(_limits(question), "nothing fits", f"the nearest is {rows[0].name}, which {why}")
    sure = [found for found in fitting if not broken(asked, found, limit, surely=True)]
    said = [f"{fitting[-1].name} is the largest that fits"]
    if rows[-1] is not fitting[-1]:
        said.append(f"{rows[-1].name} {', '.join(broken(asked, rows[-1], limit))}")
    if sure:
        said.append(f"at the far end of every range: {sure[-1].name}")
    return rows[-2:] if len(fitting) < len(rows) else rows[-1:], said


def broken(question: Question, found: Row, most_hours: float | None, *, surely: bool = False) -> list[str]:
    """The limits that a row breaks: as expected, or `surely`, where any value of a range would."""

    def end(figure: Estimate) -> float:
        return figure.high if surely else figure.value

    def faults() -> Iterator[str]:
        hours = end(found.figures["hours"])
        if most_hours is not None and hours > most_hours:
            dollars = question.dollars(hours)
            cost = f" and {text.money(dollars)}" if dollars is not None else ""
            yield f"takes {text.duration(3600 * hours)}{cost}"
        if found.fits == "no" or (surely and found.fits == "tight"):
            yield f"needs {end(found.figures['memory_gib']):.0f} of {question.machine.gpu.memory_gib:.0f} GiB"
        epochs = found.figures.get("epochs")
        if epochs and epochs.value > MOST_EPOCHS:
            yield f"reads its data {epochs.value:.1f} times"

    return list(faults())


def _limits(question: Question) -> str:
    asked = {"--budget": question.budget, "--hours": question.hours}
    return " ".join(f"{name} {value:g}" for name, value in asked.items() if value is not None)
