"""What each optimizer step of torch waited for: hooks add up, and append one record a step to a file in memory.

A step ends with the last optimizer step before the next backward or fetch of data: so accumulated gradients and
several optimizers are one step. Fetches while gradients are off, or of an iterator that ends without a backward,
are those of an evaluation, and belong to no step. A failure is written down; it ends the records, and nothing else.

Before Python 3.11 a wrapper would show in the training's tracebacks: there only the optimizers are seen, and a step
begins when its first optimizer comes again.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import gc
import os
import struct
import sys
import threading
from _thread import get_ident
from time import CLOCK_BOOTTIME, clock_gettime_ns, perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from types import ModuleType

MAGIC = b"gptlstp1"
HEADER = struct.Struct("<8sqii40x")  # magic, wall clock, rank and number of ranks or -1
RECORD = struct.Struct("<6qIIHHI")  # as `telemetry/inside/step_records.py` names it
EVALUATES, CLOSURE, WAITS = 1, 2, 4  # flags
HIGH = 700  # descriptors below are counted and closed by some programs
MOST_WAITING = 64 << 20  # bytes that nothing has taken out of memory
HIDES_FRAMES = sys.version_info >= (3, 11)
NOT_ANY = 0  # the number of no thread
NO_FETCHES = 0, 0
TOGETHER_NS = 200_000_000  # records of shorter steps are written together


class StepRecorder:
    """Adds up what the hooks see; writes it when a step has ended, at most five times a second."""

    def __init__(self, folder: str, place: Callable[[], dict[str, int | None]]) -> None:
        self._folder, self._place = folder, place
        self._file, self._identity = -1, (0, 0)
        self._wall_at_boot = wall_at_boot(folder)
        self._compiles: Callable[[], bool] = bool
        self._has_gradients: Callable[[], bool] = bool
        self._forget(threading.main_thread().ident or NOT_ANY)

    def _forget(self, thread: int) -> None:
        self._thread = thread
        self._trained = self._fetching = self._in_backward = False
        self._border: int | None = None
        self._ended: tuple[int, int] | None = None  # of the last optimizer step: steady and wall clock
        self._stepping: tuple[int, int] | None = None  # which optimizer, since when
        self._first: int | None = None
        self._collecting = 0
        self._waiting: list[bytes] = []
        self._written = 0
        self._unclaimed: dict[int, tuple[int, int]] = {}  # by iterator: its fetches since a backward
        self._clear()

    def _clear(self) -> None:
        self._fetch_ns = self._backward_ns = self._optimizer_ns = self._gc_ns = 0
        self._fetches = self._backwards = self._optimizers = 0
        self._flags = WAITS if HIDES_FRAMES else 0

    def hook(self, torch: ModuleType) -> None:
        """Bring the hooks in. Raises LookupError or AttributeError, before any, where this torch lacks a name."""
        optimizer, loading = sys.modules["torch.optim.optimizer"], sys.modules["torch.utils.data.dataloader"]
        before = optimizer.register_optimizer_step_pre_hook
        after = optimizer.register_optimizer_step_post_hook
        iterator, backward = loading._BaseDataLoaderIter, torch.autograd._engine_run_backward
        self._compiles, self._has_gradients = torch.compiler.is_compiling, torch.is_grad_enabled
        if HIDES_FRAMES:
            iterator.__next__ = in_place_of(iterator.__next__, self._fetch_hook(iterator.__next__))
            hook = in_place_of(backward, self._backward_hook(backward))
            torch.autograd._engine_run_backward = hook
        before(self._begin_optimizer)
        after(self._end_optimizer)
        gc.callbacks.append(self._collect)
        os.register_at_fork(after_in_child=self._begin_in_child)
        atexit.register(self._end)

    def _begin_in_child(self) -> None:
        """Leave the parent's file to it; the child has its own."""
        with contextlib.suppress(OSError):
            if self._is_ours():
                os.close(self._file)
        self._file = -1
        self._forget(get_ident())

    def _fetch_hook(self, fetch: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def __next__(iterator: Any) -> Any:  # noqa: N807
            if self._fetching or get_ident() != self._thread:
                return fetch(iterator)
            if self._ended is not None:
                self._end_step()
            self._fetching, self._stepping = True, None
            began = perf_counter_ns()
            try:
                batch = fetch(iterator)
            except BaseException as error:
                self._end_iterator(iterator)
                if error.__traceback__ is not None:
                    error.__traceback__ = error.__traceback__.tb_next  # without this frame
                raise
            took = perf_counter_ns() - began
            self._fetching = False
            if self._has_gradients():
                before, count = self._unclaimed.get(id(iterator), NO_FETCHES)
                self._unclaimed[id(iterator)] = before + took, count + 1
            else:
                self._flags |= EVALUATES
            return batch

        return __next__

    def _end_iterator(self, iterator: object) -> None:
        """What came from it since the last backward was not trained on."""
        self._fetching = False
        if self._unclaimed.pop(id(iterator), None):
            self._flags |= EVALUATES

    def _backward_hook(self, backward: Callable[..., Any]) -> Callable[..., Any]:
        def _engine_run_backward(*args: Any, **options: Any) -> Any:
            if self._in_backward or self._is_beside():
                return backward(*args, **options)
            if self._ended is not None:
                self._end_step()
            self._in_backward = True
            for took, count in self._unclaimed.values():
                self._fetch_ns += took
                self._fetches += count
            self._unclaimed.clear()
            began = perf_counter_ns()
            try:
                return backward(*args, **options)
            except BaseException as error:
                if error.__traceback__ is not None:
                    error.__traceback__ = error.__traceback__.tb_next
                raise
            finally:
                self._in_backward = False
                self._backward_ns += perf_counter_ns() - began
                self._backwards += 1

        return _engine_run_backward

    def _is_beside(self) -> bool:
        """Whether this thread is not the one that trains: that of the first backward, until then the main one."""
        if not self._trained:
            self._trained, self._thread = True, get_ident()
        return get_ident() != self._thread

    def _begin_optimizer(self, optimizer: object, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        if self._compiles() or not (get_ident() == self._thread or self._in_backward):
            return
        if self._stepping is not None and self._stepping[0] != id(optimizer):
            return  # one that steps within another
        if not HIDES_FRAMES and self._first in (None, id(optimizer)):
            self._end_step()
            self._first = id(optimizer)
        if (args and callable(args[-1])) or options.get("closure") is not None:
            self._flags |= CLOSURE
        self._stepping = id(optimizer), perf_counter_ns()

    def _end_optimizer(self, optimizer: object, _args: object, _options: object) -> None:
        if self._compiles() or self._stepping is None or self._stepping[0] != id(optimizer):
            return
        now = perf_counter_ns()
        self._optimizer_ns += now - self._stepping[1]
        self._optimizers += 1
        self._stepping, self._ended = None, (now, self._wall())

    def _collect(self, phase: str, facts: dict[str, int]) -> None:
        """Time collections; those of the youngest objects are too short and too many."""
        if not facts["generation"]:
            return
        if phase == "start":
            self._collecting = perf_counter_ns()
        elif self._collecting:
            self._gc_ns += perf_counter_ns() - self._collecting
            self._collecting = 0

    def _end_step(self) -> None:
        """Write the record of a step, once its last optimizer step is known to be its last."""
        if self._ended is None:
            return
        (now, wall), self._ended = self._ended, None
        record = RECORD.pack(
            wall,
            -1 if self._border is None else now - self._border,
            self._fetch_ns,
            self._backward_ns,
            self._optimizer_ns,
            self._gc_ns,
            self._fetches,
            self._backwards,
            min(self._optimizers, 65535),
            self._flags,
            0,
        )
        self._border = now
        self._clear()
        self._waiting.append(record)
        if now - self._written >= TOGETHER_NS:
            self._written = now
            self._write()

    def _end(self) -> None:
        self._end_step()
        self._write()

    def _write(self) -> None:
        """Append in one write; after a short one this process writes no more, so that it is the last."""
        records, self._waiting = b"".join(self._waiting), []
        if not (records and self._thread):
            return
        try:
            if self._file < 0:
                self._open()
            elif not self._is_ours():
                raise OSError("the program has closed the file")
            if os.write(self._file, records) < len(records):
                raise OSError("no space left in memory")
        except Exception as error:
            self._thread, self._trained = NOT_ANY, True
            note(self._folder, error)

    def _open(self) -> None:
        path = os.path.join(self._folder, "%d-%d.steps" % (os.getpid(), start_ticks()))
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(path, flags, 0o600)
        with contextlib.suppress(OSError):  # the limit may be lower
            low, file = file, fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, HIGH)
            os.close(low)
        status = os.fstat(file)
        self._file, self._identity = file, (status.st_dev, status.st_ino)
        place = [-1 if number is None else number for number in map(self._place().get, ("rank", "world"))]
        if os.write(file, HEADER.pack(MAGIC, self._wall(), *place)) < HEADER.size:
            raise OSError("no space left in memory")

    def _wall(self) -> int:
        """The wall clock as the recorder has it, which stays as it was when the machine's is set."""
        return self._wall_at_boot + clock_gettime_ns(CLOCK_BOOTTIME)

    def _is_ours(self) -> bool:
        """Whether it still is our file: a program may close all, and open another under the number."""
        status = os.fstat(self._file)
        if status.st_blocks * 512 > MOST_WAITING:
            raise OSError("nothing takes the records out of memory")
        return (status.st_dev, status.st_ino) == self._identity


def in_place_of(function: Callable[..., Any], hook: Callable[..., Any]) -> Callable[..., Any]:
    """The hook, as if it stood in the function's file: stacks name torch there, and its compiler passes it over."""
    code = function.__code__
    hook.__code__ = hook.__code__.replace(co_filename=code.co_filename, co_firstlineno=code.co_firstlineno)
    return functools.wraps(function)(hook)


def wall_at_boot(folder: str) -> int:
    """What the recorder says that the wall clock was when the boot clock was 0."""
    try:
        with open(os.path.join(folder, "clock")) as file:
            return int(file.read())
    except (OSError, ValueError):
        return time_ns() - clock_gettime_ns(CLOCK_BOOTTIME)


def start_ticks() -> int:
    """When this process was started, by which it is known although numbers are used again."""
    with open("/proc/self/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def note(folder: str, error: Exception) -> None:
    """Keep the first failure."""
    with contextlib.suppress(OSError), open(os.path.join(folder, "%d.trouble" % os.getpid()), "x") as file:
        file.write("steps: %s: %s\n" % (type(error).__name__, error))


def start(folder: str, place: Callable[[], dict[str, int | None]]) -> None:
    """Record the steps of this process and of all that it forks, once torch is imported."""
    torch = sys.modules["torch"]
    try:
        StepRecorder(folder, place).hook(torch)
    except (LookupError, AttributeError) as error:
        version = getattr(torch, "__version__", "without a version")
        note(folder, RuntimeError("torch %s cannot be seen: %s" % (version, error)))
