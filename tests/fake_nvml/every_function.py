"""A driver without physics in which every function of NVML exists: nvidia-ml-py's declarations name them.

A test gives each function its return code. Where a function succeeds, each byte that it writes is `fill`, so that
all its values are at a limit. `OUTPUTS` says what the functions that gputel calls write; the others answer
NotSupported.
"""

from __future__ import annotations

import ctypes
import inspect
import mmap
import re
import shutil
import subprocess
from collections.abc import Collection
from ctypes import c_int32, c_uint32
from pathlib import Path

import pynvml  # type: ignore[import-untyped]

from gputel.telemetry.nvml.devices import Nvml
from gputel.telemetry.nvml.library import NAME, Library

FUNCTIONS = sorted(
    {*re.findall(r'_nvmlGetFunctionPointer\("(nvml\w+)"', inspect.getsource(pynvml)), "nvmlInit_v2"}
)
ERRORS = sorted(
    value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_") and isinstance(value, int)
)
NOT_SUPPORTED, TIMEOUT = pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_TIMEOUT
NEWER = (
    "nvmlDeviceGetTemperatureV nvmlDeviceGetMemoryInfo_v2 nvmlDeviceGetCurrentClocksEventReasons "
    "nvmlGpmQueryDeviceSupport nvmlGpmSampleAlloc nvmlGpmSampleFree nvmlGpmSampleGet "
    "nvmlGpmMigSampleGet nvmlGpmMetricsGet"
).split()
"""What drivers before R525 lack."""

PROCESS_BYTES = ctypes.sizeof(pynvml.c_nvmlProcessInfo_v2_t)
SAMPLE_BYTES = ctypes.sizeof(pynvml.c_nvmlProcessUtilizationSample_t)
# f: bytes of `fill`, at an argument and from an offset; h: a handle; t: a text; n: this number; list: one record
OUTPUTS = {
    "nvmlInit_v2": "",
    "nvmlShutdown": "",
    "nvmlSystemGetDriverVersion": "t0",
    "nvmlDeviceGetCount_v2": "n0 2",
    "nvmlDeviceGetHandleByIndex_v2": "h1",
    "nvmlDeviceGetHandleByUUID": "h1",
    "nvmlDeviceGetName": "t1",
    "nvmlDeviceGetUUID": "t1",
    "nvmlDeviceGetMaxClockInfo": "f2 0 4",
    "nvmlDeviceGetClockInfo": "f2 0 4",
    "nvmlDeviceGetTemperatureThreshold": "f2 0 4",
    "nvmlDeviceGetTemperature": "f2 0 4",
    "nvmlDeviceGetTemperatureV": f"v1 {pynvml.nvmlTemperature_v1} f1 8 4",
    "nvmlDeviceGetPowerManagementLimitConstraints": "f1 0 4 f2 0 4",
    "nvmlDeviceGetEnforcedPowerLimit": "f1 0 4",
    "nvmlDeviceGetPowerUsage": "f1 0 4",
    "nvmlDeviceGetFanSpeed": "f1 0 4",
    "nvmlDeviceGetPerformanceState": "f1 0 4",
    "nvmlDeviceGetMaxPcieLinkGeneration": "f1 0 4",
    "nvmlDeviceGetMaxPcieLinkWidth": "f1 0 4",
    "nvmlDeviceGetTotalEnergyConsumption": "f1 0 8",
    "nvmlDeviceGetUtilizationRates": "f1 0 8",
    "nvmlDeviceGetMemoryInfo": "f1 0 24",
    "nvmlDeviceGetMemoryInfo_v2": f"v1 {pynvml.nvmlMemory_v2} f1 8 32",
    "nvmlDeviceGetCurrentClocksEventReasons": "f1 0 8",
    "nvmlDeviceGetCurrentClocksThrottleReasons": "f1 0 8",
    "nvmlDeviceGetTotalEccErrors": "f3 0 8",
    "nvmlDeviceGetRemappedRows": "f1 0 4 f2 0 4 f3 0 4 f4 0 4",
    "nvmlDeviceGetMigMode": "n1 1 n2 1",
    "nvmlDeviceGetMaxMigDeviceCount": "n1 1",
    "nvmlDeviceGetMigDeviceHandleByIndex": "h2",
    "nvmlDeviceGetGpuInstanceId": "f1 0 4",
    "nvmlDeviceGetFieldValues": "fields",
    **{
        f"nvmlDeviceGet{kind}RunningProcesses_v{version}": f"list a1 a2 {PROCESS_BYTES}"
        for kind in ("Compute", "Graphics", "MPSCompute")
        for version in (2, 3)
    },
    "nvmlDeviceGetProcessUtilization": f"list a2 a1 {SAMPLE_BYTES}",
    "nvmlDeviceRegisterEvents": "",
    "nvmlEventSetCreate": "h0",
    "nvmlEventSetWait_v2": "f1 0 32",
    "nvmlGpmQueryDeviceSupport": f"v1 {pynvml.NVML_GPM_SUPPORT_VERSION} f1 4 4",
    "nvmlGpmSampleAlloc": "h0",
    "nvmlGpmSampleFree": "",
    "nvmlGpmSampleGet": "",
    "nvmlGpmMigSampleGet": "",
    "nvmlGpmMetricsGet": f"v0 {pynvml.NVML_GPM_METRICS_GET_VERSION} metrics",
}

HEAD = """
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
typedef struct { int32_t status[512]; uint32_t calls[512]; uint32_t fill, field_type; int32_t field_status; } State;
static State *state;
static int gpu;
static int enter(int function) {
    if (!state) {
        int file = open(STATE, O_RDWR | O_CLOEXEC);
        state = mmap(0, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    __atomic_fetch_add(&state->calls[function], 1, __ATOMIC_RELAXED);
    return state->status[function];
}
static void fields(uint64_t count, uint8_t *field) {
    for (; count--; field += 40) {
        memcpy(field + 24, &state->field_type, 4);
        memcpy(field + 28, &state->field_status, 4);
        memset(field + 32, (int)state->fill, 8);
    }
}
static void list(uint32_t *count, uint8_t *records, unsigned size) {
    if (*count) memset(records, (int)state->fill, size);
    *count = state->fill == 255 ? ~0u : 1;
}
static void metrics(uint8_t *all) {
    for (uint32_t i = 0; i < *(uint32_t *)(all + 4); i++) {
        memcpy(all + 24 + 40 * i + 4, &state->field_status, 4);
        memset(all + 24 + 40 * i + 8, (int)state->fill, 8);
    }
}
"""
PARAMETERS = ", ".join(f"uint64_t a{n}" for n in range(6))
UNUSED = " ".join(f"(void)a{n};" for n in range(6))


class State(ctypes.Structure):
    _fields_ = [
        ("status", c_int32 * 512),
        ("calls", c_uint32 * 512),
        ("fill", c_uint32),
        ("field_type", c_uint32),
        ("field_status", c_int32),
    ]


def _body(outputs: str) -> str:
    """C of what a function writes."""
    text = re.sub(r"f(\d) (\d+) (\d+)", r"memset((char *)a\1 + \2, (int)state->fill, \3); ", outputs)
    text = re.sub(r"v(\d) (\d+)", r"if (*(uint32_t *)a\1 != \2u) return 25; ", text)
    text = re.sub(r"n(\d) (\d+)", r"*(uint32_t *)a\1 = \2; ", text)
    text = re.sub(r"h(\d)\b", r"*(void **)a\1 = &gpu; ", text)
    text = re.sub(r"t(\d)\b", r"memset((char *)a\1, (int)state->fill, 95); ((char *)a\1)[95] = 0; ", text)
    text = re.sub(r"\bfields\b", "fields(a1, (void *)a2); ", text)
    text = re.sub(r"list (a\d) (a\d) (\d+)", r"list((void *)\1, (void *)\2, \3); ", text)
    return re.sub(r"\bmetrics\b", "metrics((void *)a0); ", text)


def source(missing: Collection[str] = ()) -> str:
    functions = [
        f"int {name}({PARAMETERS}) {{ {UNUSED} int status = enter({number}); if (status) return status; "
        f"{_body(OUTPUTS.get(name, ''))}return 0; }}"
        for number, name in enumerate(FUNCTIONS)
        if name not in missing
    ]
    return "\n".join((HEAD, *functions, ""))


class EveryFunction:
    """The driver, at first with a code of 0 for all that gputel calls."""

    def __init__(self, folder: Path, missing: Collection[str] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "driver.c").write_text(source(missing))
        compiler = next(c for c in ("cc", "gcc", "clang") if shutil.which(c))
        self.library, self.path = folder / NAME, folder / "state"
        command = [compiler, "-O1", "-shared", "-fPIC", f'-DSTATE="{self.path}"']
        subprocess.run([*command, "-o", str(self.library), str(folder / "driver.c")], check=True)
        self.path.write_bytes(bytes(ctypes.sizeof(State)))
        with self.path.open("r+b") as file:
            self.state = State.from_buffer(mmap.mmap(file.fileno(), 0))
        self.loaded = ctypes.CDLL(str(self.library))
        self.reset()

    def reset(self) -> None:
        """Everything that gputel calls succeeds, with small numbers; no GPU has MIG, and no Xid comes."""
        self.state.fill, self.state.field_type, self.state.field_status = 1, 1, 0
        for number, name in enumerate(FUNCTIONS):
            self.state.status[number] = 0 if name in OUTPUTS else NOT_SUPPORTED
            self.state.calls[number] = 0
        self.set_status("nvmlDeviceGetMigMode", NOT_SUPPORTED)
        self.set_status("nvmlEventSetWait_v2", TIMEOUT)

    def set_status(self, function: str, status: int) -> None:
        self.state.status[FUNCTIONS.index(function)] = status

    def called(self) -> set[str]:
        return {name for number, name in enumerate(FUNCTIONS) if self.state.calls[number]}

    def open(self) -> Nvml:
        library = Library(self.loaded)
        library.start()
        return Nvml(library)
