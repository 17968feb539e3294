"""A plan -> its document: what a run takes, its memory drawn, and where each figure comes from; and a plan's check.

No table is wider than 80 columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gputel.analysis import text
from gputel.analysis.document import Bars, Document, Section, Table
from gputel.analysis.plan import Plan, Target
from gputel.analysis.plan.check import CheckLine, PlanCheck
from gputel.analysis.plan.estimate import Estimate
from gputel.analysis.plan.memory import PARTS
from gputel.analysis.plan.rows import Row

Cell = Callable[[Estimate], str]
Column = tuple[str, str, Cell]  # heading, name of the figure, how it is written


def gib(value: float) -> str:
    """GiB to a tenth: more is not known."""
    return text.short(value, decimals=1)


def _span(figure: Estimate) -> str:
    return text.span(figure.low, figure.high)


def _value(figure: Estimate) -> str:
    return text.short(figure.value)


def _seconds(figure: Estimate) -> str:
    return text.short(figure.value / 1000)


def _seconds_span(figure: Estimate) -> str:
    return _span(figure / 1000)


def _gib(figure: Estimate) -> str:
    return gib(figure.value)


def _gib_span(figure: Estimate) -> str:
    return text.span(figure.low, figure.high, gib)


def _large(figure: Estimate) -> str:
    return text.count(figure.value)


def _full(figure: Estimate) -> str:
    return text.number(int(figure.value))


def lasting(figure: Estimate) -> str:
    return text.duration(3600 * figure.value)


TAKES: tuple[Column, ...] = (
    ("params", "parameters", _large),
    ("s/step", "dt_ms", _seconds_span),
    ("hours", "hours", _span),
    ("dollars", "dollars", _span),
    ("GiB/GPU", "memory_gib", _gib_span),
    ("spare", "spare_gib", _gib),
)
EXPECTED: tuple[Column, ...] = (
    ("tokens", "tokens", _large),
    ("MFU %", "mfu", _span),
    ("s/step", "dt_ms", _seconds),
    ("tok/s", "tok_per_sec", lambda figure: text.number(figure.value, 0)),
    ("hours", "hours", _value),
    ("dollars", "dollars", lambda figure: text.money(figure.value)),
    ("kWh", "energy_kwh", _span),
)
SHAPES: tuple[Column, ...] = (
    ("dim", "dim", _full),
    ("heads", "heads", _full),
    ("parameters", "parameters", _full),
    ("FLOPs/token", "flops_per_token", _full),
    ("batch", "device_batch", _full),
    ("micro", "accumulation", _full),
    ("steps", "steps", _full),
)
SHORT = {"gradients": "grads", "optimizer": "states", "activations": "activ."}
MEMORY: tuple[Column, ...] = (
    *((SHORT.get(name, name), f"{name}_gib", _gib_span) for name in PARTS),
    ("expected", "memory_gib", _gib),
)
DATA: tuple[Column, ...] = (
    ("shards", "shards", _span),
    ("epochs", "epochs", _value),
    ("evals %", "eval_percent", _value),
    ("range", "eval_percent", _span),
)
SAVES: tuple[Column, ...] = (
    ("saves", "checkpoints", lambda figure: f"{figure.value - 1:,}+1"),
    ("GB each", "checkpoint_gb", _value),
    ("model", "weights_gb", _value),
    ("GB kept", "disk_gb", _value),
    ("time lost", "interruption_hours", lasting),
    ("cost", "interruption_dollars", lambda figure: text.money(figure.value)),
)
NETWORK: tuple[Column, ...] = (
    ("GB sent", "sent_gb", _value),
    ("seconds", "communication_s", _value),
    ("range", "communication_s", _span),
    ("s/step", "dt_ms", _seconds),
)
ORIGINS = (
    ("parameters, FLOPs", "flops_per_token"),
    ("steps", "steps"),
    ("MFU, time, money", "mfu"),
    ("network", "communication_s"),
    ("weights and states", "weights_gib"),
    ("activations", "activations_gib"),
    ("logits", "logits_gib"),
    ("reserve", "reserve_gib"),
    ("power", "power_w"),
    ("startup", "start_s"),
    ("evaluations", "eval_hours"),
    ("checkpoints", "save_hours"),
    ("data", "shards"),
    ("interruption", "interruption_hours"),
)


NAMES = {
    "parameters": "parameters",
    "flops_per_token": "FLOPs/token",
    "steps": "steps",
    "dt_ms": "ms/step",
    "tok_per_sec": "tok/s",
    "mfu": "MFU %",
    "train_hours": "h in steps",
    "start_s": "s to start",
    "power_w": "W/GPU",
    "energy_kwh": "kWh in steps",
    "dollars": "$ in steps",
    "eval_hours": "h in evals",
    "save_hours": "h in saves",
    "allocated_gib": "GiB alloc.",
    "memory_gib": "GiB/GPU",
}


def plan_document(plan: Plan) -> Document:
    """Puts what the run takes first, then warnings, then the details."""
    first, *others = _tables(plan)
    caution = _caution(plan)
    notes = [note for note in _notes(plan) if note != caution]
    return Document(
        f"Plan on {plan.question.machine.words}",
        (
            Section(items=(first, _memory(plan))),
            *([Section("Notes", text="\n".join(notes))] if notes else []),
            Section("Details", others, wide=True),
        ),
        about=_about(plan),
        caution=caution,
    )


def check_document(check: PlanCheck) -> Document:
    """Each figure of a plan beside the run's own, with the error and whether it lies in the planned range."""
    rows = [
        [
            NAMES[line.name],
            _exact(line.planned.value),
            _span(line.planned) if line.planned.is_range else None,
            None if line.happened is None else _measured(line),
            None if line.error_percent is None else _error(line.error_percent),
            {True: "yes", False: "no", None: None}[line.within],
        ]
        for line in check.lines
    ]
    columns = ("", "planned", "range", "actual", "error", "in range")
    return Document(
        f"Check of {check.run}",
        (
            Section(items=(Table("", columns, rows),)),
            Section("Notes", text="\n".join(check.notes)),
        ),
        about=f"{check.run}: planned and actual",
    )


def _error(percent: float) -> str:
    return f"{round(percent, 1) + 0.0:+.1f}%" if abs(percent) < 100 else f"{percent:+.0f}%"


def _measured(line: CheckLine) -> str:
    """Formats `430,900 ±700`, without an error that the shown digits hide."""
    shown, error = _exact(line.happened or 0.0), line.error
    if error is None or not line.happened or error < 5e-4 * abs(line.happened):
        return shown
    return text.with_error(line.happened, error, max(0, 3 - math.floor(math.log10(abs(line.happened)))))


def _about(plan: Plan) -> str:
    question, machine = plan.question, plan.question.machine
    gpu, recipe = machine.gpu, plan.rows[0].recipe
    ways = [
        recipe.optimizer,
        recipe.dtype,
        "compiled" if recipe.compiled else "eager",
        "flash attention" if recipe.flash else "plain attention",
        f"{recipe.loss} loss",
        *(["recomputed"] if recipe.recompute else []),
        recipe.spread.words,
    ]
    price = "" if question.price is None else f", {text.money(question.price)}/h each"
    bits = "" if gpu.peak_tflops else " (fp16)"
    return (
        f"{_too_large(plan)}{machine.words}: {gpu.half_flops / 1e12:g} TFLOP/s{bits}, {gpu.memory_gib:g} GiB, "
        f"{gpu.power_w:g} W each{price}. {question.tokens_per_step:,} tokens/step, "
        f"sequences of {plan.rows[0].size.shape.seq:,}. {', '.join(ways)}."
    )


def _too_large(plan: Plan) -> str:
    """Says first of all which rows do not fit; "" if all do."""
    names = [row.name for row in plan.rows if row.fits == "no"]
    verb = "does" if len(names) == 1 else "do"
    memory = plan.question.machine.gpu.memory_gib
    return f"{', '.join(names)} {verb} not fit the {memory:g} GiB of a GPU.\n" if names else ""


def _caution(plan: Plan) -> str | None:
    """The caution of the run that the plan is corrected by."""
    run = plan.question.like.run if plan.question.like else None
    return f"{run.run}: {run.caution}" if run and run.caution else None


def _memory(plan: Plan) -> Bars:
    total = plan.question.machine.gpu.memory_gib
    return Bars(
        "memory",
        "Memory per GPU",
        "GiB",
        tuple(row.name for row in plan.rows),
        PARTS,
        np.round([[row.figures[f"{part}_gib"].value for part in PARTS] for row in plan.rows], 2),
        note=f"Expected use by part; a GPU has {total:g} GiB.",
        whole=total,
    )


def _tables(plan: Plan) -> Iterator[Table]:
    rows, memory = plan.rows, plan.question.machine.gpu.memory_gib
    yield _table("What it takes", TAKES, rows, ends=("fits", [row.fits for row in rows]))
    yield _table("Expected", EXPECTED, rows)
    yield _table("Shape; batch per GPU x micro-batches; steps", SHAPES, rows)
    yield _table(f"Memory per GPU in GiB, of {memory:g}", MEMORY, rows)
    yield _table("Data; evaluations in % of the time of all steps", DATA, rows)
    yield _table("Checkpoints (GB); average cost of an interruption", SAVES, rows)
    if any("sent_gb" in row.figures for row in rows):
        yield _table("Between GPUs, per step", NETWORK, rows)
    yield _origins(plan)


def _origins(plan: Plan) -> Table:
    """Where the figures of the first row come from; all rows have the same sources."""
    figures = plan.rows[0].figures
    cells = [("GPU", "assumed", "its maker's peak; memory as drivers report it, to 1%")]
    cells += [
        (words, figures[name].origin, "; ".join(figures[name].sources))
        for words, name in ORIGINS
        if name in figures
    ]
    return Table("Where the figures come from", ("figure", "origin", "source"), cells)


def _notes(plan: Plan) -> list[str]:
    """A sentence each: what does not fit and what would, warnings, target rates, the plan's own notes."""
    return [*_fit(plan), *_warnings(plan.rows), *map(_target, plan.targets), *plan.notes]


def _target(target: Target) -> str:
    if target.possible:
        return target.words
    return (
        f"{target.name}: impossible: {target.tok_per_sec:,.0f} tok/s is above the peak of these GPUs, "
        f"{target.most_tok_per_sec:,.0f} tok/s"
    )


def _fit(plan: Plan) -> Iterator[str]:
    total = plan.question.machine.gpu.memory_gib
    for row in plan.rows:
        if row.fits == "fits":
            continue
        needed = row.figures["memory_gib"]
        words = "does not fit" if row.fits == "no" else "is tight"
        ways = (
            f"would fit: {', or '.join(row.changes)}"
            if row.changes
            else "no recipe here and no GPU of the table would hold it"
        )
        yield f"{row.name} {words}: {_span(needed)} of {total:g} GiB; {ways}"


def _warnings(rows: Sequence[Row]) -> Iterator[str]:
    """A shape that is guessed for several rows is one sentence; all else stands row by row."""
    guessed = [row for row in rows if row.size.shape_is_guessed]
    if len(guessed) > 1:
        shapes = [
            f"{row.size.shape.depth} layers, {row.size.shape.dim:,} wide ({row.name})" for row in guessed
        ]
        yield f"no shape is given: memory and MFU are those of {'; '.join(shapes)}"
    for row in rows:
        warnings = row.warnings[1:] if len(guessed) > 1 and row in guessed else row.warnings
        yield from (f"{row.name} {warning}" for warning in warnings)


def _table(
    title: str, columns: Sequence[Column], rows: Sequence[Row], ends: tuple[str, list[str]] | None = None
) -> Table:
    """Leaves out columns that no row has."""
    shown = [column for column in columns if any(column[1] in row.figures for row in rows)]
    heads = ["", *(heading for heading, _, _ in shown)]
    cells: list[list[str | None]] = [
        [row.name, *(write(row.figures[name]) if name in row.figures else None for _, name, write in shown)]
        for row in rows
    ]
    if ends:
        heads.append(ends[0])
        cells = [[*row, end] for row, end in zip(cells, ends[1], strict=True)]
    return Table(title, heads, cells)


def _exact(value: float) -> str:
    return text.number(value, 0) if abs(value) >= 1000 else text.short(float(value))
