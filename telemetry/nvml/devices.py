"""The real machine: its GPUs, and MIG instances as GPUs of their own.

Identifies a GPU by its UUID, because a driver restart changes its handle and may change its index. Opens each GPU
in a thread of its own: a GPU whose call hangs or fails is left out, and joins when it answers. One that the driver
refuses to this user is not of the machine: a batch system gives a job some of a node's GPUs.
"""

from __future__ import annotations

import ctypes
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from ctypes import byref, c_uint, c_void_p
from dataclasses import dataclass
from typing import cast

from gputel.telemetry.errors import GputelError
from gputel.telemetry.machine import (
    NOT_OPEN,
    Answer,
    Bits,
    BufferedReader,
    Gpu,
    GpuLost,
    GpuUsers,
    Integers,
    Prepared,
    RawRows,
    Reader,
    Report,
    Values,
)
from gputel.telemetry.nvml import gpm, library
from gputel.telemetry.nvml.calls import CallReader
from gputel.telemetry.nvml.counters import PCIE_BYTES_S, link_bytes_s
from gputel.telemetry.nvml.gpu_users import UserReader
from gputel.telemetry.nvml.library import (
    INT64,
    LOST,
    NO_PERMISSION,
    OK,
    UNAVAILABLE,
    UNINITIALIZED,
    Handle,
    Library,
    error_name,
)
from gputel.telemetry.nvml.xid import XidListener
from gputel.telemetry.readings import MIB, READINGS, Gpm, Reading, Source

MIG_ENABLED = 1
SLOWDOWN, SHUTDOWN = 1, 0
SM, MEMORY = 1, 2
OPENING_S = 1.0
"""A GPU that is not open this long after the others is left out; the first may take as long as it needs."""


@dataclass
class Device:
    """A GPU with its handle. A MIG device has an `instance` and a `parent`, whose handle takes its GPM samples."""

    gpu: Gpu
    handle: Handle
    parent: Handle | None = None
    instance: int | None = None
    pcie_bytes_s: float = PCIE_BYTES_S


class Opening:
    """A GPU while it is opened; `opened` gets the opening when it has ended."""

    def __init__(
        self, index: str, work: Callable[[], list[Device]], opened: queue.SimpleQueue[Opening] | None = None
    ) -> None:
        self.index = index
        self.devices: list[Device] | None = None
        self._work, self._opened = work, opened
        threading.Thread(target=self._open, name=f"opening {index}", daemon=True).start()

    def _open(self) -> None:
        devices = self._work()
        self.devices = devices
        if self._opened is not None:
            self._opened.put(self)


def open_machine() -> Nvml:
    """The machine behind the driver. Raises GputelError if the driver cannot be used."""
    return Nvml(library.load())


class Nvml:
    """A `Machine` read through NVML."""

    simulated: str | None = None

    def __init__(self, nvml: Library) -> None:
        self._library = nvml
        self._silent: list[str] = []
        self._refused: list[str] = []
        self._openings: dict[str, Opening] = {}
        self._devices = {device.gpu.index: device for device in self._find()}
        self._sources: dict[tuple[str, str], Source | None] = {}
        self._users: dict[str, UserReader] = {}
        self._listener: XidListener | None = None

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """All GPUs; one that is not open yet has no name."""
        return tuple(device.gpu for device in self._devices.values())

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

    def users(self, gpu: Gpu, now: int) -> GpuUsers:
        device = self._devices[gpu.index]
        if any(other.gpu.parent == gpu.index for other in self._devices.values()):
            return GpuUsers((), "asked of its MIG instances")
        if device.handle.value is None:
            raise GpuLost(NOT_OPEN)
        return self._users.setdefault(gpu.index, UserReader(self._library)).read(device.handle)

    def revive(self, gpu: Gpu) -> None:
        device = self._devices[gpu.index]
        if gpu.index in self._openings:
            self._join(gpu.index)
        elif gpu.parent is None:
            device.handle = self._by_uuid(device.gpu.uuid)
        alive = [
            reading for reading in READINGS if reading.sources and self._source(gpu, reading) is not None
        ]
        reader = self.reader(gpu, alive[:1])
        reader.ask()
        reader.answer(0)

    def listen(self, report: Report) -> None:
        if gpus := sorted(self._refused, key=int):
            text = f"not recorded: GPU {', '.join(gpus)}, which the driver refuses to this user"
            report("gpu_refused", text, gpus=gpus)
        for index in self._silent:
            report("gpu_lost", f"GPU {index} does not answer", gpu=index)
        for index in self._openings.keys() - set(self._silent):
            text = f"GPU {index} is left out: the driver has not opened it within {OPENING_S:g} s"
            report("gpu_lost", text, gpu=index, cause="hang")
        whole = {d.handle.value: d.gpu.index for d in self._devices.values() if not d.parent}
        self._listener = XidListener(
            self._library, {handle: gpu for handle, gpu in whole.items() if handle}, report
        )

    def close(self) -> None:
        """Shut NVML down, unless a thread still waits inside a call: that would crash."""
        opening = any(opening.devices is None for opening in self._openings.values())
        if (self._listener is None or self._listener.end()) and not opening:
            self._library.stop()

    def _source(self, gpu: Gpu, reading: Reading) -> Source | None:
        if (gpu.index, reading.name) not in self._sources:
            self.probe(gpu, reading)
        return self._sources[gpu.index, reading.name]

    def _try(self, gpu: Gpu, reading: Reading, source: Source) -> tuple[int, int | None]:
        device = self._devices[gpu.index]
        if device.handle.value is None:
            raise GpuLost(NOT_OPEN)
        if isinstance(source, Gpm):
            status = gpm.support(self._library, device.parent or device.handle, device.instance)
            value = None
        else:
            reader = CallReader(self._library, device.handle, [(reading, source)])
            reader.ask()
            status = reader.statuses()[0]
            value = reader.answer(0)[0] if status == OK else None
        if status in LOST:
            raise GpuLost(error_name(status))
        return status, value

    def _reader(self, gpu: Gpu, wanted: Sequence[tuple[Reading, Source]]) -> BufferedReader:
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
        status = self._library.function("nvmlDeviceGetCount_v2", c_void_p)(byref(count))
        if status != OK:
            fault = f"the driver answers {error_name(status)} when it is asked for its GPUs"
            raise GputelError("NVML", fault, library.HINT)
        driver = self._library.text("nvmlSystemGetDriverVersion")
        opened: queue.SimpleQueue[Opening] = queue.SimpleQueue()
        openings = [self._opening(str(i), driver, opened) for i in range(count.value)]
        _wait(opened, len(openings))
        if all(opening.devices == [] for opening in openings):
            return
        for opening in openings:
            if opening.devices:
                yield from opening.devices
            if opening.devices or opening.index in self._refused:
                continue
            self._openings[opening.index] = opening
            self._silent += [] if opening.devices is None else [opening.index]
            yield Device(Gpu(opening.index, "unknown", f"index {opening.index}", driver), Handle())

    def _opening(
        self, index: str, driver: str | None, opened: queue.SimpleQueue[Opening] | None = None
    ) -> Opening:
        return Opening(index, lambda: list(self._open(int(index), driver)), opened)

    def _open(self, i: int, driver: str | None) -> Iterator[Device]:
        """The GPU and its MIG instances; none if it does not answer."""
        handle = Handle()
        status = self._library.function("nvmlDeviceGetHandleByIndex_v2", c_uint, c_void_p)(i, byref(handle))
        if status == NO_PERMISSION:
            self._refused.append(str(i))
        elif status == OK:
            yield Device(self._gpu(str(i), handle, driver), handle, pcie_bytes_s=self._link(handle))
            yield from self._instances(i, handle, driver)

    def _join(self, index: str) -> None:
        """Take in a GPU whose opening has ended; raises GpuLost if it has not, or if it failed."""
        opening, device = self._openings[index], self._devices[index]
        if opening.devices is None:
            raise GpuLost(NOT_OPEN)
        if not opening.devices:
            self._openings[index] = self._opening(index, device.gpu.driver)
            raise GpuLost("it does not answer")
        del self._openings[index]
        self._devices[index] = opening.devices[0]
        if self._listener is not None:
            self._listener.add(opening.devices[0].handle.value or 0, index)

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
        return None if status or memory[0] > INT64 else memory[0] // MIB

    def _link(self, handle: Handle) -> float:
        generation = self._library.number("nvmlDeviceGetMaxPcieLinkGeneration", handle)
        return link_bytes_s(generation, self._library.number("nvmlDeviceGetMaxPcieLinkWidth", handle))

    def _limits(self, handle: Handle) -> dict[str, float | None]:
        number = self._library.number
        lowest, highest = c_uint(), c_uint()
        constraints = self._library.function(
            "nvmlDeviceGetPowerManagementLimitConstraints", c_void_p, c_void_p, c_void_p
        )
        constrained = (
            constraints(handle, byref(lowest), byref(highest)) == OK and highest.value != UNAVAILABLE
        )
        power = number("nvmlDeviceGetEnforcedPowerLimit", handle)
        return {
            "power_w": None if power is None else power / 1000,
            "power_max_w": highest.value / 1000 if constrained else None,
            "sm_mhz": number("nvmlDeviceGetMaxClockInfo", handle, SM),
            "mem_mhz": number("nvmlDeviceGetMaxClockInfo", handle, MEMORY),
            "temp_slowdown_c": number("nvmlDeviceGetTemperatureThreshold", handle, SLOWDOWN),
            "temp_shutdown_c": number("nvmlDeviceGetTemperatureThreshold", handle, SHUTDOWN),
        }


def _wait(opened: queue.SimpleQueue[Opening], count: int) -> None:
    """Wait until all GPUs are open, or until no other has followed the last one for OPENING_S."""
    for number in range(count):
        try:
            opened.get(timeout=OPENING_S if number else None)
        except queue.Empty:
            return


class Sparse:
    """A reader that returns None for readings that this GPU no longer has since it came back."""

    def __init__(self, reader: BufferedReader, present: Sequence[bool]) -> None:
        self._reader, self._present = reader, present
        self._columns = [place for place, there in enumerate(present) if there]
        self.memory = reader.memory
        self.calls = reader.calls
        self.ask, self.timed, self.check = reader.ask, reader.timed, reader.check
        self.counters, self.faults = reader.counters, reader.faults

        self.layout = reader.layout, tuple(present)

    @property
    def prepared(self) -> Sequence[Prepared]:
        return self._reader.prepared

    @property
    def failed(self) -> bool:
        return self._reader.failed

    @failed.setter
    def failed(self, failed: bool) -> None:
        self._reader.failed = failed

    def answer(self, now: int) -> Values:
        values = iter(self._reader.answer(now))
        return [next(values) if present else None for present in self._present]

    def value(self, row: bytes, offset: int, place: int) -> int | None:
        return self._reader.value(row, offset, self._columns.index(place)) if self._present[place] else None

    def decode(self, raw: RawRows, values: Integers, valid: Bits) -> None:
        answers, there = values[..., self._columns], valid[..., self._columns]
        self._reader.decode(raw, answers, there)
        values[:], valid[:] = 0, False
        values[..., self._columns], valid[..., self._columns] = answers, there

    def follow(self, times: Sequence[int], values: Integers, valid: Bits) -> None:
        answers, there = values[:, self._columns], valid[:, self._columns]
        self._reader.follow(times, answers, there)
        values[:, self._columns], valid[:, self._columns] = answers, there
