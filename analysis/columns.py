"""Names, types and units of every table: the one place that decides what a column is called and kept in.

Telemetry's columns are declared by `telemetry/readings.py`. A metric that is not named here keeps its own printed
name, with its unit behind it, as a 64-bit float.
"""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    """`unit` is what the numbers are in; None where they have none or keep the printed one."""

    name: str
    kind: str  # "whole", "number", "text" or "time"
    unit: str | None
    meaning: str


STEPS = (
    Column("step", "whole", None, "the optimizer step, else iteration, else batch, else a whole epoch"),
    Column("total_steps", "whole", None, "how many steps the run is to have"),
    Column("epoch", "number", None, "as printed; fractions too"),
    Column("loss", "number", None, "the total training loss, the current one"),
    Column("lr", "number", None, "learning rate"),
    Column("lrm", "number", None, "multiplier of the learning rate"),
    Column("grad_norm", "number", None, "norm of the gradient"),
    Column("dt_ms", "number", "ms", "time of a step"),
    Column("tok_per_sec", "number", "tok/s", "throughput"),
    Column("mfu", "number", "%", "model FLOPs utilisation"),
    Column("total_time_min", "number", "min", "training time so far"),
    Column("tokens", "number", None, "tokens so far"),
    Column("eta_min", "number", "min", "time left"),
    Column("time", "time", None, "when the line was written"),
)
PLACE = (
    Column("phase", "text", None, "the stage that the log announces, else train"),
    Column("attempt", "whole", None, "counts restarts of the same steps"),
    Column("line", "whole", None, "line of the log, from 1"),
    Column("rank", "text", None, "the rank or host that printed the line"),
    Column("node", "text", None, "the node that recorded the line, where several did"),
)
EVALS = (
    *PLACE[:2],
    Column("step", "whole", None, "the step that was evaluated"),
    Column("name", "text", None, "val_loss, val_bpb, core_metric, hellaswag, a benchmark's task"),
    Column("value", "number", None, "as printed"),
    PLACE[2],
    STEPS[-1],
    PLACE[3],
)
EVENTS = (
    Column(
        "kind", "text", None, "checkpoint, eval, resume, restart, epoch, nan, oom, nccl, traceback or stop"
    ),
    Column("line", "whole", None, "line of the log, from 1"),
    Column("step", "whole", None, "the last step before it"),
    STEPS[-1],
    PLACE[3],
    Column("text", "text", None, "the line"),
)
SPANS = (
    Column("kind", "text", None, "start, train, eval, checkpoint or idle"),
    *PLACE[:2],
    Column("step", "whole", None, "that the record, evaluation or checkpoint is of"),
    Column("steps", "whole", None, "how many steps a record stands for; 0 for a piece of its training"),
    Column("start", "time", None, "when it began"),
    Column("end", "time", None, "when it ended"),
    Column("text", "text", None, "the names of the evaluations, or the line of the checkpoint"),
)
MEASURES = (
    Column("duration_s", "number", "s", "how long it took"),
    Column("measured", "number", None, "the share of it, over all GPUs, in which power was measured"),
    Column("power_mean_w", "number", "W", "of all GPUs together"),
    Column("power_peak_w", "number", "W", "the most that all GPUs drew at one moment"),
    Column("energy_j", "number", "J", "each power reading held until the next"),
    Column("energy_counter_j", "number", "J", "by the driver's counter, interpolated at the edges"),
    Column("energy_difference", "number", None, "how far the first lies from the second, as a share"),
    Column("refreshes", "number", None, "how often power changed, on the GPU where it did least"),
    Column("util", "number", "%", "mean of the GPUs"),
    Column("temp_c", "number", "°C", "mean of the hottest GPU"),
    Column("temp_peak_c", "number", "°C", "the hottest reading of any GPU"),
    Column("sm_mhz", "number", "MHz", "mean clock of the GPUs"),
    Column("mem_peak_mib", "number", "MiB", "sum of the GPUs' peaks"),
    Column("throttled_s", "number", "s", "slowed down, on the GPU where it was longest"),
    Column("sm_active", "number", "%", "mean of the GPUs"),
    Column("tensor_active", "number", "%", "mean of the GPUs"),
    Column("dram_active", "number", "%", "mean of the GPUs"),
)
"""What a span, a step or a sum of either was measured by."""

FIRST_USERS = ("step", "loss", "grad_norm", "lrm", "dt_ms", "tok_per_sec", "mfu", "total_time_min")
"""The columns that the first users' scripts write, in their order; `--csv` writes them first."""

UNITS = {column.name: column.unit for column in STEPS if column.unit}


def in_order(names: list[str]) -> list[str]:
    """The columns of a table of steps: where, DESIGN's words, then what else was printed, in the log's order."""
    known = [*(c.name for c in PLACE[:2]), *(c.name for c in STEPS), *(c.name for c in PLACE[2:])]
    return [*(name for name in known if name in names), *(name for name in names if name not in known)]
