"""The fake driver from Python: builds it, and steers it through the file that both have mapped.

Nothing here sleeps or knows physics: a test writes what is true into `state`, and asks the library what it saw.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from ctypes import c_char, c_int32, c_int64, c_uint32, c_uint64
from pathlib import Path

from gputel.telemetry.nvml.devices import Nvml
from gputel.telemetry.nvml.library import NAME, Library

SOURCE = Path(__file__).with_name("fake_nvml.c")
MS, SECOND, MIB = 1_000_000, 1_000_000_000, 1024 * 1024
NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, GPU_IS_LOST, VERSION_MISMATCH, DEPRECATED = (
    3,
    4,
    9,
    15,
    18,
    26,
)

CALLS = (
    "Init FieldValues PowerUsage TotalEnergy TemperatureV Temperature Utilization MemoryInfo MemoryInfo_v2 "
    "ClockInfo PerformanceState EventReasons ThrottleReasons PowerLimit FanSpeed EccErrors RemappedRows GpmSample "
    "GpmMetrics EventWait Facts Processes ProcessUtilization"
).split()


class Sensor(ctypes.Structure):
    _fields_ = [("window_ns", c_int64), ("refresh_ns", c_int64), ("phase_ns", c_int64)]


class User(ctypes.Structure):
    """A process on a GPU."""

    _fields_ = [("memory", c_uint64), *[(name, c_uint32) for name in ("pid", "share", "graphics", "unused")]]


class Gpu(ctypes.Structure):
    _fields_ = [
        ("name", c_char * 64),
        ("uuid", c_char * 80),
        *[(name, c_uint64) for name in ("memory_total", "memory_used", "throttle", "ecc")],
        *[(name, c_uint32) for name in ("power_limit_mw", "sm_mhz", "mem_mhz", "pstate", "fan")],
        ("remapped", c_uint32 * 2),
        *[(name, c_uint32) for name in "pcie_bits gpm mig_count gone hang xid_count pcie_generation".split()],
        ("xids", c_uint64 * 16),
        *[(f"{link}_{way}_rate", c_uint64) for link in ("pcie", "nvlink") for way in ("rx", "tx")],
        ("counter_start", c_uint64),
        *[(f"{link}_refresh_ns", c_int64) for link in ("pcie", "nvlink")],
        *[(name, Sensor) for name in ("power", "average", "energy")],
        ("stretches", c_uint64),
        ("durations_ns", c_int64 * 64),
        ("levels_mw", c_int64 * 64),
        ("call_status", c_int32 * 32),
        ("field_status", c_int32 * 320),
        ("stall_ns", c_int64),
        *[(name, c_uint32) for name in ("stall_call", "user_count")],
        ("users", User * 8),
    ]


class State(ctypes.Structure):
    _fields_ = [
        *[(name, c_int64) for name in ("now_ns", "began_ns", "latency_ns", "inside_ns")],
        *[(name, c_uint32) for name in ("gpu_count", "init_status", "epoch", "measure")],
        ("calls", c_uint64 * 32),
        ("call_latency_ns", c_int64 * 32),
        ("field_latency_ns", c_int64 * 320),
        *[(name, c_uint32) for name in ("cold", "unused")],
        ("gpus", Gpu * 16),
    ]


SENSORS = {  # window and refresh of the instantaneous power
    "NVIDIA H100 80GB HBM3": (25 * MS, 100 * MS),
    "NVIDIA A100-SXM4-80GB": (25 * MS, 100 * MS),
    "Tesla V100-SXM2-32GB": (10 * MS, 20 * MS),
    "NVIDIA GB10": (100 * MS, 100 * MS),
}
H100, A100, V100, GB10 = SENSORS
# fields and calls that this kind of GPU answers with NotSupported
LACKS: dict[str, tuple[tuple[int, ...], Sequence[str]]] = {
    H100: ((), ("FanSpeed",)),
    A100: ((), ("FanSpeed",)),
    V100: ((186, 185, 197, 198, 138, 139), ("FanSpeed", "RemappedRows")),
    GB10: (
        (82, 83, 190, 138, 139),
        "MemoryInfo MemoryInfo_v2 PowerLimit TotalEnergy FanSpeed EccErrors RemappedRows".split(),
    ),
}
CONSTANT = [(SECOND, 300_000)]
ENERGY, PCIE_TX, PCIE_RX = 83, 197, 198
COLD = 4


def build(folder: Path, *, old_driver: bool = False) -> Path:
    """The library under its real name, in a folder for LD_LIBRARY_PATH. A copy of its own for each test, so that
    two tests in one process do not share its memory. It has no soname: a process that opened one by its path would
    find it again when it asks for the machine's library."""
    compiler = next(c for c in ("cc", "gcc", "clang") if shutil.which(c))
    folder.mkdir(parents=True, exist_ok=True)
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    flags += ["-DOLD_DRIVER"] if old_driver else []
    subprocess.run([compiler, *flags, "-o", str(folder / NAME), str(SOURCE)], check=True)
    return folder / NAME


class FakeNvml:
    """`kinds` are names of GPUs. The clock is the real one until a test sets `now`."""

    def __init__(self, folder: Path, library: Path, kinds: Sequence[str] = (H100,)) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "state").write_bytes(bytes(ctypes.sizeof(State)))
        self._attach(folder)
        self.state.gpu_count, self.state.epoch = len(kinds), 1
        self.state.began_ns = time.monotonic_ns() - 100 * SECOND
        if self.library != library:
            shutil.copy(library, self.library)
        for i, kind in enumerate(kinds):
            self._furnish(self.state.gpus[i], i, kind)

    @classmethod
    def attached(cls, folder: Path) -> FakeNvml:
        """The driver that another process has made in this folder."""
        fake = cls.__new__(cls)
        fake._attach(folder)
        return fake

    @property
    def gpus(self) -> list[Gpu]:
        return [self.state.gpus[i] for i in range(self.state.gpu_count)]

    @property
    def environment(self) -> dict[str, str]:
        """For a process that is to find this driver."""
        return {**os.environ, "LD_LIBRARY_PATH": str(self.folder), "FAKE_NVML_STATE": str(self.path)}

    def calls(self) -> dict[str, int]:
        return dict(zip(CALLS, self.state.calls, strict=False))

    def open(self) -> Nvml:
        """The machine in this process."""
        os.environ["FAKE_NVML_STATE"] = str(self.path)
        try:
            library = Library(ctypes.CDLL(str(self.library)))
            assert library.start() == 0
        finally:
            del os.environ["FAKE_NVML_STATE"]
        return Nvml(library)

    def at(self, seconds: float) -> None:
        self.state.now_ns = round(seconds * SECOND)

    def power(self, stretches: Iterable[tuple[int, int]], gpu: int = 0) -> None:
        """The truth: (ns, mW), again and again."""
        for i, (duration, level) in enumerate(listed := list(stretches)):
            self.state.gpus[gpu].durations_ns[i], self.state.gpus[gpu].levels_mw[i] = duration, level
        self.state.gpus[gpu].stretches = len(listed)

    def fault(self, call: str, status: int, gpu: int = 0) -> None:
        self.state.gpus[gpu].call_status[CALLS.index(call)] = status

    def hang(self, gpu: int = 0, call: str | None = None) -> None:
        """No call, or only this one, returns from now on."""
        self.state.gpus[gpu].hang = 1 if call is None else CALLS.index(call) + 2

    def stall(self, call: str, ns: int, gpu: int = 0) -> None:
        """The next call of this kind takes as long, once."""
        self.state.gpus[gpu].stall_call = CALLS.index(call) + 1
        self.state.gpus[gpu].stall_ns = ns

    def slow(self, call: str, ns: int) -> None:
        """This call takes so much longer from now on."""
        self.state.call_latency_ns[CALLS.index(call)] = ns

    def slow_field(self, number: int, ns: int) -> None:
        """A call that asks for this field takes so much longer from now on."""
        self.state.field_latency_ns[number] = ns

    def cost_as_in_a_virtual_machine(self) -> None:
        """Let calls take as long as those of an H100 there did: the energy counter 4.4 ms between two ticks."""
        self.state.cold = COLD
        for call in CALLS[1:]:
            self.slow(call, 1500)
        for number in range(len(self.state.field_latency_ns)):
            self.slow_field(number, 1500)
        self.slow_field(ENERGY, 1_100_000)
        self.slow_field(PCIE_TX, 70_000)
        self.slow_field(PCIE_RX, 70_000)

    def cost_nothing(self) -> None:
        """Let calls and fields take no time from now on."""
        self.state.call_latency_ns[:] = [0] * len(self.state.call_latency_ns)
        self.state.field_latency_ns[:] = [0] * len(self.state.field_latency_ns)

    def xid(self, number: int, gpu: int = 0) -> None:
        self.state.gpus[gpu].xids[self.state.gpus[gpu].xid_count % 16] = number
        self.state.gpus[gpu].xid_count += 1

    def use(self, pid: int, memory: int, share: int = 0, gpu: int = 0, *, graphics: bool = False) -> None:
        """Let a process use bytes of a GPU's memory and % of its time from now on."""
        users = self.state.gpus[gpu].users
        taken = [user.pid for user in users[: self.state.gpus[gpu].user_count]]
        place = taken.index(pid) if pid in taken else len(taken)
        users[place] = User(memory, pid, share, graphics)
        self.state.gpus[gpu].user_count = max(place + 1, len(taken))

    def restart_driver(self) -> None:
        """Every handle is stale until the library is started again."""
        self.state.epoch += 1

    def _attach(self, folder: Path) -> None:
        self.path, self.folder, self.library = folder / "state", folder, folder / NAME
        with self.path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self.state = State.from_buffer(self._memory)

    def _furnish(self, gpu: Gpu, i: int, kind: str) -> None:
        gpu.name, gpu.uuid = kind.encode(), f"GPU-{i:08d}-fake".encode()
        gpu.memory_total, gpu.memory_used = 81920 * MIB, (1000 + i) * MIB
        gpu.power_limit_mw, gpu.sm_mhz, gpu.mem_mhz = 700_000, 1980, 2619
        gpu.pcie_bits, gpu.pcie_generation, gpu.gpm = 64, 5, kind == H100
        gpu.power = Sensor(*SENSORS[kind], 0)
        # there the old call is no average
        gpu.average = gpu.power if kind == V100 else Sensor(SECOND, 100 * MS, 0)
        gpu.energy = Sensor(0, 20 * MS, 0)
        self.power(CONSTANT, i)
        fields, calls = LACKS[kind]
        for field in fields:
            gpu.field_status[field] = NOT_SUPPORTED
        for call in calls:
            self.fault(call, NOT_SUPPORTED, i)
