"""The least that Python can do: the calls of `gputel record` through ctypes, prepared once, and nothing else.

`raw_loop.py GPUS HZ SECONDS FILE` prints what its loop cost as JSON. It keeps absolute deadlines, decodes
nothing and writes nothing: what a recorder in Python costs beyond it is its own.
"""

import contextlib
import ctypes
import json
import os
import resource
import struct
import sys
import time
from ctypes import addressof, c_int, c_uint, c_void_p, create_string_buffer

ALL_LINKS = 0xFFFFFFFF
FIELDS = (
    (186, 0),
    (185, 0),
    (83, 0),
    (82, 0),
    (190, 0),
    (198, 0),
    (197, 0),
    (139, ALL_LINKS),
    (138, ALL_LINKS),
)
CALLS = (
    ("nvmlDeviceGetTemperatureV", (), struct.pack("=IIi", 12 | 1 << 24, 0, 0)),
    ("nvmlDeviceGetUtilizationRates", (), bytes(8)),
    ("nvmlDeviceGetMemoryInfo_v2", (), struct.pack("=I4x4Q", 40 | 2 << 24, 0, 0, 0, 0)),
    ("nvmlDeviceGetClockInfo", (1,), bytes(4)),
    ("nvmlDeviceGetClockInfo", (2,), bytes(4)),
    ("nvmlDeviceGetPerformanceState", (), bytes(4)),
    ("nvmlDeviceGetCurrentClocksEventReasons", (), bytes(8)),
)


def prepared(library: ctypes.CDLL, index: int) -> tuple[list[tuple[object, tuple[object, ...]]], object]:
    """The calls of one GPU with their arguments converted, and the memory that they write to."""
    handle = c_void_p()
    library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
    device, buffers = c_void_p.from_param(handle.value), []
    fields = create_string_buffer(b"".join(struct.pack("=II32x", *field) for field in FIELDS))
    calls = [
        (
            library.nvmlDeviceGetFieldValues,
            (device, c_int.from_param(len(FIELDS)), c_void_p.from_param(addressof(fields))),
        )
    ]
    for name, arguments, content in CALLS:
        buffer = create_string_buffer(content, len(content))
        buffers.append(buffer)
        numbers = [c_uint.from_param(number) for number in arguments]
        calls.append((library[name], (device, *numbers, c_void_p.from_param(addressof(buffer)))))
    return calls, (fields, buffers)


def cpu_us() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return (used.ru_utime + used.ru_stime) * 1e6


def main() -> None:
    gpus, hz, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    library = ctypes.CDLL("libnvidia-ml.so.1")
    library.nvmlInit_v2()
    machine = [prepared(library, index) for index in range(gpus)]
    calls = [call for calls_of_one, _ in machine for call in calls_of_one]
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    ticks, lateness = int(seconds * hz), []
    cpu, began = cpu_us(), time.monotonic()
    for tick in range(ticks):
        deadline = began + (tick + 1) / hz
        time.sleep(max(0.0, deadline - time.monotonic()))
        lateness.append(time.monotonic() - deadline)
        for function, arguments in calls:
            function(*arguments)
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
        "resident_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(result))


main()
