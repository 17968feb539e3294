"""A comparison -> tables of text, for the terminal and for Markdown: few runs beside each other, many below.

What no run tells is left out; what one of them does not tell is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from gputel.analysis.comparing import wording
from gputel.analysis.comparing.axes import AXES

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.compare import Comparison
    from gputel.analysis.power_law import Interval

BESIDE = 4
BLOCK = 5
Cell: TypeAlias = "str | None"
Line: TypeAlias = tuple[str, list[Cell]]  # what it says, and a cell a run

FACTS: tuple[tuple[str, str, wording.Form], ...] = (
    ("depth", "depth", wording.whole),
    ("parameters", "parameters", wording.large),
    ("gpus", "GPUs", wording.whole),
    ("steps", "steps", wording.whole),
    ("tokens", "tokens", wording.large),
    ("tokens_per_parameter", "tokens/parameter", wording.digits(1)),
    ("time_s", "time", wording.duration),
    ("flops", "FLOPs", wording.large),
    ("energy_j", "energy", wording.joules),
    ("cost", "cost", wording.dollars),
)
RATES: tuple[tuple[str, str, wording.Form], ...] = (
    ("tok_per_sec", "tok/s", wording.whole),
    ("mfu", "MFU %", wording.digits(1)),
    ("j_per_token", "J/token", wording.digits(4)),
    ("power_mean_w", "mean W", wording.whole),
    ("power_peak_w", "peak W", wording.whole),
    ("mem_peak_mib", "peak MiB, driver", wording.whole),
    ("mem_printed_mib", "peak MiB, printed", wording.whole),
    ("interruptions", "interruptions", wording.digits(0)),
)
SPENT = {
    "step": "steps",
    "tokens": "tokens",
    "time": "time",
    "flops": "FLOPs",
    "energy": "energy",
    "cost": "cost",
}


class Table(NamedTuple):
    title: str
    columns: list[str]
    rows: list[list[Cell]]


def first_line(found: Comparison) -> str:
    """Which phase of the runs, and what of it."""
    other = [phase for phase in found.phases if phase != found.phase]
    also = f" (also shared: {', '.join(other)}; --phase chooses)" if other else ""
    groups = f" in {len(found.runs)} groups" if found.groups else ""
    return f"phase {found.phase} of {len(found.lines)} runs{groups}{also}: {found.metric} by {found.by}"


def of(found: Comparison) -> Iterator[Table]:
    yield from milestones(found)
    yield from _oriented("summary" + _smoothing(found), list(_summary(found)), found.runs)
    names = [curve.track.name for curve in found.lines]
    yield from _oriented("settings that differ", list(_settings(found)), names)
    yield from scaling(found)


def notes(found: Comparison) -> list[str]:
    """What must be known to trust the tables, and why there is no scaling law where sizes differ."""
    why = found.scaling.why if found.summary["parameters"].drop_nulls().n_unique() > 1 else None
    no = "" if found.scaling.law else "no scaling law: "
    return [*(f"note: {note}" for note in found.notes), *([f"note: {no}{why}"] if why else [])]


def milestones(found: Comparison) -> Iterator[Table]:
    frame = found.milestones
    points = frame["x"].unique(maintain_order=True).to_list()
    if not points:
        return
    title = f"{found.metric} at milestones, as printed, not smoothed"
    heads = [wording.POINTS[found.by](x) for x in points]
    values = _by_run(frame, "value", wording.metric, marked=found.by == "step")
    differences = list(_by_run(frame, "difference", wording.difference).values())[1:]
    if len(found.runs) > BESIDE:
        yield Table(title, ["run", *heads], [[run, *cells] for run, cells in values.items()])
        rows = [[run, *cells] for run, cells in zip(found.runs[1:], differences, strict=True)]
        yield Table(f"difference from {found.runs[0]}", ["run", *heads], rows)
        return
    told = ["difference"] if len(differences) == 1 else [f"{run} - {found.runs[0]}" for run in found.runs[1:]]
    columns = [heads, *values.values(), *differences]
    rows = [list(row) for row in zip(*columns, strict=True)]
    yield Table(title, [AXES[found.by].name, *found.runs, *told], rows)


def scaling(found: Comparison) -> Iterator[Table]:
    told = found.scaling
    if told.law is None or told.next is None:
        return
    rows = [[name, *_interval(known)] for name, known in told.constants.items()]
    columns = ["", "value", "95 % from", "to"]
    yield Table(f"{told.formula}, with {told.terms} in place", columns, rows)
    ahead = told.next
    size = f"depth {ahead.depth}" if ahead.depth else "the next size"
    facts: dict[str, Cell] = {
        "parameters": wording.large(ahead.parameters),
        "tokens": wording.large(ahead.tokens),
        "FLOPs": wording.large(ahead.flops),
        found.metric: "{} ({} to {})".format(*(wording.metric(value) for value in ahead.loss)),
        "time": None if ahead.hours is None else wording.duration(ahead.hours * 3600),
        "energy": None if ahead.energy_j is None else wording.joules(ahead.energy_j),
        "cost": None if ahead.cost is None else wording.dollars(ahead.cost),
    }
    rows = [[name, value] for name, value in facts.items() if value]
    yield Table(f"what {size} would reach and cost, at the largest run's pace", ["", size], rows)


def _interval(known: Interval) -> list[Cell]:
    return [f"{value:.4g}" for value in known]


def _summary(found: Comparison) -> Iterator[Line]:
    yield from _facts(found.summary, FACTS)
    yield from _validations(found)
    for axis in found.equal["axis"].unique(maintain_order=True):
        rows = found.equal.filter(found.equal["axis"] == axis)
        where = wording.AMOUNTS[axis](rows["x"][0])
        cells = _by_run(rows, "value", wording.metric)
        yield f"{found.metric} at {where} {_unit(axis)}".rstrip(), [cells[run][0] for run in found.runs]
    yield from _targets(found)
    yield from _facts(found.summary, RATES)
    yield "status", found.summary["status"].to_list()


def _facts(frame: pl.DataFrame, facts: Sequence[tuple[str, str, wording.Form]]) -> Iterator[Line]:
    for column, title, form in facts:
        values = frame[column].to_list()
        if any(value is not None for value in values):
            yield title, [None if value is None else form(value) for value in values]


def _validations(found: Comparison) -> Iterator[Line]:
    for name in found.validations["name"].unique(maintain_order=True):
        rows = {
            row["run"]: row
            for row in found.validations.filter(found.validations["name"] == name).iter_rows(named=True)
        }
        for which in ("best", "last"):
            cells = [_at(rows[run], which) if run in rows else None for run in found.runs]
            yield f"{which} {name} @ step", cells


def _at(row: Mapping[str, Any], which: str) -> str:
    return f"{wording.metric(row[which])} @ {wording.whole(row[f'{which}_step'])}"


def _targets(found: Comparison) -> Iterator[Line]:
    keys = found.targets.select("metric", "target").unique(maintain_order=True)
    for metric, target in keys.iter_rows():
        own = found.targets.filter((found.targets["metric"] == metric) & (found.targets["target"] == target))
        never = True
        for axis in AXES.values():
            cells = _by_run(own, axis.column, wording.AMOUNTS[axis.name])
            line = [cells[run][0] for run in found.runs]
            if any(line):
                never = False
                yield f"{SPENT[axis.name]} to {metric} {target:g}", line
        if never:
            yield f"steps to {metric} {target:g}", [None] * len(found.runs)


def _settings(found: Comparison) -> Iterator[Line]:
    for (name,), rows in found.settings.group_by("setting", maintain_order=True):
        yield str(name), rows["value"].to_list()


def _by_run(
    frame: pl.DataFrame, column: str, form: Callable[[float], str], *, marked: bool = False
) -> dict[str, list[Cell]]:
    """The cells of each run, in the order of the rows; `marked` puts ~ before what lies between two records."""
    cells: dict[str, list[Cell]] = {}
    for row in frame.iter_rows(named=True):
        value = row[column]
        text = None if value is None else form(value)
        if text and column == "value":
            text = ("~" if marked and row["interpolated"] else "") + text
            text += f" ±{wording.difference(row['deviation'])}" if row.get("deviation") is not None else ""
        cells.setdefault(row["run"], []).append(text)
    return cells


def _oriented(title: str, lines: Sequence[Line], runs: Sequence[str]) -> Iterator[Table]:
    """Few runs are columns; many are rows, and what is said of them is cut into tables that fit a terminal."""
    if not lines:
        return
    if len(runs) <= BESIDE:
        yield Table(title, ["", *runs], [[name, *cells] for name, cells in lines])
        return
    for i in range(0, len(lines), BLOCK):
        block = lines[i : i + BLOCK]
        rows = [[run, *(cells[j] for _, cells in block)] for j, run in enumerate(runs)]
        yield Table(title if not i else "", ["run", *(name for name, _ in block)], rows)


def _smoothing(found: Comparison) -> str:
    return f"; {found.metric} is the mean of the last {found.window:g} steps" if found.window else ""


def _unit(axis: str) -> str:
    return {"step": "steps", "tokens": "tokens", "flops": "FLOPs"}.get(axis, "")
