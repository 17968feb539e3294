"""A rank of a training, as torchrun would start it, forked from a process that has imported torch already.

Its output goes through a pipe of one page, so that it is at most some fifty lines ahead of the reader: a signal
that is sent at a line arrives while it trains. `sabotage` is called in the rank before it trains.
"""

import fcntl
import multiprocessing
import os
import resource
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.context import ForkServerContext, ForkServerProcess

import torch

from gputel.trainer.__main__ import main

PAGE_BYTES = 4096
CONTEXT: ForkServerContext = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["gputel.trainer.train", "torch._dynamo", "pytest", __name__])


def begin(
    arguments: Sequence[str],
    surroundings: Mapping[str, str],
    output: str,
    largest_file: int | None,
    sabotage: Callable[[], None] | None = None,
) -> ForkServerProcess:
    given = (list(arguments), dict(surroundings), output, largest_file, sabotage)
    process = CONTEXT.Process(target=_rank, args=given, daemon=True)
    process.start()
    return process


def _rank(
    arguments: list[str],
    surroundings: dict[str, str],
    output: str,
    largest_file: int | None,
    sabotage: Callable[[], None] | None,
) -> None:
    handle = os.open(output, os.O_WRONLY)
    if fcntl.fcntl(handle, fcntl.F_GETPIPE_SZ) > PAGE_BYTES:
        fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, PAGE_BYTES)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.environ.update(surroundings)
    if largest_file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    torch.set_num_threads(1)
    if sabotage:
        sabotage()
    main(arguments, prog_name="python -m gputel.trainer")
