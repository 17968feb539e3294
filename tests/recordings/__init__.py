"""A real `gputel record`, its processes found by what they hold, and waits that end when a state is reached."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

PATIENCE_S = 300.0
"""Ends a hang, and measures nothing: a busy machine may take a minute over what takes a second."""
LONGEST_LOOK_S = 0.5
GPUTEL = (sys.executable, "-m", "gputel")
RECORD = (sys.executable, str(Path(__file__).with_name("record_alone.py")))
Reached = TypeVar("Reached")


def until(
    state: Callable[[], Reached],
    what: str | Callable[[], str],
    patience_s: float = PATIENCE_S,
    pause_s: float = 0.005,
) -> Reached:
    """Look again after each pause; gives what `state` gave when it was true.

    `what` may be a function, which is asked once it was waited for in vain. Time in which the machine stood still
    does not count, as it does not for the recorder.
    """
    waited, looked = 0.0, time.monotonic()
    while not (reached := state()):
        now = time.monotonic()
        waited, looked = waited + min(now - looked, LONGEST_LOOK_S), now
        assert waited < patience_s, f"waited {patience_s} s in vain: {what() if callable(what) else what}"
        time.sleep(pause_s)
    return reached


def children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def family(pid: int) -> Iterator[int]:
    """A process and all its descendants, the last ones first."""
    for child in children(pid):
        yield from family(child)
    yield pid


def waits_in(pid: int) -> str:
    """What each thread of a process does, for the message of a test that waited in vain."""
    lines = []
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        lines.append(f"{pid} {_state(pid)} {b' '.join(words)[:200]!r}")
        for thread in Path(f"/proc/{pid}/task").iterdir():
            name, place, call = ((thread / file).read_text().strip() for file in ("comm", "wchan", "syscall"))
            lines.append(f"    {name}: {place}, system call {call}")
    return "\n".join(lines)


def is_alive(pid: int) -> bool:
    return _state(pid) not in ("", "Z")


def is_stopped(pid: int) -> bool:
    return _state(pid) == "T"


def _state(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


class Recorder:
    """One `gputel record --out FOLDER ... -- COMMAND`, in a session of its own and without a terminal.

    `program` is what records: without a closing report if it is not `(*GPUTEL, "record")`.
    """

    def __init__(
        self,
        folder: Path,
        *command: str,
        options: tuple[str, ...] = ("--simulate", "1xH100"),
        stdout: int | None = None,
        stderr: int | None = None,
        env: Mapping[str, str] | None = None,
        prefix: tuple[str, ...] = (),
        program: tuple[str, ...] = RECORD,
        **how: Any,
    ) -> None:
        self.folder = folder
        self.shown, self.said = folder.with_suffix(".shown"), folder.with_suffix(".said")
        argv = [*prefix, *program, "--out", str(folder), *options]
        how.setdefault("start_new_session", True)
        with self.shown.open("wb") as out, self.said.open("wb") as err:
            self.process = subprocess.Popen(
                [*argv, *(["--", *command] if command else [])],
                stdin=subprocess.DEVNULL,
                stdout=out if stdout is None else stdout,
                stderr=err if stderr is None else stderr,
                env={**os.environ, "GPUTEL_RUN": "", **(env or {})},
                **how,
            )

    @property
    def viewer(self) -> int:
        return self.process.pid

    def keeper(self) -> int:
        return self._found(self._holds_log, "a keeper")

    def sampler(self) -> int:
        return self._found(lambda pid: not self._holds_log(pid) and _leads_session(pid), "a sampler")

    def command(self) -> int:
        return until(lambda: next(iter(children(self.keeper())), 0), "a command")

    def printed(self, text: bytes) -> None:
        """Wait until the log has it."""
        until(lambda: text in self.output(), f"{text!r} in the log")

    def output(self) -> bytes:
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "output.log").read_bytes()
        return b""

    def facts(self) -> dict[str, Any]:
        with contextlib.suppress(FileNotFoundError):
            facts: dict[str, Any] = json.loads((self.folder / "run.json").read_text())
            return facts
        return {}

    def events(self) -> list[dict[str, Any]]:
        with contextlib.suppress(FileNotFoundError):
            return [json.loads(line) for line in (self.folder / "events.jsonl").read_text().splitlines()]
        return []

    def kill(self, number: int = signal.SIGTERM) -> None:
        os.kill(self.viewer, number)

    def kill_keeper(self) -> None:
        """`kill -9`, and wait until it is gone: the next keeper that is found is another.

        A busy machine may see the end of the recording first.
        """
        found = until(lambda: self._child(self._holds_log) or self._has_ended(), "a keeper")
        if found is not True:
            with contextlib.suppress(ProcessLookupError):
                os.kill(found, signal.SIGKILL)
            until(lambda: not is_alive(found), "the end of the keeper")

    def _has_ended(self) -> bool:
        return self.process.poll() is not None

    def wait(self) -> int:
        """Its exit code, or -signal."""
        return self.process.wait(PATIENCE_S)

    def stop(self) -> None:
        """Leave nothing behind, however the test ended."""
        for pid in {*family(self.viewer)} - {os.getpid()}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)

    def _found(self, is_it: Callable[[int], bool], what: str) -> int:
        def look() -> int:
            over = self._has_ended()  # before the look: it may end right after
            child = self._child(is_it)
            assert child or not over, f"the recorder had ended before {what} was found"
            return child

        return until(look, what)

    def _child(self, is_it: Callable[[int], bool]) -> int:
        return next((pid for pid in children(self.viewer) if is_it(pid)), 0)

    def _holds_log(self, pid: int) -> bool:
        descriptors = Path(f"/proc/{pid}/fd")
        with contextlib.suppress(OSError):
            names = [str(link.readlink()) for link in descriptors.iterdir()]
            return str(self.folder / "output.log") in names and os.devnull in names
        return False


def _leads_session(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(pid) == pid
    return False


def holders(file: Path) -> list[int]:
    """Processes, of any user, that have this file open."""
    pids, resolved = set(), file.resolve()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if link.readlink() == resolved:
                pids.add(int(link.parts[2]))
    return sorted(pids)
