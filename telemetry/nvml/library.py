"""NVIDIA's library: raw calls, and the meaning of their return codes.

Loads a CDLL of its own, because argument types set on pynvml's functions would change them for the whole process.
Constants and error names come from pynvml. A function that this driver lacks returns FUNCTION_NOT_FOUND.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int, c_uint, c_void_p

import pynvml  # type: ignore[import-untyped]

from gputel.telemetry.errors import GputelError

NAME = "libnvidia-ml.so.1"
WSL = "/usr/lib/wsl/lib/libnvidia-ml.so.1"
OK = pynvml.NVML_SUCCESS
NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
NOT_FOUND = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
NO_SAMPLES = pynvml.NVML_ERROR_NOT_FOUND
INSUFFICIENT_SIZE = pynvml.NVML_ERROR_INSUFFICIENT_SIZE
UNINITIALIZED = pynvml.NVML_ERROR_UNINITIALIZED
NO_PERMISSION = pynvml.NVML_ERROR_NO_PERMISSION
UNKNOWN = pynvml.NVML_ERROR_UNKNOWN
TIMEOUT = pynvml.NVML_ERROR_TIMEOUT
LOST = frozenset(
    {
        UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_RESET_REQUIRED,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)
"""Return codes that make a handle useless: the GPU fell off the bus, or its driver was restarted."""

HINT = "check whether `nvidia-smi` works"
FAULTS = {
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "the NVIDIA driver is not loaded",
        "try `modprobe nvidia`; in a container start it with --gpus all; or try --simulate 2xH100",
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "the driver in the kernel and its library have different versions",
        "reboot, or reload the driver: it was updated under a running system",
    ),
    NO_PERMISSION: (
        "no permission to talk to the driver",
        "check who may read /dev/nvidiactl and /dev/nvidia0",
    ),
}

UNAVAILABLE = 0xFFFFFFFF
"""What the driver writes into an unsigned int that it does not know; into a longer one, all ones."""
INT64 = (1 << 63) - 1
"""The highest value that the store keeps."""

Call = Callable[..., int]
Handle = c_void_p
Prepared = tuple[Call, tuple[object, ...]]


def error_name(status: int) -> str:
    """`NotSupported` for NVML_ERROR_NOT_SUPPORTED."""
    return ERRORS.get(status, f"error {status}")


ERRORS: dict[int, str] = {
    value: name.removeprefix("NVML_ERROR_").replace("_", " ").title().replace(" ", "")
    for name, value in vars(pynvml).items()
    if name.startswith("NVML_ERROR_") and isinstance(value, int)
}


def whole(value: float) -> int | None:
    """The nearest integer; None of NaN and infinity, and of a value too large for the store."""
    return round(value) if math.isfinite(value) and -INT64 <= value <= INT64 else None


class Library:
    """Calls into one loaded library by function name."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._functions: dict[str, Call] = {}
        self._untyped: dict[str, Call] = {}
        self._arguments: dict[tuple[type, int | None], object] = {}

    def prepare(self, name: str, handle: Handle, *arguments: c_void_p | c_uint | c_int) -> Prepared:
        """A call to repeat, with its arguments converted once; saves a third of the time of each call.

        All calls share one object per handle and number: at 100 Hz the processor's caches are cold at every tick,
        and each object counts.
        """
        if name not in self._untyped:
            self._untyped[name] = self._bind(name, None)
        return self._untyped[name], tuple(map(self._converted, (c_void_p(handle.value), *arguments)))

    def _converted(self, argument: c_void_p | c_uint | c_int) -> object:
        kind, value = type(argument), argument.value
        return self._arguments.setdefault((kind, value), kind.from_param(value))

    def function(self, name: str, *argtypes: type) -> Call:
        """The function of this name; its argument types are those of the first use."""
        if name not in self._functions:
            self._functions[name] = self._bind(name, argtypes)
        return self._functions[name]

    def _bind(self, name: str, argtypes: tuple[type, ...] | None) -> Call:
        try:
            function = self._library[name]
        except AttributeError:
            return lambda *_: NOT_FOUND
        function.restype = c_int
        if argtypes is not None:
            function.argtypes = argtypes
        return function

    def text(self, name: str, *handle: Handle) -> str | None:
        """A string from the driver; None where it has none."""
        buffer = ctypes.create_string_buffer(96)
        status = self.function(name, *[c_void_p] * len(handle), c_char_p, c_uint)(
            *handle, buffer, len(buffer)
        )
        return None if status else buffer.value.decode(errors="replace")

    def number(self, name: str, handle: Handle, *arguments: int) -> int | None:
        """An unsigned int that the function writes to its last argument; None where it has none."""
        answer = c_uint()
        types = [c_void_p, *[c_uint] * len(arguments), c_void_p]
        status = self.function(name, *types)(handle, *arguments, byref(answer))
        return None if status or answer.value == UNAVAILABLE else answer.value

    def start(self) -> int:
        return self.function("nvmlInit_v2")()

    def stop(self) -> None:
        self.function("nvmlShutdown")()


def load() -> Library:
    """The started library. Raises GputelError with the reason if it cannot be loaded or started."""
    library = Library(_open())
    status = library.start()
    if status != OK:
        fault, hint = FAULTS.get(status, (f"it answers {error_name(status)}", HINT))
        raise GputelError("NVML", fault, hint)
    return library


def _open() -> ctypes.CDLL:
    for path in (NAME, WSL):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise GputelError(
        NAME, "the NVIDIA driver's library was not found", "install the driver, or try --simulate 2xH100"
    )
