"""Where a process stands, by the frames of the thread that trains: its own line, or what it waits for.

A program's own frames are those outside torch, the standard library and installed packages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gputel.telemetry.inside.stacks import Frame, ThreadStack

Frames = Sequence[Frame]

LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python\d[\d.]*/|^<frozen ")
COLLECTIVES = re.compile(r"/torch/distributed/|/torch/nn/parallel/distributed\.py$")
LAUNCHERS = re.compile(
    r"/torch/distributed/(?:elastic/|run\.py|launch\.py)|/torch/multiprocessing/spawn\.py$"
)
WRAPPERS = ("wrapper", "_fn", "_call_impl", "_wrapped_call_impl", "decorate_context", "inner")
CUDA = "/torch/cuda/"
BACKWARD = "_engine_run_backward"
LOADER = "/torch/utils/data/dataloader.py"
LOADER_LOOP = "_worker_loop"
WORKER_STARTS = (LOADER_LOOP, "_bootstrap")
"""Where the work of a worker begins, of a DataLoader or of any pool of processes."""
POOLS = re.compile(r"/torch/utils/data/dataloader\.py$|/multiprocessing/|/concurrent/futures/")
PROCESSES = re.compile(r"/multiprocessing/|/subprocess\.py$")
THREADS = re.compile(r"/(?:threading|queue)\.py$|/concurrent/futures/")
JOINS = ("join", "_wait_for_tstate_lock", "_shutdown")
DEBUGGER = re.compile(r"/(?:pdb|bdb|code)\.py$")


def is_library(frame: Frame) -> bool:
    return bool(LIBRARY.search(frame.file))


def own_place(frames: Frames) -> Frame | None:
    """The innermost frame of the program's own; of a program without any the innermost one."""
    own = [frame for frame in _of_worker(frames) if not is_library(frame)]
    return own[-1] if own else frames[-1] if frames else None


def collective(frames: Frames) -> str | None:
    """The collective in which the innermost own frame waits, as it is called; None if in none.

    Backward counts as one: with several ranks their gradients are reduced in it.
    """
    called = _called(frames)
    if called and _name(called[-1]) == BACKWARD:
        return "backward"
    names = [
        _name(frame) for frame in called if COLLECTIVES.search(frame.file) and _name(frame) not in WRAPPERS
    ]
    return names[0] if names else None


def works_in_library(frames: Frames) -> bool:
    """Whether a thread that computes is at work: in a library, where it does not wait for a rank or a GPU."""
    waits = collective(frames) not in (None, "backward") or any(
        CUDA in frame.file for frame in _called(frames)
    )
    return bool(frames) and is_library(frames[-1]) and not waits


def is_launcher(frames: Frames) -> bool:
    """Whether it started the ranks and waits for their end; a rank of `mp.spawn` has that file further out."""
    called = _called(frames)
    return any(LAUNCHERS.search(frame.file) and _name(frame) != "_wrap" for frame in called)


def awaited_threads(threads: Sequence[ThreadStack]) -> list[ThreadStack]:
    """The threads with lines of the program's own, where the main one waits for a thread or a queue."""
    main = _main(threads).frames
    waits = any(THREADS.search(frame.file) for frame in main[-1:])
    if not waits or any(
        frame.file.endswith(LOADER) or PROCESSES.search(frame.file) for frame in _called(main)
    ):
        return []
    return [each for each in threads if not each.main and not all(is_library(frame) for frame in each.frames)]


def training_thread(threads: Sequence[ThreadStack]) -> ThreadStack:
    """The main thread; where it waits for the end of the one thread that trains, that one."""
    main = _main(threads)
    awaited = awaited_threads(threads) if main.frames and _name(main.frames[-1]) in JOINS else []
    return awaited[0] if len(awaited) == 1 else main


def _main(threads: Sequence[ThreadStack]) -> ThreadStack:
    return next((thread for thread in threads if thread.main), ThreadStack("", main=True, frames=()))


def waits_for_worker(frames: Frames) -> bool:
    """Whether it waits for workers, of its DataLoader or of a pool of processes."""
    return any(POOLS.search(frame.file) for frame in _called(frames))


def waits_for_program(frames: Frames) -> bool:
    """Whether it waits for another program that it started."""
    return any(PROCESSES.search(frame.file) for frame in _called(frames))


def waits_for_person(frames: Frames) -> bool:
    """Whether it is in a debugger."""
    return any(DEBUGGER.search(frame.file) for frame in _called(frames))


def is_loader_worker(frames: Frames) -> bool:
    return any(_name(frame) == LOADER_LOOP for frame in frames)


def is_idle_worker(frames: Frames) -> bool:
    """Whether it is a worker that waits to be asked for a batch or a task."""
    below = _of_worker(frames)
    return len(below) < len(frames) and all(is_library(frame) for frame in below)


def _of_worker(frames: Frames) -> Frames:
    """What a worker does: the frames below its loop, since those above belong to the fork's caller."""
    starts = [place for place, frame in enumerate(frames) if _name(frame) in WORKER_STARTS]
    return frames[starts[-1] + 1 :] if starts else frames


def _called(frames: Frames) -> Frames:
    """The frames that the innermost own one has called."""
    own = [place for place, frame in enumerate(frames) if not is_library(frame)]
    return frames[own[-1] + 1 :] if own else frames


def _name(frame: Frame) -> str:
    return frame.function.rpartition(".")[2]
