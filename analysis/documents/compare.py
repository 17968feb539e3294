"""A comparison -> its page: curves with a switch of the axis, differences, sizes, the tables of the terminal.

A comparison -> tables of text, for terminal, Markdown and notebook.

What no run tells is left out; what one of them does not tell is None.

Runs of four sizes and more -> tables: where each ended, the law that they follow, what the next would cost.

Tables of text about runs: few runs stand beside each other, many below, cut to the width of a terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from gputel.analysis import text
from gputel.analysis.compare.axes import AXES
from gputel.analysis.document import Document, Section, Table
from gputel.analysis.documents.panels import metrics, sizes

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.compare import Comparison
    from gputel.analysis.compare.scaling import Next


def comparison_document(found: Comparison) -> Document:
    first, *others = metrics.panels(found)
    between = [panel for panel in (metrics.bands(found), metrics.differences(found)) if panel]
    told = [Table(table.title, table.columns, table.rows) for table in comparison_tables(found)]
    sections = [
        Section(items=(first, *between)),
        Section("Differences", told),
        Section("Across sizes", list(sizes.panels(found))),
        Section("What else was printed", others),
        Section("To know", text="\n".join(note.removeprefix("note: ") for note in notes(found))),
    ]
    return Document(
        title=" and ".join(found.runs) if len(found.runs) < 4 else f"{len(found.runs)} runs",
        sections=[section for section in sections if section.items or section.text],
        about=first_line(found),
        caution="; ".join(cautions(found)) or None,
        runs=found.runs,
    )


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


def comparison_tables(found: Comparison) -> Iterator[ComparisonTable]:
    yield from milestones(found)
    yield from oriented("summary" + _smoothing(found), list(_summary(found)), found.runs)
    yield from oriented("settings that differ", list(_settings(found)), found.runs)
    yield from tables(found)


def milestones(found: Comparison) -> Iterator[ComparisonTable]:
    frame = found.milestones
    points = frame["x"].unique(maintain_order=True).to_list()
    if not points:
        return
    title, off = f"{found.metric} at milestones, as printed, not smoothed", f"difference from {found.runs[0]}"
    heads = [AMOUNTS[found.by](x) for x in points]
    values = _by_run(frame, "value", text.number, marked=found.by == "step")
    differences = _by_run(frame.filter(frame["run"] != found.runs[0]), "difference", text.difference)
    if len(found.runs) > BESIDE:
        yield from folded(title, "run", list(values), list(zip(heads, turned(values), strict=True)))
        yield from folded(off, "run", list(differences), list(zip(heads, turned(differences), strict=True)))
        return
    if len(found.runs) == 2:
        values["difference"] = next(iter(differences.values()))
    axis = AXES[found.by].name
    yield ComparisonTable(title, [axis, *values], turned({"": heads, **values}))
    if len(found.runs) > 2:
        yield ComparisonTable(off, [axis, *differences], turned({"": heads, **differences}))


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


POINTS = ("depth", "parameters", "tokens", "flops", "loss")
MEANING = {"parameters": "N parameters", "tokens": "D tokens", "flops": "C FLOPs"}


def tables(found: Comparison) -> Iterator[ComparisonTable]:
    told = found.scaling
    if told.law is None or told.next is None:
        return
    rows: list[list[Cell]] = [
        [row["run"], *(_point(name, row[name]) for name in POINTS), "yes" if row["frontier"] else ""]
        for row in told.points.iter_rows(named=True)
    ]
    heads = ["run", "depth", "parameters", "tokens", "FLOPs", found.metric, "frontier"]
    yield ComparisonTable("by size; on the frontier no run did better with less compute", heads, rows)
    meaning = ", ".join(MEANING[term] for term in told.terms)
    constants: list[list[Cell]] = [
        [name, *(f"{value:.4g}" for value in known)] for name, known in told.constants.items()
    ]
    title = f"{told.formula} ({meaning}); runs are off by {told.law.deviation:.2g}"
    yield ComparisonTable(title, ["", "value", "95 % from", "to"], constants)
    size = f"depth {told.next.depth}" if told.next.depth else "the next size"
    facts = _law_facts(told.next, found.metric)
    yield ComparisonTable(
        f"what {size} would reach and cost at the pace of {told.points['run'][-1]}", ["", size], facts
    )


def _point(name: str, value: float | None) -> Cell:
    form = {"depth": text.step, "loss": text.number}.get(name, text.count)
    return None if value is None else form(value)


def _law_facts(ahead: Next, metric: str) -> list[list[Cell]]:
    low, high = (text.number(value) for value in ahead.loss[1:])
    told: dict[str, Cell] = {
        "parameters": text.count(ahead.parameters),
        "tokens": text.count(ahead.tokens),
        "FLOPs": text.count(ahead.flops),
        metric: f"{text.number(ahead.loss.value)} ({low} to {high})",
        "time": None if ahead.hours is None else text.duration(ahead.hours * 3600),
        "energy": None if ahead.energy_j is None else text.energy(ahead.energy_j),
        "cost": None if ahead.cost is None else text.money(ahead.cost),
    }
    return [[name, value] for name, value in told.items() if value]


BESIDE = 4
WIDTH = 80
BETWEEN = 3  # columns of a terminal between two columns of a table
Cell: TypeAlias = "str | None"
Line: TypeAlias = "tuple[str, list[Cell]]"  # what it says, and a cell a run


class ComparisonTable(NamedTuple):
    title: str
    columns: list[str]
    rows: list[list[Cell]]


def oriented(title: str, lines: Sequence[Line], runs: Sequence[str]) -> Iterator[ComparisonTable]:
    """Few runs are columns, many are rows."""
    if lines and len(runs) <= BESIDE:
        yield ComparisonTable(title, ["", *runs], [[name, *cells] for name, cells in lines])
    elif lines:
        yield from folded(title, "run", runs, lines)


def folded(title: str, head: str, names: Sequence[str], lines: Sequence[Line]) -> Iterator[ComparisonTable]:
    """A row a name; cut into as many tables as fit the width of a terminal, each with the names again."""
    first = max(len(head), *(len(name) for name in names))
    blocks: list[list[Line]] = [[]]
    left = WIDTH - first
    for line in lines:
        wide = BETWEEN + max(len(line[0]), *(len(cell or "-") for cell in line[1]))
        if wide > left and blocks[-1]:
            blocks.append([])
            left = WIDTH - first
        blocks[-1].append(line)
        left -= wide
    for i, block in enumerate(blocks):
        rows = [[name, *(cells[j] for _, cells in block)] for j, name in enumerate(names)]
        yield ComparisonTable(title if not i else "", [head, *(said for said, _ in block)], rows)


def turned(columns: Mapping[str, Sequence[Cell]]) -> list[list[Cell]]:
    """Columns as rows."""
    return [list(row) for row in zip(*columns.values(), strict=True)]
