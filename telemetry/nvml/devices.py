"""The real machine: its GPUs, and MIG instances as GPUs of their own.

Identifies a GPU by its UUID, because a driver restart changes its handle and may change its index.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from ctypes import byref, c_uint, c_void_p
from dataclasses import dataclass
from typing import cast

from gputel.telemetry.machine import Answer, CounterState, Gpu, GpuLost, Reader, Report, Values
from gputel.telemetry.nvml import gpm, library
from gputel.telemetry.nvml.calls import CallReader
from gputel.telemetry.nvml.counters import PCIE_BYTES_S, link_bytes_s
from gputel.telemetry.nvml.library import LOST, OK, UNINITIALIZED, Handle, Library, error_name
from gputel.telemetry.nvml.xid import XidListener
from gputel.telemetry.readings import READINGS, Gpm, Reading, Source

MIG_ENABLED = 1
SLOWDOWN, SHUTDOWN = 1, 0
SM, MEMORY = 1, 2
MIB = 1024 * 1024


@dataclass
class Device:
    """A GPU with its handle. A MIG device has an `instance` and a `parent`, whose handle takes its GPM samples."""

    gpu: Gpu
    handle: Handle
    parent: Handle | None = None
    instance: int | None = None
    pcie_bytes_s: float = PCIE_BYTES_S


def open_machine() -> Nvml:
    """The machine behind the driver. Raises GputelError if the driver cannot be used."""
    return Nvml(library.load())


class Nvml:
    """A `Machine` read through NVML."""

    simulated: str | None = None

    def __init__(self, nvml: Library) -> None:
        self._library = nvml
        self._silent: list[str] = []
        self._devices = {device.gpu.index: device for device in self._find()}
        self._sources: dict[tuple[str, str], Source | None] = {}
        self._listener: XidListener | None = None
        self.gpus = tuple(device.gpu for device in self._devices.values())

    def probe(self, gpu: Gpu, reading: Reading) -> Answer:
        """The answer of the first source that works; if none does, the fault of the preferred one."""
        faults = []
        for source in reading.sources:
            status, value = self._try(gpu, reading, source)
            if status == OK:
                self._sources[gpu.index, reading.name] = source
                return Answer(value, str(source))
            faults.append(error_name(status))
        self._sources[gpu.index, reading.name] = None
        return Answer(None, None, faults[0])

    def reader(self, gpu: Gpu, readings: Sequence[Reading]) -> Reader:
        sources = [self._source(gpu, reading) for reading in readings]
        wanted = [
            (reading, source) for reading, source in zip(readings, sources, strict=True) if source is not None
        ]
        if len(wanted) < len(readings):
            return Sparse(self._reader(gpu, wanted), [source is not None for source in sources])
        return self._reader(gpu, wanted)

    def revive(self, gpu: Gpu) -> None:
        device = self._devices[gpu.index]
        if gpu.parent is None:
            device.handle = self._by_uuid(gpu.uuid)
        alive = [
            reading for reading in READINGS if reading.sources and self._source(gpu, reading) is not None
        ]
        reader = self.reader(gpu, alive[:1])
        reader.ask()
        reader.answer(0)

    def listen(self, report: Report) -> None:
        for index in self._silent:
            report("gpu_lost", f"GPU {index} does not answer", gpu=index)
        whole = {d.handle.value or 0: d.gpu.index for d in self._devices.values() if d.parent is None}
        self._listener = XidListener(self._library, whole, report)

    def close(self) -> None:
        """Shut NVML down, unless the listener still waits inside a call: that would crash."""
        if self._listener is None or self._listener.end():
            self._library.stop()

    def _source(self, gpu: Gpu, reading: Reading) -> Source | None:
        if (gpu.index, reading.name) not in self._sources:
            self.probe(gpu, reading)
        return self._sources[gpu.index, reading.name]

    def _try(self, gpu: Gpu, reading: Reading, source: Source) -> tuple[int, int | None]:
        device = self._devices[gpu.index]
        if isinstance(source, Gpm):
            status = gpm.support(self._library, device.parent or device.handle)
            value = None
        else:
            reader = CallReader(self._library, device.handle, [(reading, source)])
            reader.ask()
            status = reader.faults()[0]
            value = reader.answer(0)[0] if status == OK else None
        if status in LOST:
            raise GpuLost(error_name(status))
        return status, value

    def _reader(self, gpu: Gpu, wanted: Sequence[tuple[Reading, Source]]) -> Reader:
        device = self._devices[gpu.index]
        if wanted and all(isinstance(source, Gpm) for _, source in wanted):
            metrics = cast("Sequence[tuple[Reading, Gpm]]", wanted)
            return gpm.GpmReader(self._library, device.parent or device.handle, metrics, device.instance)
        return CallReader(self._library, device.handle, wanted, device.pcie_bytes_s)

    def _by_uuid(self, uuid: str) -> Handle:
        handle = Handle()
        find = self._library.function("nvmlDeviceGetHandleByUUID", ctypes.c_char_p, c_void_p)
        status = find(uuid.encode(), byref(handle))
        if status == UNINITIALIZED:  # the driver was restarted
            status = self._library.start() or find(uuid.encode(), byref(handle))
        if status != OK:
            raise GpuLost(error_name(status))
        return handle

    def _find(self) -> Iterator[Device]:
        count = c_uint()
        self._library.function("nvmlDeviceGetCount_v2", c_void_p)(byref(count))
        driver = self._library.text("nvmlSystemGetDriverVersion")
        by_index = self._library.function("nvmlDeviceGetHandleByIndex_v2", c_uint, c_void_p)
        for i in range(count.value):
            handle = Handle()
            if by_index(i, byref(handle)) != OK:
                self._silent.append(str(i))
                continue
            yield Device(self._gpu(str(i), handle, driver), handle, pcie_bytes_s=self._link(handle))
            yield from self._instances(i, handle, driver)

    def _instances(self, i: int, parent: Handle, driver: str | None) -> Iterator[Device]:
        mode, pending, most = c_uint(), c_uint(), c_uint()
        ask = self._library.function("nvmlDeviceGetMigMode", c_void_p, c_void_p, c_void_p)
        if ask(parent, byref(mode), byref(pending)) != OK or mode.value != MIG_ENABLED:
            return
        self._library.function("nvmlDeviceGetMaxMigDeviceCount", c_void_p, c_void_p)(parent, byref(most))
        find = self._library.function("nvmlDeviceGetMigDeviceHandleByIndex", c_void_p, c_uint, c_void_p)
        for number in range(most.value):
            handle = Handle()
            if find(parent, number, byref(handle)) == OK:
                instance = self._library.number("nvmlDeviceGetGpuInstanceId", handle)
                gpu = self._gpu(f"{i}:{number}", handle, driver, parent=str(i))
                yield Device(gpu, handle, parent, instance)

    def _gpu(self, index: str, handle: Handle, driver: str | None, parent: str | None = None) -> Gpu:
        name = self._library.text("nvmlDeviceGetName", handle) or "unknown"
        uuid = self._library.text("nvmlDeviceGetUUID", handle) or f"index {index}"
        return Gpu(index, name, uuid, driver, self._memory(handle), self._limits(handle), parent)

    def _memory(self, handle: Handle) -> int | None:
        memory = (ctypes.c_uint64 * 3)()  # total, free, used
        status = self._library.function("nvmlDeviceGetMemoryInfo", c_void_p, c_void_p)(handle, memory)
        return None if status else memory[0] // MIB

    def _link(self, handle: Handle) -> float:
        generation = self._library.number("nvmlDeviceGetMaxPcieLinkGeneration", handle)
        return link_bytes_s(generation, self._library.number("nvmlDeviceGetMaxPcieLinkWidth", handle))

    def _limits(self, handle: Handle) -> dict[str, float | None]:
        number = self._library.number
        lowest, highest = c_uint(), c_uint()
        constraints = self._library.function(
            "nvmlDeviceGetPowerManagementLimitConstraints", c_void_p, c_void_p, c_void_p
        )
        known = constraints(handle, byref(lowest), byref(highest)) == OK
        power = number("nvmlDeviceGetEnforcedPowerLimit", handle)
        return {
            "power_w": None if power is None else power / 1000,
            "power_max_w": highest.value / 1000 if known else None,
            "sm_mhz": number("nvmlDeviceGetMaxClockInfo", handle, SM),
            "mem_mhz": number("nvmlDeviceGetMaxClockInfo", handle, MEMORY),
            "temp_slowdown_c": number("nvmlDeviceGetTemperatureThreshold", handle, SLOWDOWN),
            "temp_shutdown_c": number("nvmlDeviceGetTemperatureThreshold", handle, SHUTDOWN),
        }


class Sparse:
    """A reader that returns None for readings that this GPU no longer has since it came back."""

    def __init__(self, reader: Reader, present: Sequence[bool]) -> None:
        self._reader, self._present = reader, present

    def ask(self) -> None:
        self._reader.ask()

    def answer(self, now: int) -> Values:
        values = iter(self._reader.answer(now))
        return [next(values) if present else None for present in self._present]

    def counters(self) -> Mapping[str, CounterState]:
        return self._reader.counters()
