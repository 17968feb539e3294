"""Plan -> the JSON and CSV of `gputel plan`: full values with their ranges and origins."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from typing import Any

from gputel.analysis.document import as_json
from gputel.analysis.plan import Plan
from gputel.analysis.plan.estimate import Estimate
from gputel.analysis.plan.rows import Row

SCHEMA = 1
DIGITS = 6
Json = dict[str, Any]


def answer(plan: Plan) -> Json:
    """Returns a plan as JSON."""
    question, machine = plan.question, plan.question.machine
    answered = {
        "schema": SCHEMA,
        "machine": {
            "gpu": machine.gpu.name,
            "gpus": machine.count,
            "nodes": machine.nodes,
            "link_gbit_s": None if machine.link_bytes_s is None else machine.link_bytes_s * 8 / 1e9,
            "peak_flops": machine.peak_flops,
            "memory_gib": machine.gpu.memory_gib,
            "power_limit_w": machine.gpu.power_w,
        },
        "price": question.price,
        "like": question.like.name if question.like else None,
        "rows": [_row(row) for row in plan.rows],
        "targets": [asdict(target) | {"possible": target.possible} for target in plan.targets],
        "notes": plan.notes,
    }
    return dict(as_json(answered))


def csv_text(plan: Plan) -> str:
    """Formats a CSV; a figure with a range has two more columns, such as `hours_low` and `hours_high`."""
    rows = [_flat(row) for row in plan.rows]
    columns = dict.fromkeys(name for row in rows for name in row)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _row(row: Row) -> Json:
    ranges = {name: [exact(f.low), exact(f.high)] for name, f in row.figures.items() if f.is_range}
    return {
        "name": row.name,
        **{name: exact(figure.value) for name, figure in row.figures.items()},
        "recipe": asdict(row.recipe),
        "fits": row.fits,
        "changes": row.changes,
        "warnings": row.warnings,
        "ranges": ranges,
        "origins": {name: _origin(figure) for name, figure in row.figures.items()},
    }


def _flat(row: Row) -> Json:
    cells: Json = {"name": row.name, "fits": row.fits}
    for name, figure in row.figures.items():
        cells[name] = exact(figure.value)
        if figure.is_range:
            cells |= {f"{name}_low": exact(figure.low), f"{name}_high": exact(figure.high)}
    return cells


def _origin(figure: Estimate) -> Json:
    return {"origin": figure.origin, "from": figure.sources}


def exact(value: float) -> float | int:
    """Keeps integers; rounds other values to six decimals."""
    return value if isinstance(value, int) else round(value, DIGITS)
