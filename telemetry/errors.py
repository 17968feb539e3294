"""The one error that people are meant to read: where, what, and the mend."""


class GputelError(Exception):
    """One line: `place: fault; mend`. Whoever prints it ends with `exit_code`."""

    def __init__(self, place: str, fault: str, mend: str = "", *, exit_code: int = 1) -> None:
        self.place, self.fault, self.mend, self.exit_code = place, fault, mend, exit_code
        super().__init__(f"{place}: {fault}" + (f"; {mend}" if mend else ""))

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (self.place, self.fault, self.mend, self.exit_code)


def _again(place: str, fault: str, mend: str, exit_code: int) -> GputelError:
    return GputelError(place, fault, mend, exit_code=exit_code)
