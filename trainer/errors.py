"""The errors of the trainer: place, fault and hint, on one line without a traceback."""

import errno
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

DISK_FULL = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the quota is used up"}


class TrainerError(Exception):
    """`place: fault; hint`. The process that prints it ends with exit code 1."""

    def __init__(self, place: str, fault: str, hint: str = "") -> None:
        self.place, self.fault, self.hint = place, fault, hint
        super().__init__(place, fault, hint)

    def __str__(self) -> str:
        return f"{self.place}: {self.fault}" + (f"; {self.hint}" if self.hint else "")


LeftOut = dict[str, TrainerError]  # by place


@contextmanager
def tolerated(left_out: LeftOut | None) -> Iterator[None]:
    """An error of the data is noted and its place left out; without anywhere to note it, it is raised."""
    try:
        yield
    except TrainerError as fault:
        if left_out is None:
            raise
        left_out[fault.place] = fault


class RankError(Exception):
    """Any other error of rank `rank`, as one line, raised on all ranks; on its own rank with the error as cause."""

    def __init__(self, rank: int, line: str) -> None:
        self.rank, self.line = rank, line
        super().__init__(rank, line)

    def __str__(self) -> str:
        return self.line


def one_line(fault: BaseException) -> str:
    """An error in one line: that of the operating system with its file, any other with its type."""
    if isinstance(fault, TrainerError | RankError):
        return str(fault)
    if isinstance(fault, OSError) and fault.strerror:
        reason = DISK_FULL.get(fault.errno or 0)
        place = f"{fault.filename}: " if fault.filename else ""
        return f"{place}{fault.strerror}" + (f" ({reason})" if reason else "")
    return f"{type(fault).__name__}: {fault}".splitlines()[0]


def explains_itself(fault: BaseException) -> bool:
    """Is one line enough? An error in the code of the trainer needs its traceback."""
    if isinstance(fault, RankError):
        return isinstance(fault.__cause__, OSError | None)
    return isinstance(fault, TrainerError) or (isinstance(fault, OSError) and fault.errno in DISK_FULL)


def optional(module: str, package: str, wanted_by: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise TrainerError(wanted_by, f"needs the package {package}", f"pip install {package}") from missing
