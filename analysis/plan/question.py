"""The question to a plan, apart from sizes: GPUs, recipe, length, budget."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gputel.analysis.plan.calibrate import Calibration
from gputel.analysis.plan.inputs import Cluster, Size
from gputel.analysis.plan.memory import Recipe
from gputel.telemetry.errors import GputelError

TOKENS_PER_STEP = 524_288
BATCHES = (32, 16, 8, 4, 2, 1)


@dataclass(frozen=True)
class Question:
    """The question of a plan. `device_batch` None: the largest of `BATCHES` that fits.

    The length follows from the first given of `steps`, `tokens`, `hours` or `budget`, else from `ratio`."""

    machine: Cluster
    recipe: Recipe
    device_batch: int | None = None
    tokens_per_step: int = TOKENS_PER_STEP
    ratio: float = 20.0
    tokens: int | None = None
    steps: int | None = None
    hours: float | None = None
    budget: float | None = None
    price: float | None = None
    data_tokens: int | None = None
    save_every: int = 1000
    keep: int | None = None
    like: Calibration | None = None

    def dollars(self, hours: float) -> float | None:
        return None if self.price is None else hours * self.price * self.machine.count

    @property
    def most_hours(self) -> float | None:
        """The hours that time and budget allow."""
        if self.budget is None:
            return self.hours
        if self.price is None:
            raise GputelError(
                f"--budget {self.budget:g}", "needs the price of a GPU hour", "add --price", exit_code=2
            )
        paid = self.budget / (self.price * self.machine.count)
        return paid if self.hours is None else min(paid, self.hours)

    def recipes(self, seq: int) -> list[Recipe]:
        """Returns a recipe per batch that divides a step, largest first; or with the batch asked for."""
        if self.device_batch is not None:
            accumulation(self.tokens_per_step, self.device_batch, seq, self.machine.count)
            return [replace(self.recipe, device_batch=self.device_batch)]
        dividing = [
            batch for batch in BATCHES if not self.tokens_per_step % (batch * seq * self.machine.count)
        ]
        if not dividing:
            accumulation(self.tokens_per_step, 1, seq, self.machine.count)
        return [replace(self.recipe, device_batch=batch) for batch in dividing]

    def micro_batches(self, size: Size, recipe: Recipe) -> int:
        """Returns the micro-batches that a GPU accumulates in a step."""
        return accumulation(self.tokens_per_step, recipe.device_batch, size.shape.seq, self.machine.count)


def accumulation(tokens_per_step: int, device_batch: int, seq: int, gpus: int) -> int:
    """Returns micro-batches per step; raises GputelError, naming a total batch that works, if not whole."""
    at_once = device_batch * seq * gpus
    if tokens_per_step % at_once:
        near = max(1, round(tokens_per_step / at_once)) * at_once
        raise GputelError(
            f"--device-batch-size {device_batch}",
            f"{device_batch} x {seq} x {gpus} GPUs = {at_once:,} do not divide {tokens_per_step:,} tokens per step",
            f"take another batch, or --total-batch-size {near}",
            exit_code=2,
        )
    return tokens_per_step // at_once
