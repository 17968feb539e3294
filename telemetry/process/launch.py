"""How the viewer starts a keeper, and the keeper the command; and how a successor takes a dead keeper's place.

The keeper is the command's parent, so that it learns how it ended when the viewer is gone. The viewer is the
subreaper, so that it learns it when the keeper is gone.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gputel.telemetry.errors import GputelError
from gputel.telemetry.process import command
from gputel.telemetry.process.keeper import Keeper, Post, take_over

SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ, which fcntl names on Linux alone
HANDSHAKE = struct.Struct("ii")  # the command's process, and the errno of its exec or 0


@dataclass(frozen=True)
class Launch:
    """What is to be run, and where it stands."""

    argv: Sequence[str]
    env: Mapping[str, str]
    output: int
    """The command's end of the pipe, or its side of a pseudo-terminal."""
    terminal: bool
    own_group: bool
    """Without a controlling terminal, or with one of its own, keeper and command leave the viewer's group."""


@dataclass(frozen=True)
class Started:
    keeper: int
    first: int
    """The keeper that started the command, which may be gone. It led their group."""
    command: int
    process: int
    """A pidfd of the command."""


def start(launch: Launch, post: Post) -> Started:
    """GputelError where the command cannot be run. A keeper that dies before it began is replaced."""
    while True:
        ours, theirs = socket.socketpair()
        keeper = _fork_keeper(launch, post, theirs)
        theirs.close()
        with ours:
            message, processes, _, _ = socket.recv_fds(ours, HANDSHAKE.size, 1)
        if len(message) == HANDSHAKE.size:
            pid, fault = HANDSHAKE.unpack(message)
            if fault:
                os.waitpid(keeper, 0)
                raise command.refusal(launch.argv[0], fault)
            return Started(keeper, keeper, pid, processes[0])
        os.waitpid(keeper, 0)
        if (orphan := _orphan(post)) is not None:
            process = os.pidfd_open(orphan)
            successor = succeed(post, process, keeper if launch.own_group else None)
            return Started(successor, keeper, orphan, process)


def succeed(post: Post, process: int | None, group: int | None) -> int:
    """A keeper in place of one that died."""
    pid = os.fork()
    if pid == 0:
        try:
            if group is not None:
                _join(group)
            command.retire_to(post.descriptors() | ({process} if process is not None else set()))
            take_over(post)
            os._exit(Keeper(post, process, parent=False).keep())
        finally:
            os._exit(1)
    return pid


def beside(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """A process that the command knows nothing of: in a session of its own, with our standard error."""
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1)]
    return os.posix_spawn(argv[0], list(argv), env, file_actions=null, setsid=True, setsigmask=())


def _fork_keeper(launch: Launch, post: Post, tell: socket.socket) -> int:
    command.flush()
    pid = os.fork()
    if pid == 0:
        try:
            _be_keeper(launch, post, tell)
        finally:
            os._exit(1)
    return pid


def _be_keeper(launch: Launch, post: Post, tell: socket.socket) -> None:
    if launch.own_group:
        os.setpgid(0, 0)
    pid, fault = command.start(
        launch.argv, launch.env, launch.output, post.signals, post.ledger, terminal=launch.terminal
    )
    process = os.pidfd_open(pid)
    socket.send_fds(tell, [HANDSHAKE.pack(pid, fault)], [process])
    tell.close()
    if fault:
        os._exit(0)
    command.retire_to(post.descriptors() | {process})
    os._exit(Keeper(post, process, parent=True).keep())


def _orphan(post: Post) -> int | None:
    """The command of a keeper that died before it could name it: it names itself, if it was born at all."""
    while not post.ledger.command:
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return None
        time.sleep(0.001)
    return post.ledger.command


def _join(group: int) -> None:
    try:
        os.setpgid(0, group)
    except OSError:  # all of it have ended
        os.setpgid(0, 0)


def has_terminal() -> bool:
    """A controlling one, through which job control reaches our process group."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def require_linux() -> None:
    """Signals and ends of processes as descriptors: Linux from 5.4 on."""
    if not (hasattr(os, "pidfd_open") and hasattr(os, "eventfd") and hasattr(os, "P_PIDFD")):
        raise GputelError(
            "gputel record", "needs Linux 5.4 or newer", "record there, and read the run folder here"
        )
