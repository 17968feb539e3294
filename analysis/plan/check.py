"""A finished run -> PlanCheck: what would have been planned beside what was measured, with the error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gputel.analysis import text
from gputel.analysis.document import as_json
from gputel.analysis.plan import memory
from gputel.analysis.plan.calibrate import Calibration
from gputel.analysis.plan.estimate import Estimate, Figures
from gputel.analysis.plan.memory import GIB, Recipe
from gputel.analysis.plan.past_runs import PastRun, happened
from gputel.analysis.plan.question import BATCHES, TOKENS_PER_STEP, Question
from gputel.analysis.plan.rows import memory_parts, row
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.plan.inputs import Cluster, Size
    from gputel.analysis.runs import RunData

SCHEMA = 1


@dataclass(frozen=True)
class CheckLine:
    """One figure; `happened` is None if it was not measured, `error` if its error is not known."""

    name: str
    planned: Estimate
    happened: float | None
    error: float | None = None

    @property
    def error_percent(self) -> float | None:
        return 100 * (self.planned.value / self.happened - 1) if self.happened else None

    @property
    def within(self) -> bool | None:
        """Whether the measured value is within the range; None without a range or a measured value."""
        if self.happened is None or not self.planned.is_range:
            return None
        return self.planned.low <= self.happened <= self.planned.high


@dataclass(frozen=True)
class PlanCheck:
    run: str
    lines: tuple[CheckLine, ...]
    notes: tuple[str, ...]


def check_plan(
    subject: RunData,
    recipe: Recipe,
    given: Cluster | None = None,
    like: Calibration | None = None,
    price: float | None = None,
    named: Size | None = None,
) -> PlanCheck:
    """Plans with the run's size, batch and GPUs only, calibrated by an earlier run `like`, and compares.

    `named` is its size, if it prints none.
    """
    run = happened(subject, recipe, given, named)
    if run.machine is None:
        raise GputelError(run.run, "does not name its GPUs", "name them, such as --on 2xH100")
    asked = Question(
        run.machine,
        run.recipe,
        device_batch=_batch(run, run.machine),
        tokens_per_step=run.tokens_per_step or TOKENS_PER_STEP,
        steps=max(1, run.steps),
        price=price,
        like=like,
    )
    lines = [replace(line, error=_error(run, line)) for line in _lines(run, asked)]
    return PlanCheck(run.run, tuple(lines), tuple(_notes(run, asked)))


def _error(run: PastRun, line: CheckLine) -> float | None:
    """Returns the error of a measured figure; MFU has that of the throughput, dollars that of the hours."""
    base, value = {
        "mfu": ("tok_per_sec", _value(run.tok_per_sec)),
        "dollars": ("train_hours", run.hours),
    }.get(line.name, (line.name, line.happened))
    error = run.errors.get(base)
    return None if error is None or line.happened is None or not value else error * line.happened / value


def answer(check: PlanCheck) -> dict[str, Any]:
    report = {
        "schema": SCHEMA,
        "run": check.run,
        "figures": [
            {
                "name": line.name,
                "planned": line.planned.value,
                "low": line.planned.low,
                "high": line.planned.high,
                "origin": line.planned.origin,
                "from": list(line.planned.sources),
                "happened": line.happened,
                "happened_error": line.error,
                "error_percent": line.error_percent,
                "within": line.within,
            }
            for line in check.lines
        ],
        "notes": check.notes,
    }
    return dict(as_json(report))


def _batch(run: PastRun, machine: Cluster) -> int | None:
    """Returns the run's device batch; if unknown, the largest that divides a step."""
    at_once = run.asked.shape.seq * machine.count
    per_step = run.tokens_per_step or TOKENS_PER_STEP
    batches = BATCHES if run.device_batch is None else (run.device_batch,)
    return next((batch for batch in batches if not per_step % (batch * at_once)), None)


def _lines(run: PastRun, asked: Question) -> Iterator[CheckLine]:
    """Yields all figures, most asked first, including those that the run does not have."""
    planned = row(asked, run.asked)
    whole = row(replace(asked, steps=None), run.asked)
    figures = planned.figures
    yield CheckLine("parameters", figures["parameters"], run.parameters)
    yield CheckLine("flops_per_token", figures["flops_per_token"], run.flops_per_token)
    yield CheckLine("steps", whole.figures["steps"], run.total_steps)
    yield CheckLine("dt_ms", figures["dt_ms"], _value(run.dt_ms))
    yield CheckLine("tok_per_sec", figures["tok_per_sec"], _value(run.tok_per_sec))
    yield CheckLine("mfu", figures["mfu"], _value(run.mfu))
    yield CheckLine("train_hours", figures["train_hours"], run.hours)
    yield from _costs(run, asked, figures)
    yield CheckLine("start_s", figures["start_s"], run.did.start_s)
    yield CheckLine("eval_hours", figures["eval_hours"], run.did.eval_hours)
    yield CheckLine("save_hours", figures["save_hours"], run.did.save_hours)
    if run.allocated_gib is not None or run.used_gib is None:
        yield CheckLine("allocated_gib", _allocated(run, asked, planned.recipe), run.allocated_gib)
    if run.used_gib is not None:
        yield CheckLine("memory_gib", figures["memory_gib"], run.used_gib)


def _costs(run: PastRun, asked: Question, figures: Figures) -> Iterator[CheckLine]:
    """Yields energy and cost of the training steps alone, as every log has these hours."""
    gpus, hours, watts = asked.machine.count, figures["train_hours"], _value(run.watts)
    used = None if watts is None or run.hours is None else watts * run.hours * gpus / 1000
    yield CheckLine("power_w", figures["power_w"], watts)
    yield CheckLine("energy_kwh", hours * figures["power_w"] * (gpus / 1000), used)
    if asked.price is not None:
        paid = None if run.hours is None else asked.dollars(run.hours)
        yield CheckLine("dollars", hours * (asked.price * gpus), paid)


def _allocated(run: PastRun, asked: Question, recipe: Recipe) -> Estimate:
    return memory.allocated(memory_parts(asked, run.asked, recipe)) / GIB


def _value(figure: Estimate | None) -> float | None:
    return None if figure is None else figure.value


def _notes(run: PastRun, asked: Question) -> Iterator[str]:
    doubtful = f"carried over from {asked.like.name}" if asked.like else "assumed"
    yield f"figures without a range are computed; those with one are {doubtful}"
    if run.caution:
        yield f"{run.run}: {run.caution}"
    if run.not_measured:
        yield run.not_measured
    if run.total_steps and run.steps < run.total_steps:
        yield f"hours are those of the {run.steps:,} completed steps, of {run.total_steps:,}"
    if run.device_batch is None:
        yield f"{run.run} does not print its device batch; the largest that divides a step was planned"
    if run.size.parameters != run.asked.parameters:
        yield (
            f"{run.run} has {run.size.parameters:,} parameters and its shape {run.asked.parameters:,}: "
            "its architecture differs"
        )
    yield from _memory_notes(run, asked)


def _memory_notes(run: PastRun, asked: Question) -> Iterator[str]:
    """Names the recipe that is nearest to the measured memory, if that is outside the planned range."""
    if run.allocated_gib is None or asked.device_batch is None:
        return
    recipe = replace(asked.recipe, device_batch=asked.device_batch)
    planned = _allocated(run, asked, recipe)
    if planned.low <= run.allocated_gib <= planned.high:
        return
    others = {
        "eager": replace(recipe, compiled=False),
        "chunked loss": replace(recipe, loss="chunked"),
        "recomputed": replace(recipe, recompute=True),
        "sharded optimizer": replace(recipe, shard="zero1"),
        "without flash attention": replace(recipe, flash=False),
    }
    sizes = {name: _allocated(run, asked, other).value for name, other in others.items()}
    name, nearest = min(sizes.items(), key=lambda item: abs(item[1] - run.allocated_gib))  # type: ignore[operator]
    more = run.allocated_gib - planned.value
    yield (
        f"it used {text.short(abs(more))} GiB {'more' if more > 0 else 'less'} than planned; "
        f"the nearest other recipe is {name}, {text.short(nearest)} GiB"
    )
