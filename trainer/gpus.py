"""The table of GPUs (gpus.toml), without torch: a driver's or a person's name in, peak, memory, power and link out.

A slice of a GPU (MIG) is no GPU of the table: its peak would be that of the whole.
"""

import math
import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).with_name("gpus.toml")


@dataclass(frozen=True)
class GpuModel:
    name: str
    names: tuple[str, ...]
    memory_gib: float
    power_w: float
    link: str
    link_gb_s: float
    peak_tflops: float | None = None
    fp16_tflops: float | None = None

    @property
    def peak_flops(self) -> float | None:
        """Dense bf16 FLOPs a second; None for a chip without bf16."""
        return None if self.peak_tflops is None else self.peak_tflops * 1e12

    @property
    def half_flops(self) -> float:
        """What it can do in the 16 bits that it has: bf16, else fp16."""
        return (self.peak_tflops or self.fp16_tflops or math.nan) * 1e12


@lru_cache(maxsize=1)
def gpus() -> tuple[GpuModel, ...]:
    with TABLE.open("rb") as table:
        rows = tomllib.load(table)["gpu"]
    return tuple(GpuModel(**{**row, "name": row["names"][0], "names": tuple(row["names"])}) for row in rows)


def find_gpu(name: str) -> GpuModel | None:
    """The GPU that a driver ("NVIDIA H100 80GB HBM3") or a person ("h100") means; None where the table has none.
    Of several it has the longest name, in whole words, so that an L40S is no L4."""
    wanted = _words(name)
    if " mig " in wanted:
        return None
    matches = [(_words(alias), gpu) for gpu in gpus() for alias in gpu.names if _words(alias) in wanted]
    return max(matches, key=lambda match: match[0].count(" "))[1] if matches else None


def _words(name: str) -> str:
    return f" {' '.join(re.findall('[a-z0-9]+', name.lower()))} "
