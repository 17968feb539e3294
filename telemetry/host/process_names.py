"""process/names.jsonl: who the processes of the rows are, and what their wait channels are called.

Environment and command line need a lock of the process, which may be held for long: a thread reads them that may
be lost. Secrets are masked. A line each: `process` (pid and start) when it begins or becomes another program, the
same with `ended` when it has ended, `wait_channel` with its number, and `gpu` with its number. A process that is
not the command's has a `role`, and no command line.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from pathlib import Path

from gputel.telemetry.clock import Clock, iso
from gputel.telemetry.secrets import mask, mask_argv

NAMES = "names.jsonl"
RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
WORLDS = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
LONGEST_COMMAND = 2000
TRIES, AGAIN_S = 5, 0.05


def process_name(pid: int, start: int) -> str:
    """`<pid>.<start>`, which no other process of this boot has."""
    return f"{pid}.{start}"


class ProcessNames:
    """Takes news of processes without waiting; a thread completes and writes them."""

    def __init__(self, folder: Path, root: Path, clock: Clock) -> None:
        self._path, self._proc, self._clock = folder / NAMES, root / "proc", clock
        self._channels = {
            name.encode(): number for name, number in _numbers(self._path, "wait_channel").items()
        }
        self._gpus = _numbers(self._path, "gpu")
        self._strangers: set[str] = set()
        self._lead = "" if _ends_whole(self._path) else "\n"
        self._tasks: queue.SimpleQueue[dict[str, object] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="process-names", daemon=True)
        self._thread.start()

    def begin(self, pid: int, start: int, parent: int, name: bytes) -> None:
        self._put(process=process_name(pid, start), pid=pid, parent=parent, name=_text(name))

    def end(self, pid: int, start: int) -> None:
        self._put(process=process_name(pid, start), ended=True)

    def wait_channel(self, content: bytes | None) -> int | None:
        """The number of a kernel function in which a process waits; 0 where it runs or that is hidden."""
        if content is None:
            return None
        if content in (b"0", b""):
            return 0
        number = self._channels.get(content)
        if number is None:
            number = self._channels[content] = max(self._channels.values(), default=0) + 1
            self._put(wait_channel=number, name=_text(content))
        return number

    def gpu(self, index: str) -> int:
        """The number of a GPU, from 0 on."""
        if index not in self._gpus:
            self._gpus[index] = len(self._gpus)
            self._put(gpu=self._gpus[index], name=index)
        return self._gpus[index]

    def stranger(self, pid: int, start: int, name: str | None, role: str) -> None:
        """Note once who uses a GPU beside the command."""
        process = process_name(pid, start)
        if process not in self._strangers:
            self._strangers.add(process)
            self._put(process=process, name=name, role=role)

    def close(self, patience_s: float = 2.0) -> None:
        self._tasks.put(None)
        self._thread.join(patience_s)

    def _put(self, **facts: object) -> None:
        self._tasks.put({"time": iso(self._clock.stamp().wall), **facts})

    def _write(self) -> None:
        while (facts := self._tasks.get()) is not None:
            pid = facts.pop("pid", None)
            if isinstance(pid, int):
                facts |= self._more(pid)
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("a") as file:
                    file.write(f"{self._lead}{json.dumps(facts)}\n")
                    self._lead = ""
            except OSError:
                continue

    def _more(self, pid: int) -> dict[str, object]:
        """Its command line, and rank by the environment with which it was started; null where that is refused."""
        folder = self._proc / str(pid)
        command = _strings(folder / "cmdline")
        for _ in range(TRIES):
            if command != []:
                break
            time.sleep(AGAIN_S)  # it is just becoming another program
            command = _strings(folder / "cmdline")
        environment = _strings(folder / "environ")
        words = " ".join(mask_argv(command)) if command else None
        variables = dict(entry.partition("=")[::2] for entry in environment or [])
        return {
            "command": None if words is None else mask(words)[:LONGEST_COMMAND],
            "rank": _rank(variables, RANKS),
            "local_rank": _rank(variables, LOCAL_RANKS),
        }


def _numbers(path: Path, key: str) -> dict[str, int]:
    """The numbers by name that an earlier recorder of the same rows has given; its last line may be torn."""
    numbers: dict[str, int] = {}
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return numbers
    for line in lines:
        try:
            facts = json.loads(line)
            numbers[str(facts["name"])] = int(facts[key])
        except (ValueError, LookupError, TypeError):
            continue
    return numbers


def _ends_whole(path: Path) -> bool:
    """Whether the last line is whole: a recorder that was killed may have left a torn one."""
    try:
        return path.read_bytes()[-1:] in (b"", b"\n")
    except OSError:
        return True


def _rank(variables: dict[str, str], names: tuple[str, ...]) -> int | None:
    return next((int(variables[name]) for name in names if variables.get(name, "").isdigit()), None)


def _strings(path: Path) -> list[str] | None:
    try:
        return [_text(part) for part in path.read_bytes().split(b"\0") if part]
    except OSError:
        return None


def _text(content: bytes) -> str:
    return content.decode(errors="replace")
