"""The folder in memory where the training and the recorder meet, and the variables that bring the hook in.

In memory alone: a hung disk must not reach the training. Where there is none the run says why, and goes on without.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from gputel.telemetry import filesystem
from gputel.telemetry.clock import wall_at_boot
from gputel.telemetry.errors import reason
from gputel.telemetry.inside import step_records

Level: TypeAlias = Literal["off", "stacks", "steps"]
LEVELS: tuple[Level, ...] = ("off", "stacks", "steps")
HOOK = Path(__file__).resolve().parent / "hook"
VARIABLE = "GPUTEL_INSIDE_AT"
MEMORY = ("tmpfs", "ramfs")
ROOM = 16 << 20
ASKED = ".ask"
"""The ending of the pipe by which a process is asked."""
ROWS = ".jsonl"
"""The ending of the file to which a process appends what it says by `gputel.log`."""
WRITTEN = (ROWS, step_records.ENDING)
"""The endings of files whose content belongs into the run folder."""


CLOCK = "clock"
"""The file from which `gputel.log` takes the recorder's wall clock."""


@dataclass(frozen=True)
class Inside:
    """What a recording sees inside its command. `reason` says why it is off although it was asked for.

    The folder is there when it is off, too: for what the command says of itself by `gputel.log`.
    """

    level: Level
    folder: Path | None = None
    reason: str = ""
    lock: int | None = None
    """A descriptor that holds the folder's lock."""

    @property
    def looks(self) -> bool:
        """Whether the hook is brought into the command."""
        return self.level != "off" and self.folder is not None

    def as_json(self) -> dict[str, str | None]:
        """Its entry in run.json."""
        folder = None if self.folder is None else str(self.folder)
        return {"level": self.level, "folder": folder, "reason": self.reason}

    def environment(self, before: Mapping[str, str]) -> dict[str, str]:
        """The command's environment: the hook first on PYTHONPATH, in place of an outer recording's."""
        env = {name: value for name, value in before.items() if name != VARIABLE}
        before_us = env.pop("PYTHONPATH").split(":") if "PYTHONPATH" in env else []
        path = [entry for entry in before_us if not _is_hook(entry)]
        if self.folder is not None:
            env[VARIABLE] = f"{self.level}:{self.folder}"
        if self.looks:
            path = [str(HOOK), *path] if any(path) else [str(HOOK)]
        return {**env, "PYTHONPATH": ":".join(path)} if path else env


def enter(level: Level, *, hook: Path = HOOK, roots: tuple[str, ...] | None = None) -> Inside:
    """Makes a folder of this recording's own, which no other user can read."""
    refusal = ""
    if level != "off" and ":" in str(hook):
        level, refusal = "off", f"PYTHONPATH cannot name {hook}: a colon is in it"
    elif level != "off" and not Path("/proc/self/stat").exists():
        level, refusal = "off", "there is no /proc, by which ranks are seen to stand"
    why = "no folder is in memory"
    for root in roots if roots is not None else ("/dev/shm", os.environ.get("XDG_RUNTIME_DIR", "")):
        try:
            if root and not (why := _refusal(Path(root))):
                folder, lock = _make(Path(root))
                return Inside(level, folder, refusal, lock)
        except OSError as error:
            why = f"{root}: {reason(error)}"
    return Inside("off", reason=refusal if level == "off" else why)


def leave(inside: Inside) -> None:
    """Removes the folder; a process that still listens there is silent from then on."""
    if inside.folder is not None:
        shutil.rmtree(inside.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            inside.folder.parent.rmdir()
    if inside.lock is not None:
        os.close(inside.lock)


def hold(folder: Path) -> int:
    """Locks the folder against other recorders; returns a descriptor, whose last copy unlocks it. Raises OSError.

    Several may hold the lock. It shows that a recorder in another container lives, whose process id says nothing.
    """
    return _locked(folder, fcntl.LOCK_SH)


def _locked(folder: Path, kind: int) -> int:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


def _is_hook(entry: str) -> bool:
    return entry.endswith("/telemetry/inside/hook")


def _refusal(root: Path) -> str:
    if filesystem.kind(root) not in MEMORY:
        return f"{root} is not in memory"
    room = os.statvfs(root)
    if room.f_bavail * room.f_frsize < ROOM:
        return f"{root} has less than {ROOM >> 20} MiB free"
    return ""


def _make(root: Path) -> tuple[Path, int]:
    above = root / f"gputel-{os.getuid()}"
    while root.is_dir():
        # Another recorder that ends now removes the folder above when it is empty. One in another container may
        # look at the new folder before it is locked, or has taken it for one that was left.
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            return _make_within(above)
    raise NotADirectoryError(errno.ENOTDIR, "is gone", str(root))


def _make_within(above: Path) -> tuple[Path, int]:
    with contextlib.suppress(FileExistsError):
        above.mkdir(mode=0o700)
    status = above.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(1, "is another user's, or open to others", str(above))
    _sweep(above)
    folder = above / f"{os.getpid()}-{os.urandom(6).hex()}"
    folder.mkdir(mode=0o700)
    lock = hold(folder)
    try:
        (folder / CLOCK).write_text(str(wall_at_boot()))
    except OSError:
        os.close(lock)
        raise
    return folder, lock


def _sweep(above: Path) -> None:
    """Removes folders of killed recorders in which no process listens or writes any more."""
    for folder in above.iterdir():
        with contextlib.suppress(OSError):
            lock = _locked(folder, fcntl.LOCK_EX)
            try:
                if _is_abandoned(folder):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _is_abandoned(folder: Path) -> bool:
    writers = [path.name.partition("-")[0] for path in folder.iterdir() if path.suffix in WRITTEN]
    is_alive = any(Path("/proc", pid).exists() for pid in (folder.name.partition("-")[0], *writers))
    return not is_alive and not any(map(listens, files(folder, ASKED)))


def listens(pipe: Path) -> bool:
    """Whether a process reads this pipe."""
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def files(folder: Path, *endings: str) -> list[Path]:
    """The files with one of these endings (all without any), in order; none if the folder is gone.

    Its recorder removes it at the end, while others look: `Path.glob` raises where that happens as it begins.
    """
    with contextlib.suppress(OSError):
        return sorted(path for path in folder.iterdir() if path.name.endswith(endings or ""))
    return []


def own_folder(inside: object) -> Path | None:
    """The folder that run.json names, if it is one that a recorder of this user has made here."""
    named = inside.get("folder") if isinstance(inside, dict) else None
    folder = Path(str(named)) if named else None
    if folder is None or folder.parent.name != f"gputel-{os.getuid()}":
        return None
    try:
        above, status = folder.parent.lstat(), folder.lstat()
        is_in_memory = filesystem.kind(folder) in MEMORY
    except (OSError, ValueError):
        return None
    is_ours = all(stat.S_ISDIR(each.st_mode) and each.st_uid == os.getuid() for each in (above, status))
    return folder if is_ours and is_in_memory else None
