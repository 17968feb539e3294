"""`log`, `mark`, `span`, `config` and `step`: what a training says of itself while `gputel record` records it.

Not recorded, each is one test of a variable. This file imports only the standard library, works on Python 3.8 and
later, and may be copied into a project as `gputel_log.py`. A row is one line of JSON, appended by a single write
to a file of this process in memory; a process of the recorder moves it to the run folder. A full disk, a killed
recorder or a program that closes all descriptors costs rows, never the training.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

VARIABLE = "GPUTEL_INSIDE_AT"  # <level>:<folder>
LONGEST = 1 << 16
MOST_WAITING = 64 << 20  # bytes that nothing has taken out of memory
HIGH = 700  # descriptors below are counted and closed by some programs
SECRETS = ("key", "token", "password", "passwd", "secret", "credential", "credentials")
RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def log(values: Mapping[str, Any] | None = None, step: int | None = None, **more: Any) -> None:
    """Keep numbers of a step: `log(step=7, loss=2.3)` or `log({"eval/loss": 2.1}, step=7)`.

    Without a step they belong to the last one that was named; if there was none, calls are counted from 0. A
    tensor on a GPU is waited for, as `.item()` does.
    """
    if _writer is not None:
        _writer.log({**(values or {}), **more}, step)


def step(number: int | None = None) -> None:
    """Say that a step is done; what follows without a step belongs to it. Without a number they are counted."""
    if _writer is not None:
        _writer.end_step(number)


def mark(text: str) -> None:
    """Mark this moment with a text, which pages and comparisons show."""
    if _writer is not None:
        _writer.write("mark", text=str(text)[:1000])


def config(settings: Mapping[str, Any] | None = None, **more: Any) -> None:
    """Keep the settings of the run; texts under a name that ends like `api_key` are masked."""
    if _writer is not None:
        given = {**(settings or {}), **more}
        _writer.write("config", settings={name: _masked(str(name), given[name]) for name in given})


def span(name: str) -> Any:
    """Time a part of the training: `with span("eval"): ...`"""
    return _NOTHING if _writer is None else TimedSpan(str(name)[:200])


class NoSpan(object):
    """What `span` returns in a training that is not recorded."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


class TimedSpan(object):
    """A part of the training: kept when it ends, also by an exception."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._began = 0 if _writer is None else _writer.moment()

    def __exit__(self, *_: object) -> None:
        if _writer is not None:
            _writer.write("span", name=self._name, began_ns=self._began)


class RowWriter(object):
    """The file of this process; one that was forked has a file of its own."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._pid = 0
        self._file: int | None = None
        self._identity = (0, 0)
        self._step: int | None = None
        self._calls = -1
        self._wall_at_boot = _wall_at_boot(folder)

    def moment(self) -> int:
        """Nanoseconds since 1970 by the recorder's clock, which stays as it was when the machine's is set."""
        return self._wall_at_boot + time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def log(self, values: Mapping[str, Any], step: int | None) -> None:
        try:
            numbers = {}
            for name, value in values.items():
                try:
                    number = float(value)
                    numbers[str(name)] = number if number - number == 0 else repr(number)
                except (TypeError, ValueError, RuntimeError) as error:
                    self._note("%s is no number and left out (%s)" % (name, error))
            self._calls += 1
            self._step = self._step if step is None else int(step)
            self.write("log", step=self._calls if self._step is None else self._step, values=numbers)
        except Exception as error:
            self._note("%s: %s" % (type(error).__name__, error))

    def end_step(self, number: int | None) -> None:
        try:
            self._step = int(number) if number is not None else 0 if self._step is None else self._step + 1
            self.write("step", step=self._step)
        except Exception as error:
            self._note("%s: %s" % (type(error).__name__, error))

    def write(self, kind: str, **facts: object) -> None:
        """Append a row in one write; after a short one this process writes no more, so that it is the last."""
        try:
            if self._pid != os.getpid():
                self._open()
            if self._file is None:
                return
            line = self._encode({"kind": kind, "ns": self.moment(), **facts}).encode() + b"\n"
            if len(line) > LONGEST:
                self._note("a row of %d bytes is longer than %d and left out" % (len(line), LONGEST))
                return
            status = os.fstat(self._file)
            if (status.st_dev, status.st_ino) != self._identity:  # the program closed it, and opened another
                raise OSError("the program has closed the file")
            if status.st_blocks * 512 > MOST_WAITING:
                raise OSError("nothing takes the rows out of memory")
            if os.write(self._file, line) < len(line):
                raise OSError("no space left in memory")
        except Exception as error:
            self._pid, self._file = os.getpid(), None
            self._note("nothing is kept any more: %s" % error)

    def _open(self) -> None:
        import fcntl
        import json

        self._encode = json.JSONEncoder(default=str).encode
        path = os.path.join(self._folder, "%d-%d.jsonl" % (os.getpid(), _start_ticks()))
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            low, file = file, fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, HIGH)
            os.close(low)
        except OSError:  # the limit may be lower
            pass
        status = os.fstat(file)
        self._file, self._identity = file, (status.st_dev, status.st_ino)
        self._pid = os.getpid()  # last: another thread opens the file, too, until it can be used
        self.write("open", pid=self._pid, rank=_rank())

    def _note(self, words: str) -> None:
        """Keep the first thing that went wrong, from which the run makes an event."""
        try:
            with open(os.path.join(self._folder, "%d.trouble" % os.getpid()), "x") as file:
                file.write("gputel.log: %s\n" % words)
        except Exception:
            pass


def _wall_at_boot(folder: str) -> int:
    """What the recorder says that the wall clock was when the boot clock was 0."""
    try:
        with open(os.path.join(folder, "clock")) as file:
            return int(file.read())
    except (OSError, ValueError):
        return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def _masked(name: str, value: object) -> object:
    return "***" if isinstance(value, str) and name.lower().endswith(SECRETS) else value


def _start_ticks() -> int:
    """When this process was started, by which it is known although numbers are used again; 0 without /proc."""
    try:
        with open("/proc/self/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def _rank() -> int | None:
    """This process among those that train together, by torch if it knows it, else by the environment."""
    import sys

    distributed: Any = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank())
    except Exception:  # it may be half imported
        pass
    texts = [os.environ.get(name, "") for name in RANKS]
    return next((int(text) for text in texts if text.isdigit()), None)


_NOTHING = NoSpan()
_folder = os.environ.get(VARIABLE, "").partition(":")[2]
_writer = RowWriter(_folder) if _folder else None
