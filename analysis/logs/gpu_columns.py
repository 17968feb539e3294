"""Headers of telemetry tables: a printed name -> a reading's column, its unit and scale.

It knows the names of nvidia-smi's query and dmon, of dcgmi's dmon, and those that people give the columns of their
own CSV (`gpu0_power_w`, `temperature_C`, `mem_used_gb`). An unknown name becomes a legal column name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Where a file has two names of one column, the name that stands first here gets the column and the other keeps its
# own: `power.draw` is a one-second average on some boards and the instantaneous power on others.
PRINTED = {
    "power_w": "power.draw.instant power.draw pwr power power_draw power_instant power_usage gpu_power",
    "power_avg_w": "power.draw.average power_avg power_average",
    "power_limit_w": "enforced.power.limit power.limit power_limit powerlimit pmlmt",
    "energy_j": "energy total_energy totec total_energy_consumption",
    "temp_c": "temperature.gpu gtemp temp temperature temp_gpu gpu_temp tmptr",
    "temp_mem_c": "temperature.memory mtemp temp_mem temp_memory mem_temp memory_temp memtemp mmtmp",
    "util": "utilization.gpu sm util utilization gpu_util util_gpu utilization_gpu gpu_utilization gputl",
    "mem_util": "utilization.memory mem memory mem_util memory_util utilization_memory memory_utilization mcutl",
    "mem_used_mib": "memory.used fb mem_used memory_used used memory mem mem_usage vram_used vram fbusd",
    "mem_total_mib": "memory.total mem_total memory_total total_memory vram_total fb_total",
    "sm_mhz": "clocks.current.sm clocks.sm pclk sm_clock clock_sm sm_clk sm clocks_sm clock smclk",
    "mem_mhz": "clocks.current.memory clocks.mem mclk mem_clock memory_clock clock_mem mem clocks_mem mmclk",
    "pstate": "pstate pstat",
    "throttle": "clocks_event_reasons.active clocks_throttle_reasons.active throttle throttle_reasons",
    "fan": "fan.speed fan fan_speed fansp",
    "ecc": "ecc.errors.uncorrected.volatile.total ecc dbecc",
    "remapped_rows": "remapped_rows.uncorrectable remapped_rows",
    "pcie_rx_mib_s": "rxpci pcie_rx pcirx",
    "pcie_tx_mib_s": "txpci pcie_tx pcitx",
    "nvlink_rx_mib_s": "nvlink_rx nvlrx",
    "nvlink_tx_mib_s": "nvlink_tx nvltx",
    "sm_active": "sm_active smact smutil",
    "tensor_active": "tensor_active tenso tensorutil",
    "dram_active": "dram_active drama dramutil",
}

# The unit of a column, by the ending of its name.
UNITS = {"_w": "W", "_j": "J", "_c": "°C", "_mib": "MiB", "_mhz": "MHz", "_mib_s": "MiB/s"}
PERCENT = {"util", "mem_util", "fan", "sm_active", "tensor_active", "dram_active"}

# Printed unit -> (unit of the column, factor). NVIDIA's tools write MB where they count MiB.
SCALES = {
    "w": ("W", 1.0), "watts": ("W", 1.0), "mw": ("W", 1e-3),
    "j": ("J", 1.0), "mj": ("J", 1e-3), "kwh": ("J", 3.6e6),
    "c": ("°C", 1.0), "celsius": ("°C", 1.0),
    "%": ("%", 1.0), "pct": ("%", 1.0), "percent": ("%", 1.0), "perc": ("%", 1.0),
    "mib": ("MiB", 1.0), "mb": ("MiB", 1.0), "gib": ("MiB", 1024.0), "gb": ("MiB", 1024.0),
    "kib": ("MiB", 1 / 1024), "kb": ("MiB", 1 / 1024), "bytes": ("MiB", 2.0**-20),
    "mhz": ("MHz", 1.0), "ghz": ("MHz", 1000.0), "khz": ("MHz", 1e-3), "hz": ("MHz", 1e-6),
    "mb/s": ("MiB/s", 1.0), "mib/s": ("MiB/s", 1.0), "kb/s": ("MiB/s", 1 / 1024), "gb/s": ("MiB/s", 1024.0),
}  # fmt: skip

# dcgmi prints no units: joules in thousandths, shares of one, bytes a second.
DCGM_SCALES = {"energy_j": 1e-3, "pcie_rx_mib_s": 2.0**-20, "pcie_tx_mib_s": 2.0**-20,
               "nvlink_rx_mib_s": 2.0**-20, "nvlink_tx_mib_s": 2.0**-20,
               "sm_active": 100.0, "tensor_active": 100.0, "dram_active": 100.0}  # fmt: skip

TIMES = {
    "timestamp",
    "time",
    "datetime",
    "date",
    "ts",
    "ts_iso",
    "timestamp_iso",
    "time_iso",
    "wall_time",
    "unix_time",
}
ELAPSED = {
    "elapsed_sec",
    "elapsed_s",
    "elapsed",
    "elapsed_seconds",
    "elapsed_time",
    "time_sec",
    "time_s",
    "seconds",
}
INDICES = ("index", "gpu_index", "gpu", "gpu_id", "gpu_idx", "idx", "device", "device_id", "entity")
GPUS = (*INDICES, "pci.bus_id", "gpu_bus_id", "pci_bus_id", "uuid", "gpu_uuid", "serial", "gpu_serial")
NAMES = {"name", "gpu_name", "product_name", "gpu.name", "model"}
NODES = {"node", "hostname", "host"}

WIDE = re.compile(r"(?:gpu|GPU|cuda|device)[_ .:]?(\d+)[_ .:]+(?=\S)(.+)")
BRACKETED = re.compile(r"(.*?)\s*[\[(]([^\])]+)[\])]\s*$")
COLUMNS_OF = {
    word: [column for column, words in PRINTED.items() if word in words.split()]
    for all_words in PRINTED.values()
    for word in all_words.split()
}


@dataclass(frozen=True)
class Cell:
    """One cell of a header. `gpu` is set if the name says which GPU; `role` is reading, time, gpu, name, ..."""

    printed: str
    role: str
    column: str
    unit: str | None = None
    scale: float = 1.0
    gpu: str | None = None
    rank: int = 0


def understand(printed: str, unit: str | None = None, *, dcgm: bool = False) -> Cell:
    """Reads one cell of a header; `unit` comes from the line below, where the tool prints one."""
    name = printed.strip().lstrip("#").strip()
    if bracketed := BRACKETED.match(name):
        name, unit = bracketed[1], bracketed[2]
    word = name.lower()
    if word in TIMES or word in ELAPSED or word in GPUS or word in NODES or word in NAMES:
        return Cell(printed, _role(word), word, rank=GPUS.index(word) if word in GPUS else 0)
    wide = WIDE.fullmatch(name)
    base, tail = _split_unit((wide[2] if wide else name).lower().replace(" ", "_"))
    column, rank = _column(base, unit or tail)
    if column is None and base.startswith(("gpu_", "avg_")):
        column, rank = _column(base[4:], unit or tail)
    if column is None:
        return _own(printed, base, unit or tail, wide[1] if wide else None)
    scale = DCGM_SCALES.get(column, 1.0) if dcgm else SCALES.get((unit or tail or "").lower(), ("", 1.0))[1]
    return Cell(printed, "reading", column, unit_of(column), scale, wide[1] if wide else None, rank)


def unit_of(column: str) -> str | None:
    if column in PERCENT:
        return "%"
    return next((unit for end, unit in UNITS.items() if column.endswith(end)), None)


def distinct(cells: list[Cell]) -> list[Cell]:
    """Gives a column that two cells of one GPU name to the better name; the other keeps its own."""
    taken: dict[tuple[str | None, str], int] = {}
    for cell in cells:
        if cell.role == "reading":
            key = (cell.gpu, cell.column)
            taken[key] = min(cell.rank, taken.get(key, cell.rank))
    named: list[Cell] = []
    for cell in cells:
        is_taken = cell.role == "reading" and taken[cell.gpu, cell.column] != cell.rank
        named.append(_own(cell.printed, None, cell.unit, cell.gpu) if is_taken else cell)
    return named


def _role(word: str) -> str:
    if word in TIMES:
        return "time"
    if word in ELAPSED:
        return "elapsed"
    if word in NAMES:
        return "name"
    return "gpu" if word in GPUS else "node"


def _split_unit(word: str) -> tuple[str, str | None]:
    base, _, tail = word.rpartition("_")
    return (base, tail) if base and tail in SCALES else (word, None)


def _column(word: str, unit: str | None) -> tuple[str | None, int]:
    """The column of a word and the rank of that name; the unit decides what a word such as `mem` is."""
    kind = SCALES.get((unit or "").lower(), ("", 0.0))[0]
    fits = [column for column in COLUMNS_OF.get(word, ()) if not kind or unit_of(column) == kind]
    return (fits[0], PRINTED[fits[0]].split().index(word)) if fits else (None, 0)


def _own(printed: str, base: str | None, unit: str | None, gpu: str | None) -> Cell:
    if base is None:
        bare = BRACKETED.match(printed.strip())
        base = (bare[1] if bare else printed).strip().lower()
    name = re.sub(r"\W+", "_", base).strip("_") or "unnamed"
    unit, scale = SCALES.get((unit or "").lower(), (unit, 1.0))
    ending = {unit: end for end, unit in UNITS.items()}.get(unit or "", "")
    return Cell(printed, "other", name if name.endswith(ending) else name + ending, unit, scale, gpu)
