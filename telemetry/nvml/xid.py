"""Xid errors, reported by the driver itself: a thread waits for them, one second at a time."""

from __future__ import annotations

import struct
import threading
from collections.abc import Mapping
from ctypes import byref, c_uint, c_ulonglong, c_void_p, create_string_buffer

from gputel.telemetry.machine import Report
from gputel.telemetry.nvml.library import OK, TIMEOUT, Handle, Library

XID = 0x8
WAIT_MS = 1000
DATA = struct.Struct("=QQQII")  # device, kind of event, Xid, GPU instance, compute instance

MEANINGS = {
    13: "graphics engine exception",
    31: "memory page fault",
    43: "the GPU stopped processing",
    45: "channels cleaned up after an earlier error",
    48: "double-bit memory error",
    61: "internal micro-controller breakpoint",
    62: "internal micro-controller halt",
    63: "a memory row was remapped",
    64: "remapping a memory row failed",
    69: "graphics engine class error",
    74: "NVLink error",
    79: "the GPU has fallen off the bus",
    92: "many single-bit memory errors",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "the GPU's system processor does not answer",
    120: "error of the GPU's system processor",
    121: "chip-to-chip link error",
}


class XidListener:
    """Reports Xid errors. `devices` maps each handle's address to the GPU's index."""

    def __init__(self, library: Library, devices: Mapping[int, str], report: Report) -> None:
        self._library, self._devices, self._report = library, dict(devices), report
        self._ended = threading.Event()
        self._grown = False
        self._wait = library.function("nvmlEventSetWait_v2", c_void_p, c_void_p, c_uint)
        self._thread = threading.Thread(target=self._listen, name="xid", daemon=True)
        self._thread.start()

    def end(self) -> bool:
        """Ask the thread to end; True if it is no longer inside a call."""
        self._ended.set()
        return not self._thread.is_alive()

    def add(self, device: int, gpu: str) -> None:
        """Listen to one more GPU, within a second."""
        self._devices[device] = gpu
        self._grown = True

    def _listen(self) -> None:
        while not self._ended.is_set():
            self._grown = False
            events = self._subscribe()
            if events is None:
                return
            while not self._ended.is_set() and not self._grown and self._wait_once(events):
                pass
            self._ended.wait(1.0)  # a GPU came, or it or the driver went away: subscribe again

    def _subscribe(self) -> c_void_p | None:
        """An event set for the Xid errors of all GPUs; None if no GPU supports them."""
        events = c_void_p()
        if self._library.function("nvmlEventSetCreate", c_void_p)(byref(events)) != OK:
            return None
        register = self._library.function("nvmlDeviceRegisterEvents", c_void_p, c_ulonglong, c_void_p)
        statuses = [register(Handle(device), XID, events) for device in list(self._devices)]
        return events if OK in statuses else None

    def _wait_once(self, events: c_void_p) -> bool:
        """Report the next error, if one comes; False if the event set no longer works."""
        buffer = create_string_buffer(DATA.size)
        status = self._wait(events, buffer, WAIT_MS)
        if status == OK:
            self._report_error(*DATA.unpack(buffer.raw))
        return status in (OK, TIMEOUT)

    def _report_error(
        self, device: int, kind: int, xid: int, _gpu_instance: int, _compute_instance: int
    ) -> None:
        if not kind & XID:
            return
        gpu = self._devices.get(device)
        where = "an unknown GPU" if gpu is None else f"GPU {gpu}"
        meaning = MEANINGS.get(xid)
        self._report("xid", f"Xid {xid} on {where}" + (f": {meaning}" if meaning else ""), gpu=gpu, xid=xid)
