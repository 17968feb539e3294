"""A finished run -> Calibration: its measured figures replace the assumed ones of a plan."""

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

ALIKE = 0.05  # relative difference in memory between runs of the same size


@dataclass(frozen=True)
class Moving:
    """Bytes of a micro-batch: the excess of the measured over the computed, and the computed parts.

    A peak does not show whether the excess is in the layers or in the loss. One grows with depth, the other does
    not, so for another size the result is a range between the two.
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
        measured_activations = measured(
            (low + high) / 2, self.source, low=max(0.0, low - doubt), high=high + doubt
        )
        return parts | {"activations": measured_activations, "logits": measured(logits, self.source)}


@dataclass(frozen=True)
class Calibration:
    """What a run teaches. `moving` is None if its memory cannot be transferred; `notes` say what stays assumed."""

    run: PastRun
    moving: Moving | None
    habits: Habits
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.run.run


def calibration(subject: RunData, recipe: Recipe, given: Cluster | None = None) -> Calibration:
    """Calibrates by a run; `given` are its GPUs, named by hand."""
    run = happened(subject, recipe, given)
    moving, why_not = _moving(run)
    notes = [run.caution and f"{run.run}: {run.caution}", run.not_measured or why_not]
    if not run.simulated:
        notes += [f"{run.run} has no {name}; it stays assumed" for name in _missing(run)]
    return Calibration(run, moving, _habits(run), tuple(note for note in notes if note))


def _moving(run: PastRun) -> tuple[Moving | None, str | None]:
    """Compares the measured and the computed peak; returns the reason if one of them is unknown."""
    by_framework = run.allocated_gib is not None
    peak_gib = run.allocated_gib if by_framework else run.used_gib
    if peak_gib is None:
        return None, f"{run.run} has no memory figures; memory stays assumed"
    machine, batch, per_step = run.machine, run.device_batch, run.tokens_per_step
    if machine is None or batch is None or per_step is None:
        return (
            None,
            f"{run.run} does not name its GPUs or device batch, so its memory cannot be transferred to other sizes",
        )
    accumulation = max(1, per_step // (batch * run.size.shape.seq * machine.count))
    parts = gpu_memory(run.size, replace(run.recipe, device_batch=batch), machine, accumulation)
    computed_peak = (memory.allocated if by_framework else memory.total)(parts)
    moving = Moving(
        peak_gib * GIB - computed_peak.value,
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
    """Returns the assumed habits, corrected by the run's timestamps."""
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
