"""Starts keeper and command, and a successor when a keeper dies.

The command runs as if gputel were not there, except for its standard output and error: the end of a pipe, or of a
pseudo-terminal that then is its controlling one. The keeper is the command's parent, so that it learns how the
command ended after the viewer is gone. The viewer is the subreaper, so that it learns it after the keeper is
gone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import shutil
import socket
import struct
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gputel.telemetry.errors import GputelError
from gputel.telemetry.process.keeper import Keeper, KeeperState, take_over
from gputel.telemetry.process.shared_memory import Ledger
from gputel.telemetry.process.signals import Signals

NOT_FOUND, NOT_EXECUTABLE = 127, 126
MOST_DESCRIPTORS = 1 << 20
SHELL = "/bin/sh"
FIRST_BYTES, ELF = 128, b"\x7fELF"
"""Of a file without `#!`: no script has a NUL among them, or begins as a Linux program does."""
KEEPERS = 5
"""How many keepers may die one after the other before any of them has started the command."""


def check(argv: Sequence[str], path: str | None = None) -> None:
    """Raise GputelError for a program that cannot be started, before a run folder is made."""
    if shutil.which(argv[0], path=path):
        return
    if os.sep in argv[0] and Path(argv[0]).exists():
        raise refusal(argv[0], errno.EACCES)
    raise refusal(argv[0], errno.ENOENT)


def refusal(program: str, number: int) -> GputelError:
    """The error and exit code that a shell would give for this errno."""
    if number == errno.ENOENT:
        return GputelError(program, "command not found", "check its spelling and PATH", exit_code=NOT_FOUND)
    hint = {
        errno.EACCES: "make it executable with `chmod +x`, or name its interpreter",
        errno.ENOEXEC: "it is not a program, or one for another system",
    }.get(number, "")
    return GputelError(program, f"cannot be run: {os.strerror(number)}", hint, exit_code=NOT_EXECUTABLE)


def start(
    argv: Sequence[str],
    env: Mapping[str, str],
    output: int,
    signals: Signals,
    ledger: Ledger,
    *,
    terminal: bool,
) -> tuple[int, int]:
    """Fork and exec. Returns the process id, and the errno of a failed exec or 0."""
    fault_end, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        ledger.command = os.getpid()  # in the child: its keeper may be killed before it could note it
        _become(argv, env, output, signals, terminal, tell)
    os.close(tell)
    with os.fdopen(fault_end, "rb") as fault:
        answer = fault.read()
    return pid, struct.unpack("i", answer)[0] if answer else 0


def _become(
    argv: Sequence[str], env: Mapping[str, str], output: int, signals: Signals, terminal: bool, tell: int
) -> None:
    try:
        if terminal:
            os.setsid()
            fcntl.ioctl(output, termios.TIOCSCTTY, 0)
            os.dup2(output, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        signals.restore()
        _execute(argv, env)
    except OSError as error:
        os.write(tell, struct.pack("i", error.errno or errno.EIO))
    finally:
        os._exit(NOT_FOUND)


def _execute(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Exec; as a shell does, give a text without a `#!` line to /bin/sh. Raises OSError."""
    try:
        os.execvpe(argv[0], list(argv), dict(env))
    except OSError as error:
        path = shutil.which(argv[0], path=env.get("PATH"))
        if error.errno != errno.ENOEXEC or path is None or not _is_text(path):
            raise
        os.execve(SHELL, [SHELL, path, *argv[1:]], dict(env))


def _is_text(path: str) -> bool:
    with open(path, "rb") as file:  # noqa: PTH123
        first = file.read(FIRST_BYTES)
    return not first.startswith(ELF) and b"\0" not in first


def keep_only(keep: set[int]) -> None:
    """Close every descriptor but these, in a keeper or sampler, which must hold nothing of the user's."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    begin = 3
    for descriptor in sorted(keep):
        os.closerange(begin, descriptor)
        begin = descriptor + 1
    os.closerange(begin, max(begin, _beyond()))


def fill_standard() -> None:
    """Open /dev/null for each closed standard descriptor; the next opened file would be the command's output.

    To be called before anything is opened that stays open.
    """
    for standard in range(3):
        try:
            os.fstat(standard)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def flush() -> None:
    """Flush buffered output, which would be written twice after a fork."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


def _beyond() -> int:
    """A number above every open descriptor; without /proc the limit, which may be a billion, up to a million."""
    with contextlib.suppress(OSError):
        return 1 + max(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST_DESCRIPTORS if limit == resource.RLIM_INFINITY else min(limit, MOST_DESCRIPTORS)


def require_descriptors(count: int) -> None:
    """Raise GputelError if the limit leaves fewer descriptors than a recording needs."""
    opened: list[int] = []
    try:
        while len(opened) < count:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        raise cannot_start(error) from None
    finally:
        for descriptor in opened:
            os.close(descriptor)


def cannot_start(error: OSError | MemoryError) -> GputelError:
    """The error of a recording for which the system has no room: memory, processes or descriptors."""
    number = errno.ENOMEM if isinstance(error, MemoryError) else error.errno or errno.EIO
    hint = {
        errno.EMFILE: "raise `ulimit -n`",
        errno.ENOMEM: "raise `ulimit -v`",
        errno.EAGAIN: "raise `ulimit -u`",
    }
    return GputelError("gputel record", f"cannot start: {os.strerror(number).lower()}", hint.get(number, ""))


SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ, which fcntl names on Linux alone
HANDSHAKE = struct.Struct("ii")  # the command's process, and the errno of its exec or 0


@dataclass(frozen=True)
class Launch:
    """The command to start, and its place among the processes."""

    argv: Sequence[str]
    env: Mapping[str, str]
    output: int
    """The command's end of the pipe or pseudo-terminal."""
    terminal: bool
    own_group: bool
    """Whether keeper and command leave the viewer's group: without a terminal, or with one of their own."""


@dataclass(frozen=True)
class StartedCommand:
    """The process ids of keeper and command."""

    keeper: int
    first: int
    """The keeper that started the command and leads their group; it may be gone."""
    command: int
    process: int
    """A pidfd of the command."""


def start_keeper(launch: Launch, state: KeeperState) -> StartedCommand:
    """Start a keeper and its command; replaces a keeper that dies at once.

    Raises GputelError if the command cannot be started.
    """
    for _ in range(KEEPERS):
        ours, theirs = socket.socketpair()
        keeper = _fork_keeper(launch, state, ours, theirs)
        theirs.close()
        with ours:
            message, processes, _, _ = socket.recv_fds(ours, HANDSHAKE.size, 1)
        if len(message) == HANDSHAKE.size:
            pid, fault = HANDSHAKE.unpack(message)
            if fault:
                os.waitpid(keeper, 0)
                raise refusal(launch.argv[0], fault) if pid else cannot_start(OSError(fault, ""))
            return StartedCommand(keeper, keeper, pid, processes[0])
        os.waitpid(keeper, 0)
        if (orphan := _orphan(state)) is not None:
            process = os.pidfd_open(orphan)
            successor = succeed(state, process, keeper if launch.own_group else None)
            return StartedCommand(successor, keeper, orphan, process)
    raise GputelError("gputel record", f"cannot start: {KEEPERS} keepers were killed", "see `dmesg`")


def succeed(state: KeeperState, process: int | None, group: int | None) -> int:
    """Start a keeper in place of one that died; returns its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            if group is not None:
                _join(group)
            keep_only(state.descriptors() | ({process} if process is not None else set()))
            take_over(state)
            os._exit(Keeper(state, process, parent=False).keep())
        finally:
            os._exit(1)
    return pid


def start_beside(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Start a process that the command cannot see: in a session of its own, with our standard error."""
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1)]
    return os.posix_spawn(argv[0], list(argv), env, file_actions=null, setsid=True, setsigmask=())


def _fork_keeper(launch: Launch, state: KeeperState, viewers: socket.socket, tell: socket.socket) -> int:
    flush()
    pid = os.fork()
    if pid == 0:
        try:
            viewers.close()
            _be_keeper(launch, state, tell)
        finally:
            os._exit(1)
    return pid


def _be_keeper(launch: Launch, state: KeeperState, tell: socket.socket) -> None:
    if launch.own_group:
        os.setpgid(0, 0)
    try:
        pid, fault = start(
            launch.argv, launch.env, launch.output, state.signals, state.ledger, terminal=launch.terminal
        )
    except OSError as error:
        tell.send(HANDSHAKE.pack(0, error.errno or errno.EIO))
        os._exit(0)
    process = os.pidfd_open(pid)
    socket.send_fds(tell, [HANDSHAKE.pack(pid, fault)], [process])
    tell.close()
    if fault:
        os._exit(0)
    keep_only(state.descriptors() | {process})
    os._exit(Keeper(state, process, parent=True).keep())


def _orphan(state: KeeperState) -> int | None:
    """The command of a keeper that died before it reported it; None if it was never forked."""
    while not state.ledger.command:
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return None
        time.sleep(0.001)
    return state.ledger.command


def _join(group: int) -> None:
    try:
        os.setpgid(0, group)
    except OSError:  # every process of the group has ended
        os.setpgid(0, 0)


def has_terminal() -> bool:
    """Whether there is a controlling terminal, through which job control reaches our process group."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def require_linux() -> None:
    """Raise GputelError without pidfds and eventfds, which Linux has from 5.4 on."""
    if not (hasattr(os, "pidfd_open") and hasattr(os, "eventfd") and hasattr(os, "P_PIDFD")):
        raise GputelError(
            "gputel record", "needs Linux 5.4 or newer", "record there, and read the run folder here"
        )
