"""The line of a save -> the step that it names: `step_000150.pt`, `global_step500`, `at iteration 4000`.

Without the word `step`, a number in a file's name may be an epoch: it counts if it fits the records around it.
"""

from __future__ import annotations

import re

_NAMED = re.compile(
    r"(?i)(?<![a-z])(?:global[ _-]?)?(?:steps?|iter|iterations?)[ _=:#-]{0,2}0*(\d{1,12})(?!\d)"
)
_UPDATES = re.compile(r"(?i)@ ?0*(\d{1,12}) updates\b")
_NUMBERED = re.compile(
    r"(?i)(?<![a-z])(?:checkpoint|ckpt|model|weights|state|optim|meta|snapshot)[_-]?0*(\d{1,12})(?!\d)"
)


def named_numbers(text: str) -> set[int]:
    """Returns the numbers that may say which save a line is about: of steps, else of files."""
    for patterns in ((_NAMED, _UPDATES), (_NUMBERED,)):
        if numbers := {int(number) for pattern in patterns for number in pattern.findall(text)}:
            return numbers
    return set()


def saved_step(text: str, last: int | None, stride: int) -> int | None:
    """Returns the step that was saved: the one in the text, else `last`, that of the record before.

    `stride` is the number of steps between two records.
    """
    for pattern in (_NAMED, _UPDATES):
        if matches := pattern.findall(text):
            return int(matches[-1])
    numbers = [int(number) for number in _NUMBERED.findall(text)]
    if last is None:
        return None
    return next((number for number in numbers if last <= number <= last + max(stride, 1)), last)
