"""One look at all processes of a training: each is asked for its stacks, and those that are silent are looked at.

A process that does not answer holds the GIL in C, is stopped, or waits for a disk. If it stands still, faulthandler
writes its stacks; a process that runs never gets a signal, since walking frames that change has ended trainings.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gputel.telemetry.characters import parse_json
from gputel.telemetry.host.process_names import RANKS, WORLDS
from gputel.telemetry.inside import environment, proc, unseen
from gputel.telemetry.inside.stacks import (
    NO_FLIGHT,
    FlightRecord,
    ProcessFacts,
    ProcessLook,
    ThreadStack,
    parse_fault,
    parse_flight,
    parse_threads,
)

PATIENCE_S, PATIENCE_AGAIN_S = 3.0, 0.5
STILL_S = 1.0
FLIGHT_S = 5.0
LOOK_S = 0.01
LARGEST = 64 << 20
STOPPED = "Tt"
OLD_S = 60.0


@dataclass(frozen=True)
class AskedProcess:
    """A process that is asked, and the file in which it will answer."""

    pid: int
    at_s: float
    facts: ProcessFacts
    """Facts from before the question, since answering costs CPU time, too."""
    answer: Path


def look(
    folder: Path, *, flight: bool = False, patience_s: float = PATIENCE_S, silent: Collection[int] = ()
) -> list[ProcessLook]:
    """All processes that listen in the folder, by rank and process id; `flight` asks for collectives, too.

    Those in `silent` did not answer before, and are waited for less long.
    """
    name = os.urandom(4).hex()
    for pid in proc.foreign_pythons(f"{environment.VARIABLE}=".encode(), str(folder).encode()):
        unseen.note(folder, str(pid), "another user's, and cannot be entered")
    questions = list(_ask(folder, name, b"f" if flight else b"s"))
    asked = [question for question in questions if question.facts.state not in STOPPED]
    _wait(asked, min(patience_s, PATIENCE_AGAIN_S))
    _wait([question for question in asked if question.pid not in silent], patience_s - PATIENCE_AGAIN_S)
    faults = _faults(folder, [question.pid for question in asked if not question.answer.exists()])
    looks = [_look(question, faults.get(question.pid, ())) for question in questions]
    _remove_late(folder)
    return sorted(looks, key=lambda each: (each.rank is None, each.rank or 0, each.pid))


def rounds(folder: Path, count: int, every_s: float) -> list[list[ProcessLook]]:
    """Several looks, so that what moves can be told from what stands; the last asks for collectives, too."""
    looks: list[list[ProcessLook]] = []
    for number in range(count):
        began = time.monotonic()
        silent = [each.pid for each in looks[-1] if each.answered_by != "listener"] if looks else []
        looks.append(look(folder, flight=number == count - 1, silent=silent))
        if number < count - 1:
            time.sleep(max(0.0, every_s - (time.monotonic() - began)))
    return looks


def _ask(folder: Path, name: str, kind: bytes) -> Iterator[AskedProcess]:
    """Asks every process that is not stopped; removes the files of those that have ended."""
    pipes = environment.files(folder, environment.ASKED)
    numbers = (pipe.name.removesuffix(environment.ASKED) for pipe in pipes)
    children = proc.children([int(pid) for pid in numbers if pid.isdigit()])
    for pipe in pipes:
        pid, at_s = pipe.name.removesuffix(environment.ASKED), time.monotonic()
        facts = proc.facts(int(pid)) if pid.isdigit() else None
        if pipe.exists() and not os.access(pipe, os.W_OK):
            unseen.note(folder, pid, "another user's, and cannot be asked")
        elif facts is None and environment.listens(pipe):
            unseen.note(folder, pid, "hidden by /proc")
        elif facts is None:
            for file in environment.files(folder):
                if file.name.startswith(f"{pid}.") and file.suffix != unseen.ENDING:
                    file.unlink(missing_ok=True)
        elif environment.listens(pipe) if facts.state in STOPPED else _write(pipe, kind + name.encode()):
            facts = replace(facts, children=children.get(int(pid)))
            yield AskedProcess(int(pid), at_s, facts, folder / f"{pid}.{name}.json")


def _wait(questions: Sequence[AskedProcess], seconds: float) -> None:
    """Waits until all have answered, but no longer."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not all(question.answer.exists() for question in questions):
        time.sleep(LOOK_S)


def _write(pipe: Path, question: bytes) -> bool:
    """Whether a process reads the pipe. A full one is of a process that has not read for long."""
    try:
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(descriptor, question)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _look(question: AskedProcess, fault: tuple[ThreadStack, ...]) -> ProcessLook:
    answer = _answer(question.answer)
    threads = tuple(
        each if each.main or each.tid is None else _with_wakeups(question.pid, each, each.tid)
        for each in parse_threads(answer.get("threads"))
    )
    return ProcessLook(
        question.pid,
        question.at_s,
        question.facts,
        _whole(answer.get("rank"), proc.number(question.pid, RANKS)),
        _whole(answer.get("world"), proc.number(question.pid, WORLDS)),
        "listener" if threads else "faulthandler" if fault else None,
        threads or fault,
        _flight(question.answer.with_suffix(".flight")) if answer.get("flight") is True else NO_FLIGHT,
    )


def _with_wakeups(pid: int, thread: ThreadStack, tid: int) -> ThreadStack:
    return thread._replace(wakeups=proc.thread_wakeups(pid, tid))


def _whole(value: object, otherwise: int | None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def _answer(path: Path) -> dict[str, object]:
    with contextlib.suppress(OSError, ValueError):
        answer = parse_json(_take(path))
        return answer if isinstance(answer, dict) else {}
    return {}


def _flight(path: Path) -> FlightRecord:
    """What the flight recorder wrote, which comes after the stacks."""
    until = time.monotonic() + FLIGHT_S
    while not path.exists() and time.monotonic() < until:
        time.sleep(LOOK_S)
    with contextlib.suppress(OSError):
        return parse_flight(_take(path))
    return NO_FLIGHT


def _take(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(LARGEST)
    path.unlink(missing_ok=True)
    return content


def _faults(folder: Path, silent: list[int]) -> dict[int, tuple[ThreadStack, ...]]:
    """What faulthandler writes of silent processes that stand still, and have its handler and file."""
    began = time.monotonic()
    before = {pid: proc.activity(pid) for pid in silent}
    if silent:
        time.sleep(STILL_S)
    still = [
        pid for pid in silent if proc.stands_still(before[pid], proc.activity(pid), time.monotonic() - began)
    ]
    texts = {}
    for pid in still:
        path = folder / f"{pid}.fault"
        if proc.catches(pid, signal.SIGURG) and proc.has_open(pid, path):
            texts[pid] = parse_fault(_provoke(pid, path))
    return texts


def _provoke(pid: int, path: Path) -> str:
    """Sends the signal, and waits until the text has ended to grow."""
    begin = size = path.stat().st_size
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGURG)
    for _ in range(round(STILL_S / LOOK_S / 5)):
        time.sleep(5 * LOOK_S)
        last, size = size, path.stat().st_size
        if size == last > begin:
            break
    with path.open("rb") as file:
        file.seek(begin)
        return file.read(LARGEST).decode(errors="replace")


def _remove_late(folder: Path) -> None:
    """Removes answers that came too late for their asker."""
    for path in environment.files(folder, ".json", ".flight"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > OLD_S:
                path.unlink()
