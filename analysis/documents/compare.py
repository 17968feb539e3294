"""A comparison -> its document: a summary, the metric's curves, milestones, settings, the scaling law, notes.

A fact that no run has is left out; one that a run lacks is None in its cell. Up to four runs are columns, more are
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

from gputel.analysis import text
from gputel.analysis.compare.axes import AXES
from gputel.analysis.compare.uncertainty import ERRORS
from gputel.analysis.document import Document, Panel, Section, Table

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.compare import Comparison
    from gputel.analysis.compare.scaling import Next

Form: TypeAlias = "Callable[..., str]"  # of a value, and of its error where it has one
Cell: TypeAlias = "str | None"
Line: TypeAlias = "tuple[str, list[Cell]]"  # a name, and a cell a run
Forms: TypeAlias = tuple[tuple[str, str, Form], ...]  # column of the summary, its name, how it is written

BESIDE = 4  # the most runs that are columns
SHORT = 40  # letters of a command that is shown whole
UNITS = {"tokens": " tokens", "flops": " FLOPs"}
AMOUNTS: Mapping[str, Form] = {
    "step": text.step, "tokens": text.count, "time": text.duration, "flops": text.count, "energy": text.energy,
    "cost": text.money,
}  # fmt: skip
SIZES: Forms = (
    ("depth", "depth", text.step),
    ("parameters", "parameters", text.count),
    ("gpus", "GPUs", text.step),
    ("steps", "steps", text.step),
    ("tokens", "tokens", text.count_with_error),
    ("tokens_per_parameter", "tokens/parameter", text.count),
    ("time_s", "time", text.duration),
    ("flops", "FLOPs", text.count),
    ("energy_j", "energy", text.energy),
    ("cost", "cost", text.money),
)
RATES: Forms = (
    ("tok_per_sec", "tok/s", partial(text.with_error, error=None, decimals=0)),
    ("mfu", "MFU %", partial(text.with_error, error=None, decimals=1)),
    ("j_per_token", "J/token", text.four_digits),
    ("power_mean_w", "mean W", text.step),
    ("power_peak_w", "peak W", text.step),
    ("mem_peak_mib", "peak MiB, driver", text.step),
    ("mem_printed_mib", "peak MiB, printed", text.step),
    ("interruptions", "interruptions", text.count),
)
POINTS = ("depth", "parameters", "tokens", "flops", "loss")
MEANING = {"parameters": "N parameters", "tokens": "D tokens", "flops": "C FLOPs"}


def comparison_document(comparison: Comparison, *, drawn: bool = True) -> Document:
    """`drawn=False` leaves out the panels, which take time and which a terminal cannot show."""
    runs = comparison.runs
    first = list(_by_run(f"Summary{_smoothing(comparison)}", list(_summary(comparison)), comparison.runs))
    tables = list(_tables(comparison))
    notes = Section("Notes", text="\n".join(_notes(comparison)))
    code = Section("Code that differs", text="\n".join(comparison.code_changes), code=True)
    if drawn:
        metric, sizes, others = _panels(comparison)
        sections = [
            Section(items=[*first, *metric]),
            Section("Side by side", tables),
            sizes,
            others,
            notes,
            code,
        ]
    else:
        sections = [Section("Side by side", [*first, *tables]), notes, code]
    return Document(
        title=" and ".join(runs) if len(runs) < 4 else f"{len(runs)} runs",
        sections=[section for section in sections if section.items or section.text],
        about=about(comparison),
        caution=_caution(comparison),
        doubts=[f"{run}: {doubt.text}" for run, doubts in comparison.doubts.items() for doubt in doubts],
        runs=runs,
    )


def about(comparison: Comparison) -> str:
    """`phase base of 2 runs: loss by step`, and which other phases the runs share."""
    others = [phase for phase in comparison.phases if phase != comparison.phase]
    also = f" (also shared: {', '.join(others)}; --phase chooses)" if others else ""
    groups = f" in {text.counted(len(comparison.runs), 'group')}" if comparison.groups else ""
    return (
        f"phase {comparison.phase} of {len(comparison.lines)} runs{groups}{also}: "
        f"{comparison.metric} by {comparison.by}"
    )


def law_tables(comparison: Comparison) -> Iterator[Table]:
    """The points, the constants and the next size of the scaling law; nothing where there is no law."""
    scaling = comparison.scaling
    if scaling.law is None or scaling.next is None:
        return
    points = [
        [row["run"], *(_point(name, row[name]) for name in POINTS), "yes" if row["frontier"] else ""]
        for row in scaling.points.iter_rows(named=True)
    ]
    heads = ["run", "depth", "parameters", "tokens", "FLOPs", comparison.metric, "frontier"]
    yield Table("By size; on the frontier no run did better with less compute", heads, points)
    meaning = ", ".join(MEANING[term] for term in scaling.terms)
    constants = [[name, *(f"{value:.4g}" for value in values)] for name, values in scaling.constants.items()]
    title = f"{scaling.formula} ({meaning}); runs are off by {scaling.law.deviation:.2g}"
    yield Table(title, ["", "value", "95 % from", "to"], constants)
    size = f"depth {scaling.next.depth}" if scaling.next.depth else "the next size"
    title = f"Estimate for {size} at the pace of {scaling.points['run'][-1]}"
    yield Table(title, ["", size], _next_size(scaling.next, comparison.metric))


def without_shared(commands: Sequence[Cell]) -> list[Cell]:
    """Long commands without the options that all of them have: `… --depth 4 … --out runs/d4`."""
    if max(len(command or "") for command in commands) <= SHORT:
        return list(commands)
    options = [_options(command or "") for command in commands]
    shared = set.intersection(*(set(row) for row, command in zip(options, commands, strict=True) if command))
    return [
        _shortened(row, shared) if command else None for row, command in zip(options, commands, strict=True)
    ]


def _panels(comparison: Comparison) -> tuple[list[Panel], Section, Section]:
    from gputel.analysis.documents.panels import metrics, sizes

    first, *others = metrics.panels(comparison)
    between: list[Panel] = [
        panel for panel in (metrics.bands(comparison), metrics.differences(comparison)) if panel
    ]
    return (
        [first, *between],
        Section("Across sizes", list(sizes.panels(comparison))),
        Section("Other metrics", others),
    )


def _caution(comparison: Comparison) -> str | None:
    """Each caution once, after the names of its runs."""
    cautions = comparison.cautions
    return (
        "; ".join(
            f"{text.names(run for run, words in cautions.items() if words == caution)}: {caution}"
            for caution in dict.fromkeys(cautions.values())
        )
        or None
    )


def _notes(comparison: Comparison) -> list[str]:
    """The comparison's own, and why there is no scaling law where sizes differ."""
    differ = comparison.summary["parameters"].drop_nulls().n_unique() > 1
    why = comparison.scaling.why if differ else None
    if why and not comparison.scaling.law:
        why = f"no scaling law: {why}"
    return [*comparison.notes, *([why] if why else [])]


def _tables(comparison: Comparison) -> Iterator[Table]:
    yield from _milestones(comparison)
    yield from _by_run("Settings that differ", list(_settings(comparison)), comparison.runs)
    yield from law_tables(comparison)


def _milestones(comparison: Comparison) -> Iterator[Table]:
    frame, first = comparison.milestones, comparison.runs[0]
    points = frame["x"].unique(maintain_order=True).to_list()
    if not points:
        return
    title = f"{comparison.metric} at milestones, as printed, not smoothed"
    heads = [AMOUNTS[comparison.by](x) for x in points]
    values = _cells(frame, "value", text.number, marked=comparison.by == "step")
    differences = _cells(frame.filter(frame["run"] != first), "difference", text.difference)
    if len(comparison.runs) == 2:
        values["difference"] = differences.popitem()[1]
    yield _milestone_table(title, comparison, heads, values)
    if differences:
        yield _milestone_table(f"Difference from {first}", comparison, heads, differences)


def _milestone_table(
    title: str, comparison: Comparison, heads: list[str], cells: Mapping[str, list[Cell]]
) -> Table:
    if len(comparison.runs) > BESIDE:
        return Table(title, ["run", *heads], [[run, *row] for run, row in cells.items()], keep_empty=True)
    rows = list(zip(heads, *cells.values(), strict=True))
    return Table(title, [AXES[comparison.by].name, *cells], rows, keep_empty=True)


def _summary(comparison: Comparison) -> Iterator[Line]:
    """How each run ended and with what loss, then what it is and took."""
    yield "status", comparison.summary["status"].to_list()
    if comparison.groups is None:
        last = {
            curve.track.name: text.number(float(curve.y[-1])) for curve in comparison.lines if len(curve.y)
        }
        yield f"last {comparison.metric}", [last.get(run) for run in comparison.runs]
    yield from _facts(comparison.summary, SIZES)
    yield from _validations(comparison)
    for (axis, x), rows in comparison.equal.group_by("axis", "x", maintain_order=True):
        cells = _cells(rows, "value", text.number)
        yield f"{comparison.metric} at {_place(str(axis), x)}", [cells[run][0] for run in comparison.runs]
    yield from _targets(comparison)
    yield from _facts(comparison.summary, RATES)


def _facts(summary: pl.DataFrame, forms: Forms) -> Iterator[Line]:
    for column, name, form in forms:
        values = summary[column].to_list()
        errors = summary[ERRORS[column]].to_list() if column in ERRORS else [None] * len(values)
        if any(value is not None for value in values):
            cells = zip(values, errors, strict=True)
            yield name, [None if value is None else _cell(form, value, error) for value, error in cells]


def _cell(form: Form, value: float, error: float | None) -> str:
    return form(value) if error is None else form(value, error=error)


def _validations(comparison: Comparison) -> Iterator[Line]:
    for (name,), rows in comparison.validations.group_by("name", maintain_order=True):
        by_run = {row["run"]: row for row in rows.iter_rows(named=True)}
        for which in ("best", "last") if rows["best"].count() else ("last",):
            cells = [_at(by_run[run], which) if run in by_run else None for run in comparison.runs]
            yield f"{which} {name} @ step", cells


def _at(row: Mapping[str, Any], which: str) -> str:
    return f"{text.number(row[which])} @ {text.step(row[f'{which}_step'])}"


def _targets(comparison: Comparison) -> Iterator[Line]:
    for (metric, target), rows in comparison.targets.group_by("metric", "target", maintain_order=True):
        for axis in AXES.values():
            by_run = _cells(rows, axis.column, AMOUNTS[axis.name])
            cells = [by_run[run][0] for run in comparison.runs]
            if any(cells) or axis.name == "step":
                yield f"{axis.word} to {metric} {target:g}", cells


def _settings(comparison: Comparison) -> Iterator[Line]:
    for (name,), rows in comparison.settings.group_by("setting", maintain_order=True):
        values = rows["value"].to_list()
        yield str(name), without_shared(values) if name == "command" else values


def _options(command: str) -> list[str]:
    """Words, an option with its value as one."""
    options: list[str] = []
    for word in command.split():
        if options and options[-1].startswith("-") and " " not in options[-1] and not word.startswith("-"):
            options[-1] += f" {word}"
        else:
            options.append(word)
    return options


def _shortened(options: Sequence[str], shared: set[str]) -> str:
    return " ".join("…" if cut else " ".join(run) for cut, run in groupby(options, shared.__contains__))


def _by_run(title: str, lines: Sequence[Line], runs: Sequence[str]) -> Iterator[Table]:
    """Few runs are columns, many are rows."""
    if lines and len(runs) <= BESIDE:
        yield Table(title, ["", *runs], [[name, *cells] for name, cells in lines], keep_empty=True)
    elif lines:
        rows = list(zip(runs, *(cells for _, cells in lines), strict=True))
        yield Table(title, ["run", *(name for name, _ in lines)], rows, keep_empty=True)


def _cells(frame: pl.DataFrame, column: str, form: Form, *, marked: bool = False) -> dict[str, list[Cell]]:
    """The cells of each run, in the order of the rows; `marked` puts ~ before a value between two records."""
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


def _smoothing(comparison: Comparison) -> str:
    window = comparison.window
    return f"; {comparison.metric} is the mean of the last {window:g} steps" if window and window > 1 else ""


def _point(name: str, value: float | None) -> Cell:
    form = {"depth": text.step, "loss": text.number}.get(name, text.count)
    return None if value is None else form(value)


def _next_size(ahead: Next, metric: str) -> list[list[str]]:
    low, high = (text.number(value) for value in ahead.loss[1:])
    facts = {
        "parameters": text.count(ahead.parameters),
        "tokens": text.count(ahead.tokens),
        "FLOPs": text.count(ahead.flops),
        metric: f"{text.number(ahead.loss.value)} ({low} to {high})",
        "time": None if ahead.hours is None else text.duration(ahead.hours * 3600),
        "energy": None if ahead.energy_j is None else text.energy(ahead.energy_j),
        "cost": None if ahead.cost is None else text.money(ahead.cost),
    }
    return [[name, value] for name, value in facts.items() if value]
