"""The errors of the trainer: where, what, and the mend, on one line without a traceback."""


class TrainerError(Exception):
    """`place: fault; mend`. Whoever prints it ends with exit code 1."""

    def __init__(self, place: str, fault: str, mend: str = "") -> None:
        self.place, self.fault, self.mend = place, fault, mend
        super().__init__(f"{place}: {fault}" + (f"; {mend}" if mend else ""))

    def __reduce__(self) -> tuple[type["TrainerError"], tuple[str, str, str]]:
        return TrainerError, (self.place, self.fault, self.mend)


class RankError(Exception):
    """Whatever else went wrong on one rank, in the words in which all ranks are told of it."""


def in_words(fault: Exception) -> str:
    """One line, of what was not foreseen too."""
    if isinstance(fault, OSError) and fault.filename and fault.strerror:
        return f"{fault.filename}: {fault.strerror}"
    return f"{type(fault).__name__}: {fault}".splitlines()[0]
