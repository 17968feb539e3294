"""What lines of a pattern with the same fields are: a record, an evaluation, or neither, and how they give a step.

`plan` decides once per pattern and set of printed fields, for all such lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gputel.analysis.logs import names
from gputel.analysis.logs.patterns import EVALUATIONS, Field, Pattern

Number = TypeVar("Number", float, npt.NDArray[np.float64])

PLACES = ("step", "iteration", "batch", "index", "length", "count", "total", "epoch", "total_steps", "epochs")
STEPS = ("step", "iteration", "batch", "index")
COLUMN = "column_"  # in a table whose header names it
EVIDENCE = frozenset(
    "loss loss_avg objective objective_avg lr grad_norm dt_ms tok_per_sec step_avg_ms".split()
)
CIRCUMSTANCES = frozenset(
    "dt_ms eta_min total_time_min tok_per_sec mfu lr data_time data_time_s memory memory_mb tflops total_weights "
    "memory_gib memory_pct train_time_ms epoch_time_s time_s".split()
)
# what an agent counts; not every record need be of an update
COUNTS = re.compile(r"(?i)(?:(?:total|num|env)_)*(?:time_?steps?|frames?|env_?steps?|interactions)")
_SO_FAR = re.compile(r"(?:(?:min|max|lowest|highest)_|(?:\w*_)?best_)", re.IGNORECASE)
# metrics that are a loss without the word
_PART = re.compile(r"(?i)^(?:cross_?entropy|smooth_?l1|nll|bce|xent)(?:_avg)?$")
_RATE = re.compile(
    r"(?:per|_)_?s(?:ec|econd)?(?:_|$)(?!.*time)|/s(?:ec|econd)?\b|\btps\b|\bfps\b|throughput", re.IGNORECASE
)


@dataclass(frozen=True)
class LinePlan:
    """How the values of lines with the same fields become columns."""

    columns: Mapping[str, Field]  # record columns, places such as step and epoch among them
    evals: Mapping[str, Field]
    texts: Mapping[str, Field]
    record: bool  # whether it gives a loss, a learning rate, a norm, a step time or a throughput

    @cached_property
    def places(self) -> frozenset[str]:
        """Columns that only serve to find the step, and are left out of the record."""
        if "index" in self.columns and "length" in self.columns:
            return frozenset({"step", "index", "length", "count", "total", "epochs"})
        return frozenset({self.place or "step", "index", "length", "count", "total", "epochs"})

    @cached_property
    def place(self) -> str | None:
        """The column that gives the step; one that is printed in full goes before one in thousands."""
        places = [place for place in STEPS if place in self.columns]
        return next((place for place in places if not self.is_rounded(place)), next(iter(places), None))

    @property
    def counts_batches(self) -> bool:
        """Whether its step is called a batch, which may begin again with each epoch."""
        return self.place in ("batch", "index")

    def is_rounded(self, place: str | None) -> bool:
        """Whether a count is printed in thousands or more, so that later lines may print it again."""
        return place is not None and self.columns[place].shift > 0

    def step(self, cells: Mapping[str, Number], zero_based: bool) -> Number | None:
        """docs/parse.md, rules 10 and 11; the epoch that stands for a step is another matter."""
        if "index" in cells and "length" in cells and "epoch" in cells:
            done = cells["epoch"] if zero_based else cells["epoch"] - 1
            return done * cells["length"] + cells["index"]
        return None if self.place is None else cells[self.place]


@lru_cache(maxsize=4096)
def plan(pattern: Pattern, fields: tuple[Field, ...]) -> LinePlan:
    texts = {what.column: what for what in fields if what.kind == "text"}
    columns = _distinct(what for what in fields if what.kind != "text")
    if pattern.role in EVALUATIONS:
        places = {name: what for name, what in columns.items() if name in PLACES}
        evals = {
            _as_evaluation(n): what
            for n, what in columns.items()
            if n not in PLACES and n.lower() not in CIRCUMSTANCES and not n.startswith("lr_")
        }
        return LinePlan(places, evals, texts, False)
    evals = {name: what for name, what in columns.items() if names.is_evaluation(name)}
    rest = {name: what for name, what in columns.items() if name not in evals}
    timed = pattern.role == "bar" or bool(evals)  # beside an evaluation, speed and time belong to it
    evidence = [name for name in rest if _is_evidence(name, rest[name], timed)]
    return LinePlan(rest, evals, texts, bool(evidence) or pattern.is_record)


def _distinct(fields: Iterable[Field]) -> dict[str, Field]:
    """Gives a column to the first of two fields; the other keeps its own name."""
    columns: dict[str, Field] = {}
    for what in fields:
        name = what.column if what.column not in columns else names.legal(what.source)
        if name in ("time", "rank", "line", "phase", "attempt", "run"):
            name = f"{name}_"
        if name not in columns:
            columns[name] = what
    return columns


def _as_evaluation(name: str) -> str:
    """The training loss on an evaluation line is an evaluation of its own (docs/parse.md, rule 17)."""
    return "train_loss" if name == "loss" else name


def _is_evidence(name: str, what: Field, timed: bool) -> bool:
    """Whether a column makes a line a record; speed and time do not on lines that have them anyway."""
    if _SO_FAR.match(name):
        return False
    if name in ("dt_ms", "tok_per_sec", "step_avg_ms"):
        return not timed
    if (
        name in EVIDENCE
        or ("loss" in name.lower().split("_") and "scale" not in name)
        or _PART.search(name)
        or name.startswith(COLUMN)
    ):
        return True
    if timed or name in PLACES:
        return False
    return _RATE.search(what.source) is not None or "/s" in (what.unit or "")
