"""What a run that has happened teaches about the next: measured figures in place of assumed ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gputel.analysis.plan import memory, pace
from gputel.analysis.plan.estimate import measured
from gputel.analysis.plan.inputs import Cluster
from gputel.analysis.plan.memory import GIB, Memory, Recipe, gpu_memory
from gputel.analysis.plan.pace import HABITS, Habits
from gputel.analysis.plan.past_runs import PastRun, happened

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData

ALIKE = 0.05  # how exactly a run repeats the memory of another of its own size


@dataclass(frozen=True)
class Moving:
    """Bytes that come and go with a micro-batch: how many more were held than were reckoned, and what was reckoned.

    Whether the difference lies in the layers or in the loss cannot be told from a peak. One grows with depth, the
    other does not: carried to another size it is a range between the two.
    """

    excess: float
    activations: float
    logits: float
    source: str

    def carried(self, parts: Memory) -> Memory:
        activations, logits = parts["activations"].value, parts["logits"].value
        ways = [self.excess * activations / self.activations, self.excess * logits / self.logits]
        low, high = (max(0.1 * activations, activations + way) for way in (min(ways), max(ways)))
        doubt = ALIKE * (low + high) / 2
        held = measured((low + high) / 2, self.source, low=max(0.0, low - doubt), high=high + doubt)
        return parts | {"activations": held, "logits": measured(logits, self.source)}


@dataclass(frozen=True)
class Calibration:
    """`moving` is None where the run's memory says nothing of other sizes; `notes` say what stays assumed."""

    run: PastRun
    moving: Moving | None
    habits: Habits
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.run.run


def calibration(subject: RunData, recipe: Recipe, given: Cluster | None = None) -> Calibration:
    """`given` are the GPUs that it ran on, named by hand."""
    run = happened(subject, recipe, given)
    moving, why_not = _moving(run)
    notes = [run.caution and f"{run.run}: {run.caution}", why_not]
    notes += [f"{run.run} tells no {name}; it stays assumed" for name in _missing(run)]
    return Calibration(run, moving, _habits(run), tuple(note for note in notes if note))


def _moving(run: PastRun) -> tuple[Moving | None, str | None]:
    """By the peak that was measured and the one that was reckoned; or why they are not known."""
    told_by_framework = run.allocated_gib is not None
    peak_gib = run.allocated_gib if told_by_framework else run.used_gib
    if peak_gib is None:
        return None, f"{run.run} tells no memory; it stays assumed"
    machine, batch, per_step = run.machine, run.device_batch, run.tokens_per_step
    if machine is None or batch is None or per_step is None:
        return (
            None,
            f"{run.run} does not tell its GPUs or the batch of one; its memory says nothing of other sizes",
        )
    accumulation = max(1, per_step // (batch * run.size.shape.seq * machine.count))
    parts = gpu_memory(run.size, replace(run.recipe, device_batch=batch), machine, accumulation)
    reckoned = (memory.allocated if told_by_framework else memory.total)(parts)
    moving = Moving(
        peak_gib * GIB - reckoned.value,
        parts["activations"].value,
        parts["logits"].value,
        f"memory of {run.run}",
    )
    return moving, None


def _missing(run: PastRun) -> Iterator[str]:
    if run.mfu is None:
        yield "MFU"
    if run.watts is None:
        yield "power"


def _habits(run: PastRun) -> Habits:
    """The assumed ones, but for what the stamps of the run's lines tell."""
    did, habits = run.did, HABITS
    if did.start_s is not None:
        habits = replace(habits, start_s=measured(did.start_s, f"start of {run.run}"))
    if did.evaluation_s is not None and run.tok_per_sec is not None:
        work = measured(did.evaluation_s * run.tok_per_sec.value, f"evaluations of {run.run}")
        habits = replace(habits, eval_work=work, eval_every=max(1.0, run.steps / did.evaluations))
    if did.checkpoint_s:
        size = pace.schedule(run.size, run.recipe, 1, 0, None).checkpoint_bytes
        habits = replace(habits, disk_bytes_s=measured(size / did.checkpoint_s, f"checkpoints of {run.run}"))
    return habits
