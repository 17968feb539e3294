"""What each optimizer step of torch waited for: hooks note moments, and a record a step goes to a file in memory.

A step ends with the last optimizer step before the next backward or fetch of data: so accumulated gradients and
several optimizers are one step. Fetches while gradients are off, or of an iterator that ends without a backward,
are those of an evaluation, and belong to no step. A failure is written down; it ends the records, and nothing else.

A hook runs with cold caches, where each line of code costs: it only notes the moment. Once a second the moments
are added up, in one warm loop. A step that takes longer is recorded as it is so far, so that a process without
optimizer steps is known by its data and backwards.

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
from time import CLOCK_BOOTTIME, clock_gettime_ns, time_ns
from typing import TYPE_CHECKING, Any, Callable, Sequence

if TYPE_CHECKING:
    from types import ModuleType

MAGIC = b"gptlstp1"
HEADER = struct.Struct("<8sqii40x")  # magic, wall clock, rank and number of ranks or -1
RECORD = struct.Struct("<6qIIHHI")  # as `telemetry/inside/step_records.py` names it
EVALUATES, CLOSURE, WAITS, OPEN = 1, 2, 4, 8  # flags
HIGH = 700  # descriptors below are counted and closed by some programs
MOST_WAITING = 64 << 20  # bytes that nothing has taken out of memory
HIDES_FRAMES = sys.version_info >= (3, 11)
NOT_ANY = 0  # the number of no thread
NO_FETCHES = 0, 0
TOGETHER_NS = 1_000_000_000  # records of shorter steps are written together

# What the hooks note is four numbers: one of these, when it began and ended, and what. That is the iterator of the
# first three, and nanoseconds of garbage collection until then of the last two.
FETCHED, EVALUATED, EXHAUSTED, BACKWARD, ROUND, OPTIMIZER, WITH_CLOSURE = range(7)


class StepSums:
    """Makes records of notes; a step that has not ended stays in it."""

    def __init__(self, wall_at_boot: int) -> None:
        self._wall_at_boot = wall_at_boot
        self._border: int | None = None
        self._ended: int | None = None  # the last optimizer step
        self._began = 0  # the first note
        self._recorded = 0  # the last record, also of an open step
        self._collected = self._collected_before = 0
        self._unclaimed: dict[int, tuple[int, int]] = {}  # by iterator: its fetches since a backward
        self._clear()

    def _clear(self) -> None:
        self._fetch_ns = self._backward_ns = self._optimizer_ns = 0
        self._fetches = self._backwards = self._optimizers = 0
        self._flags = WAITS if HIDES_FRAMES else 0

    def records(self, notes: Sequence[int]) -> list[bytes]:
        """Return one of each step that has ended: it has when the next one begins."""
        found = []
        if notes and not self._began:
            self._began = self._recorded = notes[1]
        numbers = iter(notes)
        for kind, began, ended, what in zip(numbers, numbers, numbers, numbers):  # noqa: B905, for Python 3.8
            if kind <= ROUND and self._ended is not None and self._ended <= began:
                found += self.last()
            if kind == BACKWARD:
                self._take_backward(ended - began)
            elif kind < BACKWARD:
                self._take_fetch(kind, ended - began, what)
            elif kind != ROUND:
                self._optimizer_ns += ended - began
                self._optimizers += 1
                self._ended, self._collected = ended, what
                if kind == WITH_CLOSURE:
                    self._flags |= CLOSURE
        if found and self._border is not None:
            self._recorded = self._border
        return found

    def open(self, moment: int) -> list[bytes]:
        """Return a record of the step that has not ended, at most one a second.

        Not before a backward: by then the process knows its rank, which the file's header holds.
        """
        has_trained = self._border is not None or self._backwards
        if self._ended is not None or not has_trained or moment - self._recorded < TOGETHER_NS:
            return []
        self._recorded = moment
        waited = [self._fetch_ns, *(ns for ns, _ in self._unclaimed.values())]
        fetched = [self._fetches, *(count for _, count in self._unclaimed.values())]
        took = moment - (self._began if self._border is None else self._border)
        return [self._record(moment, took, sum(waited), sum(fetched), OPEN)]

    def _take_fetch(self, kind: int, took: int, iterator: int) -> None:
        if kind == FETCHED:
            before, count = self._unclaimed.get(iterator, NO_FETCHES)
            self._unclaimed[iterator] = before + took, count + 1
        elif kind == EVALUATED or self._unclaimed.pop(iterator, NO_FETCHES)[1]:  # what was not trained on
            self._flags |= EVALUATES

    def _take_backward(self, took: int) -> None:
        self._backward_ns += took
        self._backwards += 1
        for waited, count in self._unclaimed.values():
            self._fetch_ns += waited
            self._fetches += count
        self._unclaimed.clear()

    def last(self) -> list[bytes]:
        """Return the record of the step whose optimizers have ended, if they have."""
        if self._ended is None:
            return []
        took = -1 if self._border is None else self._ended - self._border
        record = self._record(self._ended, took, self._fetch_ns, self._fetches)
        self._border, self._ended, self._collected_before = self._ended, None, self._collected
        self._clear()
        return [record]

    def _record(self, moment: int, took: int, fetch_ns: int, fetches: int, flags: int = 0) -> bytes:
        return RECORD.pack(
            self._wall_at_boot + moment,
            took,
            fetch_ns,
            self._backward_ns,
            self._optimizer_ns,
            self._collected - self._collected_before,
            fetches,
            self._backwards,
            min(self._optimizers, 65535),
            self._flags | flags,
            0,
        )


class StepRecorder:
    """Notes what the hooks see; writes records when a step has ended, at most once a second."""

    def __init__(self, folder: str, place: Callable[[], dict[str, int | None]]) -> None:
        self._folder, self._place = folder, place
        self._file, self._identity = -1, (0, 0)
        self._wall_at_boot = wall_at_boot(folder)
        self._notes: list[int] = []
        self._forget(threading.main_thread().ident or NOT_ANY)

    def _forget(self, thread: int) -> None:
        self._thread = thread
        self._trained = self._fetching = False
        self._backward_began = 0  # or 0 outside
        self._stepping = self._step_began = 0  # which optimizer, since when
        self._first: int | None = None
        self._collecting = self._collected = self._due = 0
        self._notes.clear()
        self._sums = StepSums(self._wall_at_boot)

    def hook(self, torch: ModuleType) -> None:
        """Bring the hooks in. Raises LookupError or AttributeError, before any, where this torch lacks a name."""
        optimizer, loading = sys.modules["torch.optim.optimizer"], sys.modules["torch.utils.data.dataloader"]
        before = optimizer.register_optimizer_step_pre_hook
        after = optimizer.register_optimizer_step_post_hook
        iterator, backward = loading._BaseDataLoaderIter, torch.autograd._engine_run_backward
        compiles, has_gradients = torch.compiler.is_dynamo_compiling, torch.is_grad_enabled
        if HIDES_FRAMES:
            fetch = self._fetch_hook(iterator.__next__, has_gradients)
            iterator.__next__ = in_place_of(iterator.__next__, fetch)
            torch.autograd._engine_run_backward = in_place_of(backward, self._backward_hook(backward))
        before(self._begin_hook(compiles))
        after(self._end_hook(compiles))
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

    def _fetch_hook(
        self, fetch: Callable[[Any], Any], has_gradients: Callable[[], bool]
    ) -> Callable[[Any], Any]:
        def __next__(iterator: Any) -> Any:  # noqa: N807
            if self._fetching or get_ident() != self._thread:
                return fetch(iterator)
            self._fetching, self._stepping = True, 0
            began = now()
            try:
                batch = fetch(iterator)
            except BaseException as error:
                self._fetching = False
                self._note(EXHAUSTED, began, id(iterator))
                if error.__traceback__ is not None:
                    error.__traceback__ = error.__traceback__.tb_next  # without this frame
                raise
            self._fetching = False
            ended = now()
            self._notes += FETCHED if has_gradients() else EVALUATED, began, ended, id(iterator)
            if ended > self._due:
                self._add_up(ended)
            return batch

        return __next__

    def _backward_hook(self, backward: Callable[..., Any]) -> Callable[..., Any]:
        def _engine_run_backward(*args: Any, **options: Any) -> Any:
            if self._backward_began or (get_ident() != self._thread and self._trained):
                return backward(*args, **options)
            if not self._trained:  # it was the main thread so far
                self._trained, self._thread = True, get_ident()
            began = self._backward_began = now()
            try:
                return backward(*args, **options)
            except BaseException as error:
                if error.__traceback__ is not None:
                    error.__traceback__ = error.__traceback__.tb_next
                raise
            finally:
                self._backward_began = 0
                ended = now()
                self._notes += BACKWARD, began, ended, 0
                if ended > self._due:
                    self._add_up(ended)

        return _engine_run_backward

    def _begin_hook(self, compiles: Callable[[], bool]) -> Callable[..., None]:
        def begin(optimizer: object, _args: object, _options: object) -> None:
            if compiles() or not (self._backward_began or get_ident() == self._thread):
                return
            if self._stepping and self._stepping != id(optimizer):
                return  # one that steps within another
            began = now()
            if self._backward_began:
                self._note(ROUND, self._backward_began, 0)
            elif not HIDES_FRAMES and self._first in (None, id(optimizer)):
                self._first = id(optimizer)
                self._note(ROUND, began, 0)
            self._step_began = began
            self._stepping = id(optimizer)

        return begin

    def _end_hook(self, compiles: Callable[[], bool]) -> Callable[..., None]:
        def end(optimizer: object, args: tuple[Any, ...], options: dict[str, Any]) -> None:
            if compiles() or self._stepping != id(optimizer):
                return
            kind = OPTIMIZER
            if len(args) > 1 or options:
                kind = kind_by(args, options)
            self._notes += kind, self._step_began, now(), self._collected
            self._stepping = 0

        return end

    def _note(self, kind: int, began: int, what: int) -> None:
        """Note what is rare."""
        ended = now()
        self._notes += kind, began, ended, what
        if ended > self._due and not self._backward_began:
            self._add_up(ended)

    def _collect(self, phase: str, facts: dict[str, int]) -> None:
        """Time collections; those of the youngest objects are too short and too many."""
        if not facts["generation"]:
            return
        if phase == "start":
            self._collecting = now()
        elif self._collecting:
            self._collected += now() - self._collecting
            self._collecting = 0

    def _add_up(self, moment: int) -> None:
        """Write the records of all steps that have ended; of the first one at once."""
        notes = self._notes[:]
        del self._notes[: len(notes)]
        try:
            records = self._sums.records(notes) or self._sums.open(moment)
            if records or self._due:
                self._due = moment + TOGETHER_NS
            self._write(records)
        except Exception as error:
            self._stop(error)

    def _end(self) -> None:
        if self._thread != NOT_ANY:
            self._add_up(now())
            self._write(self._sums.last())

    def _write(self, records: list[bytes]) -> None:
        """Append in one write; after a short one this process writes no more, so that it is the last."""
        content = b"".join(records)
        if not (content and self._thread):
            return
        try:
            if self._file < 0:
                self._open()
            elif not self._is_ours():
                raise OSError("the program has closed the file")
            if os.write(self._file, content) < len(content):
                raise OSError("no space left in memory")
        except Exception as error:
            self._stop(error)

    def _stop(self, error: Exception) -> None:
        self._thread, self._trained = NOT_ANY, True
        note(self._folder, error, self._place().get("rank"))

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
        if os.write(file, HEADER.pack(MAGIC, self._wall_at_boot + now(), *place)) < HEADER.size:
            raise OSError("no space left in memory")

    def _is_ours(self) -> bool:
        """Whether it still is our file: a program may close all, and open another under the number."""
        status = os.fstat(self._file)
        if status.st_blocks * 512 > MOST_WAITING:
            raise OSError("nothing takes the records out of memory")
        return (status.st_dev, status.st_ino) == self._identity


now = functools.partial(clock_gettime_ns, CLOCK_BOOTTIME)
"""A steady clock, by which the recorder tells the wall clock, too: it stays as it was when the machine's is set."""


def kind_by(args: tuple[Any, ...], options: dict[str, Any]) -> int:
    """What an optimizer step is that was called with more than the optimizer."""
    return WITH_CLOSURE if callable(args[-1]) or options.get("closure") is not None else OPTIMIZER


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


def note(folder: str, error: Exception, rank: int | None) -> None:
    """Keep the first failure."""
    whose = "" if rank is None else " of rank %d" % rank
    with contextlib.suppress(OSError), open(os.path.join(folder, "%d.trouble" % os.getpid()), "x") as file:
        file.write("steps%s: %s: %s\n" % (whose, type(error).__name__, error))


def start(folder: str, place: Callable[[], dict[str, int | None]]) -> None:
    """Record the steps of this process and of all that it forks, once torch is imported."""
    torch = sys.modules["torch"]
    try:
        StepRecorder(folder, place).hook(torch)
    except (LookupError, AttributeError) as error:
        version = getattr(torch, "__version__", "without a version")
        note(folder, RuntimeError("torch %s cannot be seen: %s" % (version, error)), place().get("rank"))
