"""A simulated `Machine`: `2xH100` gives the readings of two GPUs that train.

A load over time with an exact integral drives sensors that behave like real ones. A sensor returns the mean over
a window before its last refresh, and the window may be shorter than the time between refreshes: an H100 measures
25 ms of every 100 ms and misses the rest. The energy counter misses nothing.

Everything follows from the clock: the same moment gives the same power and energy. Each kind of GPU has the
sensor that was measured on the real one, and lacks the same readings.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from gputel.telemetry.clock import SECOND, Clock
from gputel.telemetry.errors import GputelError
from gputel.telemetry.machine import (
    COMMAND,
    Answer,
    Gpu,
    GpuUser,
    GpuUsers,
    MachineWithoutDriver,
    ReaderWithoutDriver,
    Values,
)
from gputel.telemetry.readings import BY_NAME, MIB, Reading

MS = 1_000_000


class Waveform:
    """A periodic load between 0 and 1, constant within each stretch (ns, level)."""

    def __init__(self, stretches: Iterable[tuple[int, float]]) -> None:
        one_period = list(stretches)
        self._levels = [level for _, level in one_period]
        self._edges = [0, *accumulate(duration for duration, _ in one_period)]
        self._sums = [0.0, *accumulate(duration * level for duration, level in one_period)]
        self.period: int = self._edges[-1]

    def level(self, at: int) -> float:
        return self._levels[bisect_right(self._edges, at % self.period) - 1]

    def integral(self, until: int) -> float:
        """Integral of the load from 0, in nanoseconds of full load."""
        rounds, rest = divmod(until, self.period)
        i = bisect_right(self._edges, rest) - 1
        return rounds * self._sums[-1] + self._sums[i] + (rest - self._edges[i]) * self._levels[i]

    def mean(self, start: int, end: int) -> float:
        return (self.integral(end) - self.integral(start)) / (end - start)


def training() -> Waveform:
    """Two minutes of a training run: startup without load, steps with dips, an evaluation, a checkpoint."""
    step = [(330 * MS, 1.0), (140 * MS, 0.86), (40 * MS, 0.52), (60 * MS, 0.72)]
    evaluation = [(180 * MS, 0.78), (20 * MS, 0.35)]
    return Waveform([(1200 * MS, 0.02), *step * 120, *evaluation * 30, *step * 70, (1600 * MS, 0.06)])


@dataclass(frozen=True)
class Sensor:
    """Measures over `window` every `refresh` nanoseconds; the first refresh is at `phase`."""

    window: int
    refresh: int
    phase: int = 0

    def last(self, now: int) -> int:
        """Number of the last refresh."""
        return (now - self.phase) // self.refresh

    def span(self, number: int) -> tuple[int, int]:
        end = number * self.refresh + self.phase
        return end - self.window, end


class Temperature:
    """Follows power with a lag, like a block of metal on a cold plate."""

    def __init__(self, ambient: float, kelvin_per_watt: float, lag_s: float) -> None:
        self.now, self._ambient, self._slope, self._lag = ambient, ambient, kelvin_per_watt, lag_s

    def warm(self, watts: float, seconds: float) -> float:
        goal = self._ambient + self._slope * watts
        self.now = goal + (self.now - goal) * math.exp(-seconds / self._lag)
        return self.now


def wobble(seed: int) -> float:
    """Sensor noise between -1 and 1, the same for a seed on every machine."""
    x = (seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & 0xFFFFFFFFFFFFFFFF
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return (x >> 11) / (1 << 52) - 1


NO_DRIVER = "simulated"
APART = 37 * MS
"""Offset between the GPUs of a machine in their steps and refreshes."""

GPM = ("sm_active", "tensor_active", "dram_active")
NVLINK = ("nvlink_rx_mib_s", "nvlink_tx_mib_s")
UNIFIED_MEMORY = ("mem_used_mib", "mem_util", "mem_mhz", "temp_mem_c", "ecc", "remapped_rows")
HOPPER = Sensor(25 * MS, 100 * MS)
AVERAGE = Sensor(SECOND, 100 * MS)


@dataclass(frozen=True)
class GpuKind:
    """What a simulation needs to know of a GPU model; it answers the readings in `lacks` with NotSupported."""

    name: str
    memory_mib: int
    idle_w: float
    limit_w: float
    sensor: Sensor
    sm_mhz: tuple[int, int]
    mem_mhz: int
    lacks: tuple[str, ...] = ()


KINDS = {
    "H100": GpuKind("NVIDIA H100 80GB HBM3", 81559, 72, 700, HOPPER, (345, 1980), 2619, ("fan",)),
    "H100-PCIe": GpuKind("NVIDIA H100 PCIe", 81559, 48, 350, HOPPER, (345, 1755), 1593, ("fan", *NVLINK)),
    "H200": GpuKind("NVIDIA H200", 143771, 76, 700, HOPPER, (345, 1980), 3201, ("fan",)),
    "A100": GpuKind("NVIDIA A100-SXM4-80GB", 81920, 62, 400, HOPPER, (210, 1410), 1593, ("fan", *GPM)),
    "V100": GpuKind(
        "Tesla V100-SXM2-32GB", 32768, 42, 300, Sensor(10 * MS, 20 * MS), (135, 1530), 877,
        ("fan", "power_avg_w", "remapped_rows", "pcie_rx_mib_s", "pcie_tx_mib_s", *GPM, *NVLINK),
    ),
    "GB10": GpuKind(
        "NVIDIA GB10", 124610, 9, 100, Sensor(100 * MS, 100 * MS), (208, 2418), 0,
        ("fan", "power_limit_w", "energy_j", *UNIFIED_MEMORY, *GPM, *NVLINK),
    ),
}  # fmt: skip


MOST = 64  # GPUs of a simulated machine


def open_machine(wanted: str, clock: Clock) -> Simulated:
    """A machine from `H100`, `2xH100` or `H100x2`; commas separate several kinds."""
    names = {name.lower(): name for name in KINDS}
    kinds: list[str] = []
    for part in wanted.split(","):
        match = re.fullmatch(r"\s*(?:(\d+)\s*[x*]\s*)?([A-Za-z][\w-]*?)(?:\s*[x*]\s*(\d+))?\s*", part)
        count = int(match[1] or match[3] or 1) if match else 0
        if not match or match[2].lower() not in names or count not in range(1, MOST + 1):
            hint = _meant(match[2], count, names) if match else ""
            hint = hint or f"name one of {', '.join(KINDS)}, or 2xH100"
            raise GputelError("--simulate", f"there is no {part!r} to simulate", hint, exit_code=2)
        kinds += [names[match[2].lower()]] * count
    return Simulated(wanted, kinds, clock)


def _meant(name: str, count: int, names: Mapping[str, str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), names, 1)
    return f"did you mean {count}x{names[near[0]]}?" if near and 0 < count <= MOST else ""


class Simulated(MachineWithoutDriver):
    """A machine whose GPUs follow a load."""

    def __init__(self, wanted: str, kinds: Sequence[str], clock: Clock, load: Waveform | None = None) -> None:
        self.simulated: str | None = wanted
        start = clock.monotonic()
        load = load or training()
        self._models = {str(i): GpuSimulation(KINDS[kind], load, start, i) for i, kind in enumerate(kinds)}
        self._clock = clock
        self.gpus = tuple(_gpu(index, model.kind) for index, model in self._models.items())

    def probe(self, gpu: Gpu, reading: Reading) -> Answer:
        if reading.name in self._models[gpu.index].kind.lacks:
            return Answer(None, None, "NotSupported")
        return Answer(self.reader(gpu, [reading]).answer(self._clock.monotonic())[0], "simulated")

    def reader(self, gpu: Gpu, readings: Sequence[Reading]) -> SimulatedReader:
        return SimulatedReader(self._models[gpu.index], readings)

    def users(self, gpu: Gpu, now: int) -> GpuUsers:
        """The command, on every GPU."""
        memory, share = self.reader(gpu, [BY_NAME["mem_used_mib"], BY_NAME["util"]]).answer(now)
        return GpuUsers((GpuUser(COMMAND, memory, share),))


class SimulatedReader(ReaderWithoutDriver):
    """Answers some readings of one simulated GPU."""

    def __init__(self, model: GpuSimulation, readings: Sequence[Reading]) -> None:
        self._model, self._names = model, [reading.name for reading in readings]
        self._lacks = set(model.kind.lacks)

    def answer(self, now: int) -> Values:
        values = self._model.at(now)
        return [None if name in self._lacks else values[name] for name in self._names]


class GpuSimulation:
    """One GPU: its true load, and the values of its sensors at their last refresh."""

    def __init__(self, kind: GpuKind, load: Waveform, start: int, number: int) -> None:
        self.kind, self._load, self._number = kind, load, number
        self._offset = number * APART - start
        self._gain = 0.985 - 0.012 * (number % 4)
        warm, lag = 42.0 / kind.limit_w, 14.0
        self._core = Temperature(28.0 + number % 3, warm, lag)
        self._memory = Temperature(34.0 + number % 3, warm * 1.1, 2 * lag)
        self._refreshed, self._values = -1, dict[str, int | None]()

    def watts(self, load: float) -> float:
        return self.kind.idle_w + (self.kind.limit_w - self.kind.idle_w) * self._gain * load

    def joules(self, now: int) -> float:
        """True energy since the start of the simulation."""
        elapsed = now + self._offset
        span = self.kind.limit_w - self.kind.idle_w
        return (self.kind.idle_w * elapsed + span * self._gain * self._load.integral(elapsed)) / SECOND

    def at(self, now: int) -> dict[str, int | None]:
        """Value of each reading at its sensor's last refresh."""
        elapsed = now + self._offset
        number = self.kind.sensor.last(elapsed)
        if number != self._refreshed:
            self._values = self._refresh(number)
            self._refreshed = number
        return self._values

    def _refresh(self, number: int) -> dict[str, int | None]:
        start, end = self.kind.sensor.span(number)
        load, average = self._mean(start, end), self._mean(end - AVERAGE.window, end)
        passed = min(600.0, max(1, number - self._refreshed) * self.kind.sensor.refresh / SECOND)
        noise = wobble(number * 64 + self._number)
        values = {**self._electrical(load, average, noise, end), **self._busy(load, average, noise)}
        values["temp_c"] = round(self._core.warm(self.watts(average), passed))
        values["temp_mem_c"] = round(self._memory.warm(self.watts(average), passed))
        return values

    def _mean(self, start: int, end: int) -> float:
        return self._load.mean(max(start, 0), end) if end > 0 else 0.0

    def _electrical(self, load: float, average: float, noise: float, end: int) -> dict[str, int | None]:
        slow, fast = self.kind.sm_mhz
        capped = load > 0.95
        return {
            "power_w": round(1000 * self.watts(load) * (1 + 0.004 * noise)),
            "power_avg_w": round(1000 * self.watts(average)),
            "energy_j": round(1000 * self.joules(max(end, 0) - self._offset)),
            "power_limit_w": round(1000 * self.kind.limit_w),
            "sm_mhz": slow if load < 0.05 else fast - 15 * round(12 * (load > 0.6) * load + 2 * abs(noise)),
            "mem_mhz": self.kind.mem_mhz,
            "pstate": 0,
            "throttle": 1 if load < 0.05 else 4 if capped else 0,
            "fan": None,
            "ecc": 0,
            "remapped_rows": 0,
        }

    def _busy(self, load: float, average: float, noise: float) -> dict[str, int | None]:
        active = load > 0.05
        traffic = (0.05 if not active else 1.0 + 0.2 * noise) * BY_NAME["pcie_rx_mib_s"].per_unit
        links = round(traffic * (9000 if 0.3 < load < 0.9 else 1500 if active else 0))
        return {
            "util": round(100 * min(1.0, average * 1.12)) if average > 0.04 else 0,
            "mem_util": round(62 * average),
            "mem_used_mib": round((0.79 if active or self._refreshed > 50 else 0.006) * self.kind.memory_mib)
            * MIB,
            "pcie_rx_mib_s": round(traffic * 140),
            "pcie_tx_mib_s": round(traffic * 22),
            "nvlink_rx_mib_s": links,
            "nvlink_tx_mib_s": links,
            "sm_active": round(9300 * load),
            "tensor_active": round(4700 * load + 60 * noise) if active else 0,
            "dram_active": round(5200 * load + 90 * noise) if active else 0,
        }


def _gpu(index: str, kind: GpuKind) -> Gpu:
    memory = None if "mem_used_mib" in kind.lacks else kind.memory_mib
    limit = None if "power_limit_w" in kind.lacks else kind.limit_w
    limits = {
        "power_w": limit,
        "power_max_w": limit,
        "sm_mhz": float(kind.sm_mhz[1]),
        "mem_mhz": float(kind.mem_mhz) or None,
    }
    return Gpu(index, kind.name, f"GPU-simulated-{index}", NO_DRIVER, memory, limits)
