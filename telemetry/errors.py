"""The one error that a user reads: where, what is wrong, and a hint how to fix it; a warning of damaged files."""

import os
from pathlib import Path


class GputelError(Exception):
    """One line, `place: fault; hint`; the command that prints it ends with `exit_code`."""

    def __init__(self, place: str, fault: str, hint: str = "", *, exit_code: int = 1) -> None:
        self.place, self.fault, self.hint, self.exit_code = place, fault, hint, exit_code
        super().__init__(f"{place}: {fault}" + (f"; {hint}" if hint else ""))

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.place, self.fault, self.hint, self.exit_code)


class DamagedFile(UserWarning):
    """A file that cannot be read, whose content is left out; commands print it as one line."""

    def __init__(self, path: Path, fault: str) -> None:
        self.path, self.fault = path, fault
        super().__init__(f"{path}: cannot be read and is left out ({fault})")

    def __reduce__(self) -> tuple[object, ...]:
        return DamagedFile, (self.path, self.fault)


def _rebuild(place: str, fault: str, hint: str, exit_code: int) -> GputelError:
    """Exceptions pickle their `args` alone, which are the joined line here."""
    return GputelError(place, fault, hint, exit_code=exit_code)


def reason(error: Exception) -> str:
    """What failed, such as `No space left on device`; never empty, though an OSError may bear no text."""
    if isinstance(error, OSError) and error.errno:
        return error.strerror or os.strerror(error.errno)
    return str(error) or type(error).__name__
