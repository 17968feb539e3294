"""Comparison -> the JSON of `gputel compare`: strict, runs by name, null if unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gputel.analysis import document

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.compare import Comparison
    from gputel.analysis.compare.scaling import Scaling

SCHEMA = 1
Json = dict[str, Any]


def comparison_json(comparison: Comparison) -> Json:
    """Returns every table of a comparison as JSON."""
    answer = {
        "schema": SCHEMA,
        "by": comparison.by,
        "metric": comparison.metric,
        "phase": comparison.phase,
        "phases": comparison.phases,
        "smooth_steps": comparison.window,
        "runs": comparison.runs,
        "groups": comparison.groups,
        "axes": comparison.axes,
        "milestones": _nested(comparison.milestones, ["x"]),
        "summary": {row.pop("run"): row for row in document.rows(comparison.summary)},
        "validations": _nested(comparison.validations, ["name"]),
        "equal": _nested(comparison.equal, ["axis", "x"]),
        "targets": _nested(comparison.targets, ["metric", "target"]),
        "settings": {
            entry["setting"]: {run: row["value"] for run, row in entry["runs"].items()}
            for entry in _nested(comparison.settings, ["setting"])
        },
        "scaling": _scaling(comparison.scaling),
        "notes": comparison.notes,
        "cautions": comparison.cautions,
        "doubts": {run: [doubt.as_json() for doubt in doubts] for run, doubts in comparison.doubts.items()},
    }
    return dict(document.as_json(answer))


def _nested(frame: pl.DataFrame, keys: list[str]) -> list[Json]:
    """Returns one entry per key, with the rows of its runs under `runs`."""
    entries: dict[tuple[Any, ...], Json] = {}
    for row in document.rows(frame):
        key = {name: row.pop(name) for name in keys}
        entry = entries.setdefault(tuple(key.values()), {**key, "runs": {}})
        entry["runs"][row.pop("run")] = row
    return list(entries.values())


def _scaling(scaling: Scaling) -> Json:
    next_size = scaling.next
    return {
        "law": scaling.formula if scaling.law else None,
        "terms": list(scaling.terms),
        "why": scaling.why,
        "constants": {name: interval._asdict() for name, interval in scaling.constants.items()},
        "deviation": scaling.law and scaling.law.deviation,
        "points": scaling.points,
        "next": next_size and {**vars(next_size), "loss": next_size.loss._asdict()},
        "unfinished": scaling.unfinished,
    }
