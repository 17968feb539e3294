"""A comparison -> what `gputel compare --json` prints: strict JSON, runs by their names, null where unknown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.compare import Comparison
    from gputel.analysis.scaling import Next, Scaling

SCHEMA = 1
Json = dict[str, Any]


def of(found: Comparison) -> Json:
    return {
        "schema": SCHEMA,
        "by": found.by,
        "metric": found.metric,
        "phase": found.phase,
        "phases": found.phases,
        "smooth_steps": found.window,
        "runs": found.runs,
        "groups": found.groups,
        "axes": found.axes,
        "milestones": _nested(found.milestones, ["x"]),
        "summary": {row.pop("run"): row for row in _rows(found.summary)},
        "validations": _nested(found.validations, ["name"]),
        "equal": _nested(found.equal, ["axis", "x"]),
        "targets": _nested(found.targets, ["metric", "target"]),
        "settings": {
            entry["setting"]: {run: told["value"] for run, told in entry["runs"].items()}
            for entry in _nested(found.settings, ["setting"])
        },
        "scaling": _scaling(found.scaling),
        "notes": found.notes,
        "cautions": found.cautions,
    }


def _nested(frame: pl.DataFrame, keys: list[str]) -> list[Json]:
    """A row a key, with what is said of each run under `runs`."""
    found: dict[tuple[Any, ...], Json] = {}
    for row in _rows(frame):
        key = {name: row.pop(name) for name in keys}
        entry = found.setdefault(tuple(key.values()), {**key, "runs": {}})
        entry["runs"][row.pop("run")] = row
    return list(found.values())


def _scaling(told: Scaling) -> Json:
    return {
        "law": told.formula if told.law else None,
        "terms": list(told.terms),
        "why": told.why,
        "constants": {name: known._asdict() for name, known in told.constants.items()},
        "deviation": told.law.deviation if told.law else None,
        "points": _rows(told.points),
        "next": _next(told.next) if told.next else None,
        "unfinished": told.unfinished,
    }


def _next(size: Next) -> Json:
    return {**vars(size), "loss": size.loss._asdict()}


def _rows(frame: pl.DataFrame) -> list[Json]:
    return [{name: _plain(value) for name, value in row.items()} for row in frame.iter_rows(named=True)]


def _plain(value: Any) -> Any:
    """A step of 1000 is 1000 and not 1000.0; strict JSON has no NaN."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
