"""W&B's system metrics -> a table of GPU readings, like those of nvidia-smi.

`gpu.0.powerWatts` is the power of GPU 0. One reading is kept each 15 s, unless the run asked for more.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field

import polars as pl

from gputel.analysis.logs.gpu_columns import unit_of
from gputel.analysis.logs.gpu_tables import ALWAYS, Telemetry
from gputel.analysis.stores.points import number
from gputel.analysis.stores.protobuf import BYTES, VARINT, fields, signed, text

OF_GPU = re.compile(r"gpu\.(\d{1,4})\.(\w+)")
COLUMNS = {
    "powerWatts": ("power_w", 1.0),
    "enforcedPowerLimitWatts": ("power_limit_w", 1.0),
    "temp": ("temp_c", 1.0),
    "gpu": ("util", 1.0),
    "memory": ("mem_util", 1.0),
    "memoryAllocatedBytes": ("mem_used_mib", 2.0**-20),
    "smClock": ("sm_mhz", 1.0),
    "memoryClock": ("mem_mhz", 1.0),
    "fanSpeed": ("fan", 1.0),
}
LATEST_S = 9 * 10**9


@dataclass
class SystemStats:
    """What the records said so far: readings by moment and GPU."""

    rows: dict[tuple[int, str], dict[str, float]] = field(default_factory=dict)

    def take(self, data: bytes, at: int, end: int) -> None:
        """Takes one record of readings."""
        moment, cells = 0, dict[str, float]()
        for part in fields(data, at, end):
            if part.number == 2 and part.kind == BYTES:
                moment = nanoseconds(data, part.start, part.end)
            elif part.number == 3 and part.kind == BYTES:
                name, value = _reading(data, part.start, part.end)
                if value is not None and math.isfinite(value):
                    cells[name] = value
        for name, value in cells.items():
            known = OF_GPU.fullmatch(name)
            if moment and known and known[2] in COLUMNS:
                column, scale = COLUMNS[known[2]]
                self.rows.setdefault((moment, known[1]), {})[column] = value * scale

    def table(self, model: str | None) -> Telemetry | None:
        """The readings of GPUs of this model in order of time; None without any."""
        if not self.rows:
            return None
        names = [name for name, _ in COLUMNS.values()]
        cells = [(moment, gpu, *map(row.get, names)) for (moment, gpu), row in sorted(self.rows.items())]
        schema = {"time": pl.Int64, "gpu": pl.String, **dict.fromkeys(names, pl.Float64)}
        frame = pl.DataFrame(cells, schema=schema, orient="row").cast(dict(ALWAYS))
        present = [name for name in names if frame[name].count()]
        sources = {column: f"gpu.N.{name}" for name, (column, _) in COLUMNS.items() if column in present}
        units = {name: unit_of(name) for name in present}
        models = (model,) if model else ()
        return Telemetry(frame.select("time", "gpu", *present), units, sources, [], 0, models)


def nanoseconds(data: bytes, at: int, end: int) -> int:
    """A moment as protobuf has it, since 1970; 0 of one that no run has."""
    parts = {part.number: signed(part.value) for part in fields(data, at, end) if part.kind == VARINT}
    seconds = parts.get(1, 0)
    return seconds * 10**9 + parts.get(2, 0) if 0 < seconds < LATEST_S else 0


def _reading(data: bytes, at: int, end: int) -> tuple[str, float | None]:
    name, value = "", None
    for part in fields(data, at, end):
        if part.number == 1 and part.kind == BYTES:
            name = text(data, part)
        elif part.number == 16 and part.kind == BYTES:
            value = number(json.loads(data[part.start : part.end]))
    return name, value
