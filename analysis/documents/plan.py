"""A plan, or a check of one, as tables for people: none wider than 80 columns. Pages show the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gputel.analysis import text
from gputel.analysis.document import Bars, Document, Section, Table
from gputel.analysis.plan import Plan
from gputel.analysis.plan.check import PlanCheck
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
    ("s a step", "dt_ms", _seconds_span),
    ("hours", "hours", _span),
    ("dollars", "dollars", _span),
    ("GiB a GPU", "memory_gib", _gib_span),
    ("spare", "spare_gib", _gib),
)
EXPECTED: tuple[Column, ...] = (
    ("tokens", "tokens", _large),
    ("MFU %", "mfu", _span),
    ("s a step", "dt_ms", _seconds),
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
    ("likely", "memory_gib", _gib),
)
DATA: tuple[Column, ...] = (
    ("shards", "shards", _span),
    ("epochs", "epochs", _value),
)
SAVES: tuple[Column, ...] = (
    ("saves", "checkpoints", lambda figure: f"{figure.value - 1:,}+1"),
    ("GB each", "checkpoint_gb", _value),
    ("model", "weights_gb", _value),
    ("GB kept", "disk_gb", _value),
    ("a stop", "interruption_hours", lasting),
    ("or", "interruption_dollars", lambda figure: text.money(figure.value)),
)
NETWORK: tuple[Column, ...] = (
    ("GB sent", "sent_gb", _value),
    ("takes s", "communication_s", _value),
    ("range", "communication_s", _span),
    ("of s a step", "dt_ms", _seconds),
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
    ("start", "start_s"),
    ("evaluating", "eval_hours"),
    ("saving", "save_hours"),
    ("data", "shards"),
    ("a stop", "interruption_hours"),
)


def heading(plan: Plan) -> str:
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
    paid = "" if question.price is None else f", {text.money(question.price)} an hour each"
    bits = "" if gpu.peak_tflops else " (fp16)"
    return (
        f"{machine.words}: {gpu.half_flops / 1e12:g} TFLOP/s{bits}, {gpu.memory_gib:g} GiB, "
        f"{gpu.power_w:g} W each{paid}. {question.tokens_per_step:,} tokens a step, "
        f"sequences of {plan.rows[0].size.shape.seq:,}. {', '.join(ways)}."
    )


def tables(plan: Plan) -> list[Table]:
    rows, memory = plan.rows, plan.question.machine.gpu.memory_gib
    fits = [row.fits for row in rows]
    found = [
        _table("What it takes", TAKES, rows, ends=("fits", fits)),
        _table("As expected", EXPECTED, rows),
        _table("Shape; batch of a GPU x micro-batches; steps", SHAPES, rows),
        _table(f"Memory of a GPU in GiB, of {memory:g}", MEMORY, rows),
        _table("Data", DATA, rows),
        _table("Checkpoints (GB); what a stop costs on average", SAVES, rows),
    ]
    if any("sent_gb" in row.figures for row in rows):
        found.append(_table("Between GPUs, in a step", NETWORK, rows))
    return [*found, origins(plan)]


def plan_document(plan: Plan) -> Document:
    """The tables of the terminal, and the memory drawn."""
    there = plan.question.machine.gpu.memory_gib
    memory = Bars(
        "memory",
        "Memory of a GPU",
        "GiB",
        tuple(row.name for row in plan.rows),
        PARTS,
        np.round([[row.figures[f"{part}_gib"].value for part in PARTS] for row in plan.rows], 2),
        note=f"As likeliest; a track is the {there:g} GiB of a GPU.",
        whole=there,
    )
    first, *others = tables(plan)
    said = (
        [Table("What must be said", ("",), [[remark] for remark in remarks(plan)])] if remarks(plan) else []
    )
    return Document(
        f"Plan on {plan.question.machine.words}",
        (
            Section(items=(first, memory, *said)),
            Section("In detail", others, wide=True),
        ),
        about=heading(plan),
        caution=_caution(plan),
    )


def _caution(plan: Plan) -> str | None:
    """What must be said of the run that the plan is corrected by."""
    run = plan.question.like.run if plan.question.like else None
    return f"{run.run}: {run.caution}" if run and run.caution else None


def origins(plan: Plan) -> Table:
    """Where the figures come from; of the first row, for all rows have the same sources."""
    figures = plan.rows[0].figures
    cells = [("GPU", "assumed", "its maker's peak; memory as drivers report it, to 1%")]
    cells += [
        (words, figures[name].origin, "; ".join(figures[name].sources))
        for words, name in ORIGINS
        if name in figures
    ]
    return Table("Where the figures come from", ("figure", "origin", "by"), cells)


def remarks(plan: Plan) -> list[str]:
    """A sentence each: what does not fit and what would, warnings, targets, and what a run told or not."""
    return [*_fit(plan), *_warnings(plan.rows), *(target.words for target in plan.targets), *plan.notes]


def check_table(found: PlanCheck) -> Table:
    rows = [
        [
            NAMES[line.name],
            _exact(line.planned.value),
            _span(line.planned) if line.planned.is_range else None,
            None if line.happened is None else _exact(line.happened),
            None if line.error_percent is None else f"{round(line.error_percent, 1) + 0.0:+.1f}%",
            {True: "yes", False: "no", None: None}[line.within],
        ]
        for line in found.lines
    ]
    columns = ("", "planned", "range", "happened", "error", "within")
    return Table(f"{found.run}: planned and happened", columns, rows)


NAMES = {
    "parameters": "parameters",
    "flops_per_token": "FLOPs a token",
    "steps": "steps",
    "dt_ms": "ms a step",
    "tok_per_sec": "tok/s",
    "mfu": "MFU %",
    "train_hours": "hours of steps",
    "start_s": "s to start",
    "power_w": "W a GPU",
    "energy_kwh": "kWh of steps",
    "dollars": "$ of steps",
    "eval_hours": "h evaluating",
    "save_hours": "h saving",
    "allocated_gib": "GiB allocated",
    "memory_gib": "GiB a GPU",
}


def _fit(plan: Plan) -> Iterator[str]:
    there = plan.question.machine.gpu.memory_gib
    for row in plan.rows:
        if row.fits == "fits":
            continue
        needed = row.figures["memory_gib"]
        words = "does not fit" if row.fits == "no" else "is tight"
        ways = (
            f"would fit: {', or '.join(row.changes)}"
            if row.changes
            else "no recipe here, and no GPU of the table, would hold it"
        )
        yield f"{row.name} {words}: {_span(needed)} of {there:g} GiB; {ways}"


def _warnings(rows: Sequence[Row]) -> Iterator[str]:
    """What is guessed of several rows in one sentence; all else row by row."""
    guessed = [row for row in rows if row.size.shape_is_guessed]
    if len(guessed) > 1:
        shapes = [
            f"{row.size.shape.depth} layers, {row.size.shape.dim:,} wide ({row.name})" for row in guessed
        ]
        yield f"no shape is given: memory and MFU are those of {'; '.join(shapes)}"
    for row in rows:
        told = row.warnings[1:] if len(guessed) > 1 and row in guessed else row.warnings
        yield from (f"{row.name} {warning}" for warning in told)


def _table(
    title: str, columns: Sequence[Column], rows: Sequence[Row], ends: tuple[str, list[str]] | None = None
) -> Table:
    """Columns that no row has are left out."""
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
