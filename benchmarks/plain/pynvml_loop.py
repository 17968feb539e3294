"""What a Python programmer would write instead of `gputel record`: the same readings through pynvml, binary rows.

`pynvml_loop.py GPUS HZ SECONDS FILE [batched]` prints what its loop cost as JSON. It calls a function for each
reading, as such scripts do; `batched` asks for all that are fields in one call, as few know to. Either way it keeps
absolute deadlines and writes little: it is meant to be fair.
"""

import contextlib
import json
import os
import resource
import sys
import time
from array import array
from collections.abc import Callable
from pathlib import Path

import pynvml

FIELDS = [186, 185, 83, 82, 190, 198, 197, (139, 0xFFFFFFFF), (138, 0xFFFFFFFF)]
ONLY_FIELDS = [186, 185, 82, 198, 197, (139, 0xFFFFFFFF), (138, 0xFFFFFFFF)]
UNSIGNED_INT = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT


def batched(gpu: object) -> list[int]:
    return [number(field) for field in pynvml.nvmlDeviceGetFieldValues(gpu, FIELDS)]


def one_by_one(gpu: object) -> list[int]:
    row = [number(pynvml.nvmlDeviceGetFieldValues(gpu, [field])[0]) for field in ONLY_FIELDS]
    row.append(pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu))
    row.append(pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu))
    return row


def number(field: object) -> int:
    value = field.value
    return value.uiVal if field.valueType == UNSIGNED_INT else value.ullVal


def read(gpu: object, fields: Callable[[object], list[int]], with_fan: bool) -> list[int]:
    row = fields(gpu)
    row.append(pynvml.nvmlDeviceGetTemperatureV(gpu, pynvml.NVML_TEMPERATURE_GPU))
    busy = pynvml.nvmlDeviceGetUtilizationRates(gpu)
    row += (busy.gpu, busy.memory)
    row.append(pynvml.nvmlDeviceGetMemoryInfo(gpu, pynvml.nvmlMemory_v2).used)
    row.append(pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM))
    row.append(pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_MEM))
    row.append(pynvml.nvmlDeviceGetPerformanceState(gpu))
    row.append(pynvml.nvmlDeviceGetCurrentClocksEventReasons(gpu))
    row.append(pynvml.nvmlDeviceGetFanSpeed(gpu) if with_fan else 0)
    return row


def cpu_us() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return (used.ru_utime + used.ru_stime) * 1e6


def resident_mib() -> float:
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    return int(line.split()[1]) / 1024


def main() -> None:
    gpus, hz, seconds, out = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])
    fields = batched if "batched" in sys.argv else one_by_one
    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(gpus)]
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    ticks, lateness = int(seconds * hz), []
    with out.open("wb") as file:
        cpu, began = cpu_us(), time.monotonic()
        for tick in range(ticks):
            deadline = began + (tick + 1) / hz
            time.sleep(max(0.0, deadline - time.monotonic()))
            now = time.monotonic()
            lateness.append(now - deadline)
            row = [int(deadline * 1e9), int(now * 1e9)]
            for handle in handles:
                row += read(handle, fields, tick % hz == 0)
            file.write(array("q", row).tobytes())
        elapsed, cpu = time.monotonic() - began, cpu_us() - cpu
    lateness.sort()
    result = {
        "ticks": ticks,
        "hz": ticks / elapsed,
        "cpu_us": cpu / ticks,
        "late": sum(late > 1 / hz for late in lateness),
        "p50_us": lateness[ticks // 2] * 1e6,
        "p99_us": lateness[ticks * 99 // 100] * 1e6,
        "max_us": lateness[-1] * 1e6,
        "resident_mib": resident_mib(),
    }
    print(json.dumps(result))


main()
