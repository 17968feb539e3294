"""The one error that a user reads: where, what is wrong, and a hint how to fix it; a warning of damaged files."""

import errno
import os
from pathlib import Path

LIMITS_HINT = "check `ulimit -v`, `ulimit -u`, and what the container or job may use"


class GputelError(Exception):
    """One line, `place: fault; hint`; the command that prints it ends with `exit_code`."""

    def __init__(self, place: str, fault: str, hint: str = "", *, exit_code: int = 1) -> None:
        self.place, self.fault, self.hint, self.exit_code = place, fault, hint, exit_code
        super().__init__(f"{place}: {fault}" + (f"; {hint}" if hint else ""))

    def as_json(self) -> dict[str, str]:
        """An item of the `errors` in the JSON of a command that goes on without it."""
        return {"path": self.place, "message": self.fault + (f"; {self.hint}" if self.hint else "")}

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.place, self.fault, self.hint, self.exit_code)


class DamagedFile(UserWarning):
    """A file whose content is left out, or a part of it; commands print it as one line: `path: effect (fault)`."""

    def __init__(self, path: Path, fault: str, effect: str = "cannot be read and is left out") -> None:
        self.path, self.fault, self.effect = path, fault, effect
        super().__init__(f"{path}: {effect} ({fault})")

    def __reduce__(self) -> tuple[object, ...]:
        return DamagedFile, (self.path, self.fault, self.effect)


def unexpected(place: str, error: BaseException) -> GputelError:
    """The line for an exception that has none: memory or threads are short, or gputel has a fault."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return GputelError(place, "no memory is left for it", LIMITS_HINT)
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return GputelError(place, "the system refuses to start another of its threads", LIMITS_HINT)
    return GputelError(place, f"{type(error).__name__}: {error}", "please report this")


def _rebuild(place: str, fault: str, hint: str, exit_code: int) -> GputelError:
    """Exceptions pickle their `args` alone, which are the joined line here."""
    return GputelError(place, fault, hint, exit_code=exit_code)


def reason(error: Exception) -> str:
    """The reason, such as `No space left on device`; never empty, even if the OSError has no text."""
    if isinstance(error, OSError) and error.errno:
        return error.strerror or os.strerror(error.errno)
    return str(error) or type(error).__name__
