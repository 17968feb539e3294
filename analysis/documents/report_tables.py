"""The tables of a report: their columns, and how each cell is made of a row of figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from gputel.analysis import text
from gputel.analysis.align.join import WHOLE
from gputel.analysis.document import Table
from gputel.analysis.documents.headline import energy_of, j_per_token, step_ms, tok_per_sec
from gputel.analysis.runs.sensors import FEW_REFRESHES

Row: TypeAlias = Mapping[str, Any]
Column: TypeAlias = tuple[str, Callable[[Row], str | None]]  # heading, and how its cell is made of a row

PHASES = {
    "start": "start",
    "train": "training",
    "eval": "evaluation",
    "checkpoint": "checkpoints",
    "idle": "idle",
}
COUNTER_NOTE = "counter vs integral: integrated power against the driver's energy counter"


def phase_name(row: Row) -> str:
    """`training`, or `training and evaluation` where nothing separates the two."""
    contained = (row.get("contains") or "").split(", ")
    *first, last = [PHASES[kind] for kind in (row["kind"], *contained) if kind]
    return " and ".join([", ".join(first), last] if first else [last])


def measured_table(
    title: str, cells: Sequence[Row], columns: Sequence[Column], *, folded: bool = False
) -> Table:
    """A table without the columns in which nothing was measured; without rows if only its first column is left."""
    written = [(heading, [cell(row) for row in cells]) for heading, cell in columns]
    filled = [(heading, column) for heading, column in written if any(value is not None for value in column)]
    headings = [heading for heading, _ in filled]
    lines = list(zip(*(column for _, column in filled), strict=True)) if len(filled) > 1 else []
    return Table(title, headings, lines, COUNTER_NOTE if ENERGY[-1][0] in headings else "", folded)


def _written(name: str, write: Callable[[Any], str]) -> Callable[[Row], str | None]:
    """The cell of a figure; None where the table lacks it or it was not measured."""

    def cell(row: Row) -> str | None:
        value = row.get(name)
        return None if value is None else write(value)

    return cell


def _rounded(name: str, unit: str) -> Callable[[Row], str | None]:
    return _written(name, lambda value: f"{text.number(value, 0)} {unit}")


def _utilization(row: Row) -> str | None:
    util = row.get("util")
    return None if util is None else text.percent(util, row.get("util_error"))


def _share(name: str) -> Callable[[Row], str | None]:
    return _written(name, lambda value: f"{100 * value:.1f} %")


def _part(name: str) -> Callable[[Row], str | None]:
    return _written(name, lambda milliseconds: f"{text.short(milliseconds)} ms")


def _gpu_name(row: Row) -> str:
    return str(row["gpu"]) if row.get("node") is None else f"{row['node']}/{row['gpu']}"


def _counter_vs_integral(row: Row) -> str | None:
    """None over few refreshes, when either energy may be wrong by one refresh at both ends."""
    difference = row.get("energy_difference")
    if difference is None or (row.get("refreshes") or 0) < FEW_REFRESHES:
        return None
    return f"{100 * difference:+.1f} %"


def _not_all_measured(row: Row) -> str | None:
    """The share of the time, over all GPUs, with readings; None if all of it has."""
    share = row.get("measured")
    return None if share is None or share >= WHOLE else f"{100 * share:.0f} %"


def _best_energy(row: Row) -> str | None:
    energy = energy_of(row)
    return None if energy is None else text.energy(energy, row.get("energy_error_j"))


def _joules_of_step(row: Row) -> str | None:
    joules = row["j_per_step"]
    return None if joules is None else text.with_error(joules, row["j_per_step_error"], 1)


def _mean_power(row: Row) -> str | None:
    power = row.get("power_mean_w")
    return None if power is None else text.with_error(power, row.get("power_error_w"), 0, "W")


POWER: tuple[Column, ...] = (
    ("mean\npower", _mean_power),
    ("peak\npower", _rounded("power_peak_w", "W")),
)
ENERGY: tuple[Column, ...] = (
    ("energy,\ncounter", _written("energy_counter_j", text.energy)),
    ("energy,\nintegral", _written("energy_j", text.energy)),
    ("counter vs\nintegral", _counter_vs_integral),
)
TEMPERATURE: Column = ("peak\ntemp.", _rounded("temp_peak_c", "°C"))
UTILIZATION: Column = ("utilization", _utilization)
MEMORY: tuple[Column, ...] = (
    ("peak\nmemory", _written("mem_peak_mib", text.mebibytes)),
    ("tensor cores\nactive", _written("tensor_active", lambda share: f"{share:.1f} %")),
    ("DRAM\nactive", _written("dram_active", lambda share: f"{share:.1f} %")),
)
MEASURED_SHARE: Column = ("measured", _not_all_measured)
TIME: tuple[Column, ...] = (
    ("phase", phase_name),
    ("time", lambda row: text.duration(row["duration_s"], error=row["duration_error_s"])),
    ("time\nshare", _share("share")),
    ("energy", _best_energy),
    ("energy\nshare", _share("energy_share")),
    POWER[0],
    UTILIZATION,
    MEASURED_SHARE,
)
TRAINING: tuple[Column, ...] = (
    ("phase", lambda row: str(row["phase"])),
    ("steps", _written("steps", text.step)),
    ("attempts", _written("attempts", text.step)),
    ("ms/step", step_ms),
    ("tok/s,\nwall clock", tok_per_sec),
    ("tok/s,\nlogged", _written("tok_per_sec_printed", lambda rate: text.number(rate, 0))),
    ("J/step", _joules_of_step),
    ("J/token", j_per_token),
)
PARTS: tuple[Column, ...] = (
    ("rank", _written("rank", str)),
    ("steps", _written("steps", text.step)),
    ("ms/step", _part("step_ms")),
    ("data wait", _part("data_wait_ms")),
    ("data wait,\nshare", _share("data_wait_share")),
    ("backward", _part("backward_call_ms")),
    ("optimizer", _part("optimizer_call_ms")),
    ("the rest", _part("other_ms")),
    ("garbage\ncollection", _part("gc_ms")),
)
PARTS_NOTE = (
    "Seen from inside. Backward and optimizer are the time in their calls, after which a GPU works on; the rest is "
    "forward and what lies between steps; garbage collection is within the others."
)
GPUS: tuple[Column, ...] = (("GPU", _gpu_name), *POWER, *ENERGY, TEMPERATURE, MEMORY[0], MEASURED_SHARE)
MEASURED: tuple[Column, ...] = (
    *POWER,
    *ENERGY,
    UTILIZATION,
    TEMPERATURE,
    ("SM clock", _rounded("sm_mhz", "MHz")),
    ("throttled", _written("throttled_s", text.duration)),
)
