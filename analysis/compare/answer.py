"""A comparison -> what `gputel compare --json` prints: strict JSON, runs by their names, null where unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gputel.analysis import document

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.compare import Comparison
    from gputel.analysis.compare.scaling import Scaling

SCHEMA = 1
Json = dict[str, Any]


def comparison_json(found: Comparison) -> Json:
    answer = {
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
        "summary": {row.pop("run"): row for row in document.rows(found.summary)},
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
    return dict(document.as_json(answer))


def _nested(frame: pl.DataFrame, keys: list[str]) -> list[Json]:
    """A row a key, with what is said of each run under `runs`."""
    found: dict[tuple[Any, ...], Json] = {}
    for row in document.rows(frame):
        key = {name: row.pop(name) for name in keys}
        entry = found.setdefault(tuple(key.values()), {**key, "runs": {}})
        entry["runs"][row.pop("run")] = row
    return list(found.values())


def _scaling(told: Scaling) -> Json:
    ahead = told.next
    return {
        "law": told.formula if told.law else None,
        "terms": list(told.terms),
        "why": told.why,
        "constants": {name: known._asdict() for name, known in told.constants.items()},
        "deviation": told.law and told.law.deviation,
        "points": told.points,
        "next": ahead and {**vars(ahead), "loss": ahead.loss._asdict()},
        "unfinished": told.unfinished,
    }
