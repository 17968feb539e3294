"""A comparison -> tables of text, for terminal, Markdown and notebook.

What no run tells is left out; what one of them does not tell is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

from gputel.analysis import text
from gputel.analysis.comparing import law, layout
from gputel.analysis.comparing.axes import AXES
from gputel.analysis.comparing.layout import BESIDE, Cell, Line, Table

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.compare import Comparison

Form: TypeAlias = "Callable[[float], str]"
Facts: TypeAlias = tuple[tuple[str, str, Form], ...]
UNITS = {"tokens": " tokens", "flops": " FLOPs"}
AMOUNTS: Mapping[str, Form] = {
    "step": text.step, "tokens": text.count, "time": text.duration, "flops": text.count, "energy": text.energy,
    "cost": text.money,
}  # fmt: skip

SIZES: Facts = (
    ("depth", "depth", text.step),
    ("parameters", "parameters", text.count),
    ("gpus", "GPUs", text.step),
    ("steps", "steps", text.step),
    ("tokens", "tokens", text.count),
    ("tokens_per_parameter", "tokens/parameter", text.count),
    ("time_s", "time", text.duration),
    ("flops", "FLOPs", text.count),
    ("energy_j", "energy", text.energy),
    ("cost", "cost", text.money),
)
RATES: Facts = (
    ("tok_per_sec", "tok/s", text.step),
    ("mfu", "MFU %", partial(text.number, decimals=1)),
    ("j_per_token", "J/token", text.count),
    ("power_mean_w", "mean W", text.step),
    ("power_peak_w", "peak W", text.step),
    ("mem_peak_mib", "peak MiB, driver", text.step),
    ("mem_printed_mib", "peak MiB, printed", text.step),
    ("interruptions", "interruptions", text.count),
)
SHORT = 40  # letters of a command that is shown whole
SPENT = {axis.name: axis.word for axis in AXES.values()}


def first_line(found: Comparison) -> str:
    """Which phase of the runs, and what of it."""
    other = [phase for phase in found.phases if phase != found.phase]
    also = f" (also shared: {', '.join(other)}; --phase chooses)" if other else ""
    many = "s" if len(found.runs) > 1 else ""
    groups = f" in {len(found.runs)} group{many}" if found.groups else ""
    return f"phase {found.phase} of {len(found.lines)} runs{groups}{also}: {found.metric} by {found.by}"


def cautions(found: Comparison) -> list[str]:
    """What must be said of some runs wherever they are shown."""
    said = dict.fromkeys(found.cautions.values())
    return [
        f"{text.names(run for run, told in found.cautions.items() if told == one)}: {one}" for one in said
    ]


def notes(found: Comparison) -> list[str]:
    """What must be known to trust the tables, and why there is no scaling law where sizes differ."""
    why = found.scaling.why if found.summary["parameters"].drop_nulls().n_unique() > 1 else None
    no = "" if found.scaling.law else "no scaling law: "
    return [*(f"note: {note}" for note in found.notes), *([f"note: {no}{why}"] if why else [])]


def of(found: Comparison) -> Iterator[Table]:
    yield from milestones(found)
    yield from layout.oriented("summary" + _smoothing(found), list(_summary(found)), found.runs)
    yield from layout.oriented("settings that differ", list(_settings(found)), found.runs)
    yield from law.tables(found)


def milestones(found: Comparison) -> Iterator[Table]:
    frame = found.milestones
    points = frame["x"].unique(maintain_order=True).to_list()
    if not points:
        return
    title, off = f"{found.metric} at milestones, as printed, not smoothed", f"difference from {found.runs[0]}"
    heads = [AMOUNTS[found.by](x) for x in points]
    values = _by_run(frame, "value", text.number, marked=found.by == "step")
    differences = _by_run(frame.filter(frame["run"] != found.runs[0]), "difference", text.difference)
    if len(found.runs) > BESIDE:
        yield from layout.folded(
            title, "run", list(values), list(zip(heads, layout.turned(values), strict=True))
        )
        yield from layout.folded(
            off, "run", list(differences), list(zip(heads, layout.turned(differences), strict=True))
        )
        return
    if len(found.runs) == 2:
        values["difference"] = next(iter(differences.values()))
    axis = AXES[found.by].name
    yield Table(title, [axis, *values], layout.turned({"": heads, **values}))
    if len(found.runs) > 2:
        yield Table(off, [axis, *differences], layout.turned({"": heads, **differences}))


def _summary(found: Comparison) -> Iterator[Line]:
    yield from _facts(found.summary, SIZES)
    yield from _validations(found)
    for (axis, x), rows in found.equal.group_by("axis", "x", maintain_order=True):
        cells = _by_run(rows, "value", text.number)
        yield f"{found.metric} at {_place(str(axis), x)}", [cells[run][0] for run in found.runs]
    yield from _targets(found)
    yield from _facts(found.summary, RATES)
    yield "status", found.summary["status"].to_list()


def _facts(frame: pl.DataFrame, facts: Facts) -> Iterator[Line]:
    for column, title, form in facts:
        values = frame[column].to_list()
        if any(value is not None for value in values):
            yield title, [None if value is None else form(value) for value in values]


def _validations(found: Comparison) -> Iterator[Line]:
    for (name,), rows in found.validations.group_by("name", maintain_order=True):
        told = {row["run"]: row for row in rows.iter_rows(named=True)}
        for which in ("best", "last") if rows["best"].count() else ("last",):
            cells = [_at(told[run], which) if run in told else None for run in found.runs]
            yield f"{which} {name} @ step", cells


def _at(row: Mapping[str, Any], which: str) -> str:
    return f"{text.number(row[which])} @ {text.step(row[f'{which}_step'])}"


def _targets(found: Comparison) -> Iterator[Line]:
    for (metric, target), rows in found.targets.group_by("metric", "target", maintain_order=True):
        for axis in AXES.values():
            cells = _by_run(rows, axis.column, AMOUNTS[axis.name])
            line = [cells[run][0] for run in found.runs]
            if any(line) or axis.name == "step":
                yield f"{SPENT[axis.name]} to {metric} {target:g}", line


def _settings(found: Comparison) -> Iterator[Line]:
    for (name,), rows in found.settings.group_by("setting", maintain_order=True):
        values = rows["value"].to_list()
        yield str(name), apart(values) if name == "command" else values


def apart(commands: Sequence[Cell]) -> list[Cell]:
    """Of long commands what not all of them say: `… --depth 4 … --out runs/d4`."""
    if max(len(command or "") for command in commands) <= SHORT:
        return list(commands)
    said = [_options(command or "") for command in commands]
    shared = set.intersection(*(set(own) for own, told in zip(said, commands, strict=True) if told))
    return [_without(own, shared) if told else None for own, told in zip(said, commands, strict=True)]


def _options(command: str) -> list[str]:
    """Words, an option with its value as one."""
    found: list[str] = []
    for word in command.split():
        if found and found[-1].startswith("-") and " " not in found[-1] and not word.startswith("-"):
            found[-1] += f" {word}"
        else:
            found.append(word)
    return found


def _without(said: Sequence[str], shared: set[str]) -> str:
    return " ".join("…" if cut else " ".join(run) for cut, run in groupby(said, shared.__contains__))


def _by_run(
    frame: pl.DataFrame, column: str, form: Callable[[float], str], *, marked: bool = False
) -> dict[str, list[Cell]]:
    """The cells of each run, in the order of the rows; `marked` puts ~ before what lies between two records."""
    cells: dict[str, list[Cell]] = {}
    for row in frame.iter_rows(named=True):
        value = row[column]
        cell = None if value is None else form(value)
        if cell and column == "value":
            cell = ("~" if marked and row["interpolated"] else "") + cell
            cell += f" ±{text.difference(row['deviation'])}" if row.get("deviation") is not None else ""
        cells.setdefault(row["run"], []).append(cell)
    return cells


def _place(axis: str, x: float) -> str:
    """`step 12,431`, `6.518B tokens`, `4 h 19 min`."""
    return f"step {AMOUNTS[axis](x)}" if axis == "step" else f"{AMOUNTS[axis](x)}{UNITS.get(axis, '')}"


def _smoothing(found: Comparison) -> str:
    return f"; {found.metric} is the mean of the last {found.window:g} steps" if found.window else ""
