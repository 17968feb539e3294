"""System metrics that W&B, MLflow and trackio keep -> a table of GPU readings, like those of nvidia-smi.

They are sampled every 10 or 15 s. MLflow numbers the samples as steps, which are not steps of the training.
Those of the processor, memory, disks and networks are counted and left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from gputel.analysis.logs.gpu_columns import unit_of
from gputel.analysis.logs.gpu_tables import ALWAYS, Telemetry


@dataclass(frozen=True)
class SystemNames:
    """How a tool names its system metrics: `gpu` finds the GPU, the reading and perhaps the node in a name.

    `columns` has a column and the factor to its unit for each reading that is kept; `shown` is for `sources`.
    """

    gpu: re.Pattern[str]
    columns: Mapping[str, tuple[str, float]]
    shown: str


WANDB = SystemNames(
    re.compile(r"gpu\.(?P<gpu>\d{1,4})\.(?P<reading>\w+)"),
    {
        "powerWatts": ("power_w", 1.0),
        "enforcedPowerLimitWatts": ("power_limit_w", 1.0),
        "temp": ("temp_c", 1.0),
        "gpu": ("util", 1.0),
        "memory": ("mem_util", 1.0),
        "memoryAllocatedBytes": ("mem_used_mib", 2.0**-20),
        "smClock": ("sm_mhz", 1.0),
        "memoryClock": ("mem_mhz", 1.0),
        "fanSpeed": ("fan", 1.0),
    },
    "gpu.N.{}",
)
MLFLOW = SystemNames(
    re.compile(
        r"system/((?P<node>[^/]+)/)?"
        r"(gpu_(?P<gpu>\d{1,4})_(?P<reading>\w+)|(cpu|system_memory|disk|network)_\w+)"
    ),
    {
        "power_usage_watts": ("power_w", 1.0),
        "utilization_percentage": ("util", 1.0),
        "memory_usage_megabytes": ("mem_used_mib", 1e6 / 2**20),
    },
    "system/gpu_N_{}",
)
TRACKIO = SystemNames(
    re.compile(r"gpu/(?P<gpu>\d{1,4})/(?P<reading>\w+)"),
    {
        "power": ("power_w", 1.0),
        "power_limit": ("power_limit_w", 1.0),
        "energy_consumed": ("energy_j", 1.0),
        "temp": ("temp_c", 1.0),
        "utilization": ("util", 1.0),
        "memory_utilization": ("mem_util", 1.0),
        "allocated_memory": ("mem_used_mib", 1024.0),
        "sm_clock": ("sm_mhz", 1.0),
        "memory_clock": ("mem_mhz", 1.0),
        "fan_speed": ("fan", 1.0),
    },
    "gpu/N/{}",
)


@dataclass
class SystemMetrics:
    """The readings so far, by moment and GPU, and how many values were left out."""

    names: SystemNames
    rows: dict[tuple[int, str], dict[str, float]] = field(default_factory=dict)
    left_out: int = 0

    def take(self, moment: int, name: str, value: float | None) -> None:
        """Takes one value at a moment in nanoseconds; 0 is unknown."""
        found = self.names.gpu.fullmatch(name)
        known = self.names.columns.get(found["reading"] or "") if found else None
        if not found or not known:
            self.left_out += 1
        elif moment and value is not None and math.isfinite(value):
            parts = found.groupdict()
            gpu = f"{parts['node']}/{found['gpu']}" if parts.get("node") else found["gpu"]
            self.rows.setdefault((moment, gpu), {})[known[0]] = value * known[1]

    def table(self, model: str | None) -> Telemetry | None:
        """Returns the readings of GPUs of this model in order of time; None without any."""
        if not self.rows:
            return None
        columns = {column: name for name, (column, _) in self.names.columns.items()}
        cells = [(moment, gpu, *map(row.get, columns)) for (moment, gpu), row in sorted(self.rows.items())]
        schema = {"time": pl.Int64, "gpu": pl.String, **dict.fromkeys(columns, pl.Float64)}
        frame = pl.DataFrame(cells, schema=schema, orient="row").cast(dict(ALWAYS))
        present = [name for name in columns if frame[name].count()]
        sources = {name: self.names.shown.format(columns[name]) for name in present}
        units = {name: unit_of(name) for name in present}
        models = (model,) if model else ()
        return Telemetry(frame.select("time", "gpu", *present), units, sources, [], 0, models)

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.left_out:
            return ()
        return (
            f"{self.left_out:,} values of other system metrics (processor, memory, disks, networks) skipped",
        )
