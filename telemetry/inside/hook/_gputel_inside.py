"""A thread in the training that sleeps until it is asked, and answers with the stacks of all threads.

It sleeps in `read()` on a pipe in the run's folder in memory. A question is nine letters: `s` (stacks) or `f`
(stacks and the collectives of torch's flight recorder), and eight that name the answer: a file that appears whole.
A signal would be simpler, but walking the frames of a thread that runs has ended healthy trainings.

Threads and `fork` do not mix: the thread ends before a fork, and starts anew at the next bytecode of parent and
child, since some Pythons count threads after their callbacks. A failure is written down, and never raised.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import faulthandler
import fcntl
import functools
import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from types import FrameType

LENGTH = 9
FLIGHT, QUIT = b"f", b"q"
HIGH = 700  # descriptors below are counted and closed by some programs
MOST_FRAMES = 500
PATIENCE_S = 0.2  # for the thread's end before a fork
ENVIRONMENT = {
    "rank": ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"),
    "world": ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"),
}


class Listener:
    """The thread of one process, and its files `<pid>.ask`, `<pid>.fault` and, after a failure, `<pid>.trouble`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._registered = False
        self._fork: tuple[FrameType | None, int] = (None, 0)
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._files: dict[int, tuple[int, int]] = {}
        self._pipe = -1
        self._listening = self._ending = False
        self._thread = self._main = 0

    def start(self) -> None:
        """Start the thread, with all signals blocked: it must take none from the training's threads."""
        self._ending = False  # a question to end that came too late is passed over
        if self._listening or not os.path.isdir(self._folder):
            return
        try:
            if _thread.get_native_id() == self._pid:
                self._main = _thread.get_ident()
            if self._pipe < 0:
                self._register_fault()
                self._open_pipe()
            before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                self._listening = True
                ready = _thread.allocate_lock()
                ready.acquire()
                _thread.start_new_thread(self._listen, (ready,))
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            ready.acquire(True, PATIENCE_S)  # what it opens takes a low number for a moment
        except Exception as error:
            self._listening = False
            self._note(error)

    def before_fork(self) -> None:
        """End the thread, and wait until the kernel counts it no more."""
        caller = sys._getframe(1)
        self._fork = caller, caller.f_lasti
        try:
            if not self._listening or self._pid != os.getpid():
                return
            self._ending = True
            self._ask(QUIT)
            until = time.monotonic() + PATIENCE_S
            task = "/proc/self/task/%d" % self._thread
            while time.monotonic() < until and (self._is_listening() or os.path.exists(task)):
                time.sleep(0.0002)
        except Exception as error:
            self._note(error)

    def is_forking(self, frame: FrameType | None) -> bool:
        """Whether a callback of an unfinished fork is in `frame`: Python 3.13 counts threads after them."""
        caller, place = self._fork
        above = None if frame is caller else frame
        while above is not None and above is not caller:
            above = above.f_back
        if above is not None and above.f_lasti == place:
            return True
        self._fork = None, 0
        return False

    def after_fork_in_child(self) -> None:
        """Leave the parent's files to it; the child has its own."""
        with contextlib.suppress(OSError):
            for descriptor in list(self._files):
                if self._is_ours(descriptor):
                    os.close(descriptor)
        self._forget()

    def _is_listening(self) -> bool:
        return self._listening

    def _ask(self, kind: bytes) -> None:
        pipe = os.open(self._path("ask"), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(pipe, kind + b"-" * (LENGTH - 1))
        finally:
            os.close(pipe)

    def _listen(self, ready: _thread.LockType) -> None:
        try:
            self._thread = _thread.get_native_id()
            while True:
                if not self._is_ours(self._pipe):  # the program has closed it
                    self._open_pipe()
                if ready.locked():
                    ready.release()
                question = os.read(self._pipe, LENGTH)
                if question[:1] != QUIT:
                    self._answer(question)
                elif self._ending:
                    return
        except Exception as error:
            self._note(error)
        finally:
            self._listening = False

    def _answer(self, question: bytes) -> None:
        name = question[1:].decode("ascii", "replace")
        if len(question) != LENGTH or not name.isalnum():
            return
        dump = flight_recorder() if question[:1] == FLIGHT else None
        facts = {
            "parent": os.getppid(),
            "flight": dump is not None,
            "threads": threads(self._main),
            **place(),
        }
        self._write(name + ".json", json.dumps(facts).encode())
        if dump is not None:
            trace = dump()
            self._write(name + ".flight", trace if isinstance(trace, bytes) else str(trace).encode())

    def _write(self, name: str, content: bytes) -> None:
        path = self._path(name)
        with open(path + ".part", "wb") as file:
            file.write(content)
        os.rename(path + ".part", path)

    def _open_pipe(self) -> None:
        path = self._path("ask")
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        self._pipe = self._keep(os.open(path, os.O_RDWR | os.O_CLOEXEC))

    def _register_fault(self) -> None:
        """Have faulthandler answer where the GIL is held in C, unless the program handles the signal itself."""
        with contextlib.suppress(OSError, StopIteration, ValueError):
            with open("/proc/self/status") as status:
                caught = next(int(line.split()[1], 16) for line in status if line.startswith("SigCgt:"))
            if self._registered or not caught >> (signal.SIGURG - 1) & 1:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                file = self._keep(os.open(self._path("fault"), flags, 0o600))
                faulthandler.register(signal.SIGURG, file=file, all_threads=True, chain=False)
                self._registered = True

    def _keep(self, descriptor: int) -> int:
        """Move a descriptor out of the way, and remember its file."""
        with contextlib.suppress(OSError):  # the limit may be lower
            moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, HIGH)
            os.close(descriptor)
            descriptor = moved
        status = os.fstat(descriptor)
        self._files[descriptor] = status.st_dev, status.st_ino
        return descriptor

    def _is_ours(self, descriptor: int) -> bool:
        """Whether it still is our file: a program may close all, and open another under the number."""
        try:
            status = os.fstat(descriptor)
        except OSError:
            return False
        return self._files.get(descriptor) == (status.st_dev, status.st_ino)

    def _note(self, error: Exception) -> None:
        """Keep the first failure."""
        with contextlib.suppress(OSError), open(self._path("trouble"), "x") as file:
            file.write("%s: %s\n" % (type(error).__name__, error))

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, "%d.%s" % (self._pid, name))


def threads(main: int) -> list[dict[str, object]]:
    """Every thread but this one: its name, whether it is the main one, and its frames, innermost last."""
    module = sys.modules.get("threading")
    known = dict(getattr(module, "_active", {}))
    main = main or getattr(getattr(module, "_main_thread", None), "ident", 0)
    own = _thread.get_ident()
    rows = []
    for ident, frame in sys._current_frames().items():
        if ident == own:
            continue
        thread = known.get(ident)
        rows.append(
            {
                "name": str(getattr(thread, "_name", "")),
                "main": ident == main,
                "tid": getattr(thread, "_native_id", None),
                "frames": stack(frame),
            }
        )
    return rows


def stack(frame: FrameType | None) -> list[tuple[str, int, str]]:
    """The file, line and function of each frame, innermost last; of a deep recursion the innermost ones."""
    frames: list[tuple[str, int, str]] = []
    while frame is not None and len(frames) < MOST_FRAMES:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        frames.append((code.co_filename, frame.f_lineno or 0, name))
        frame = frame.f_back
    return frames[::-1]


def place() -> dict[str, int | None]:
    """The rank and the size of the world, by torch if it knows them, else by the environment."""
    found = {name: _number(variables) for name, variables in ENVIRONMENT.items()}
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            found.update(rank=distributed.get_rank(), world=distributed.get_world_size())
    except Exception:  # it may be half imported
        pass
    return found


def _number(variables: tuple[str, ...]) -> int | None:
    values = [os.environ.get(variable, "") for variable in variables]
    return next((int(value) for value in values if value.isdigit()), None)


def flight_recorder() -> Callable[[], Any] | None:
    """The function of torch that tells the last collectives; None without torch, or before it has them."""
    return getattr(sys.modules.get("torch._C._distributed_c10d"), "_dump_fr_trace_json", None)


def start(folder: str) -> None:
    """Start to listen in this process and in all that it forks."""
    listener = Listener(folder)
    listener.start()

    def begin(_: object) -> int:
        if listener.is_forking(sys._getframe(1)):
            resume()
        else:
            listener.start()
        return 0

    def resume_in_child() -> None:
        listener.after_fork_in_child()
        resume()

    at_next_bytecode = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(begin)
    resume = functools.partial(ctypes.pythonapi.Py_AddPendingCall, at_next_bytecode, None)
    os.register_at_fork(before=listener.before_fork, after_in_parent=resume, after_in_child=resume_in_child)
