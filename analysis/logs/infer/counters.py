"""What the values of a column do from line to line: count, rise, fall, begin again, or stay words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from gputel.analysis.logs.infer.named import Slot
from gputel.analysis.logs.infer.shapes import LineShape
from gputel.analysis.logs.patterns import lazy_regex
from gputel.analysis.logs.values import seconds

SAMPLES = lazy_regex(r"(?i)sample|token|image|sentence|example|seen|byte|word|frame|episode|timestep")
_SEED = lazy_regex(r"(?i)(?:\w+\s+)?seeds?")  # `random seed`
# `Model 3 test rmse = 1.2`
NUMBERED = lazy_regex(r"(?i)(?:model|run|fold|trial|split|subject|(?:\w+\s+)?seed)s?")
# of federated learning, which all clients have in common
ROUND = lazy_regex(
    r"(?i)(?:(?:global|server|comm\w*|federated|fl|training)[ _])*rounds?(?:[ _](?:number|num|no|idx|index|id))?"
)
_DIGIT = lazy_regex(rb"\d")
_SEVERAL = 6  # values, of which a counter has more than two
_ALWAYS, _LONG = 10, 1000.0  # so many times of so many seconds that always rise are no step times


def is_text(column: Sequence[bytes]) -> bool:
    """Whether the values are words only (nan, None), which may be words of the line itself."""
    return not any(_DIGIT.search(value) for value in column)


def integers(column: Sequence[bytes]) -> list[int] | None:
    """The column as whole numbers, if all of them are."""
    plain = [value.replace(b",", b"") for value in column]
    return [int(value) for value in plain] if plain and all(value.isdigit() for value in plain) else None


def numbers(column: Sequence[bytes]) -> list[float]:
    try:
        return [float(value.replace(b",", b"")) for value in column]
    except ValueError:  # words: `n/a`
        return []


def counter(shape: LineShape, named: Sequence[Slot]) -> Slot | None:
    """The unnamed or unknown whole number that rises from line to line, mostly by the same amount."""
    for slot in named:
        values = integers(shape.column(slot.at)) if slot.kind == "number" and slot.column is None else None
        key = slot.key or ""
        counts_others = slot.unit or SAMPLES.search(key) or _SEED.fullmatch(key)
        if values and len(values) > 1 and not counts_others and counts(values):
            return slot
    return None


def is_samples(values: Sequence[int], total: int | None) -> bool:
    """Whether an unnamed index counts samples: it grows by multiples of 32, or by 10 batches and more from one."""
    steps = [b - a for a, b in pairwise(values) if b > a]
    common, batch = max(set(steps), key=steps.count) if steps else 0, min(values)
    if len(steps) + 1 == len(values) > 2 and not any(value % 1000 for value in values):
        return False  # 20000, 40000, ...: a step that is printed now and then, of a training without epochs
    grows = common >= 32 and common % 32 == 0 and (total or 0) > 5 * common
    by_batch = batch % 4 == 0 < 10 * batch <= common and common % batch == 0 and len(steps) + 1 < len(values)
    return bool(total) and (grows or (by_batch and not any((value - batch) % common for value in values)))


def counts(values: Sequence[int]) -> bool:
    """Whether the values rise, mostly by the same amount; a value that repeats at once is a copy."""
    steps = [b - a for a, b in pairwise(values) if b != a]
    rising = [step for step in steps if step > 0]
    if not steps or (len(values) >= _SEVERAL and len({*values}) < 3):
        return False  # the same, or another number in each of two runs
    if len(rising) < max(1, 0.6 * len(steps)):
        return False
    return rising.count(max(set(rising), key=rising.count)) >= 0.5 * len(rising)


def recurs(values: Sequence[bytes]) -> bool:
    """Whether they are few, each again and again, as those of a setting are."""
    return len({*values}) == 1 or 2 * len({*values}) <= len(values)


def goes_on(values: Sequence[int]) -> bool:
    """Whether the values stay or rise, as epochs do, and rarely fall; ranks come in turn."""
    changes = [b > a for a, b in pairwise(values) if b != a]
    return bool(values) and 2 * changes.count(False) <= changes.count(True)


def drops(column: Sequence[bytes]) -> bool:
    return any(b < a for a, b in pairwise(integers(column) or ()))


def falls(column: Sequence[bytes]) -> bool:
    """Whether a count begins again so often that it is not the step."""
    return 3 * sum(b < a for a, b in pairwise(integers(column) or ())) > len(column)


def declines(column: Sequence[bytes]) -> bool:
    """Whether fractions fall, or stay, from line to line; in a log of several runs they rise where one begins."""
    steps = [b <= a for a, b in pairwise(numbers(column))]
    return has_fractions(column) and bool(steps) and sum(steps) >= 0.8 * len(steps)


def rises(column: Sequence[bytes]) -> bool:
    """Whether a time grows from line to line, so that it is not that of one step."""
    try:
        values = [seconds(value.replace(b",", b"")) for value in column]
    except ValueError:
        return False
    rising = sum(b >= a for a, b in pairwise(values))
    is_long = len(values) >= _ALWAYS and min(values) >= _LONG
    always = is_long and all(b > a for a, b in pairwise(values))  # a clock that began elsewhere
    grows = rising >= 0.9 * (len(values) - 1) and values[-1] > 3 * max(values[0], 1e-9)
    return len(values) > 3 and (grows or always or _rises_anew(values))


def _rises_anew(values: Sequence[float]) -> bool:
    """Whether it is the clock of runs, which rises and begins again with each; one slow step is none."""
    begun = [0, *(at for at, (a, b) in enumerate(pairwise(values), 1) if b < a), len(values)]
    first, last = max(pairwise(begun), key=lambda run: run[1] - run[0])
    run = values[first:last]
    low = max(run[0], 1e-9)
    gradual = run[len(run) // 2] > 1.5 * low and run[-1] > 3 * low
    return 4 * (len(begun) - 1) <= len(values) and len({*run}) > max(3, len(run) / 2) and gradual


def has_fractions(column: Sequence[bytes]) -> bool:
    return any(_is_fraction(value) for value in column if value[-1:].isdigit())


def _is_fraction(value: bytes) -> bool:
    try:
        return not float(value.replace(b",", b"")).is_integer()
    except ValueError:  # a time, 10:00:00
        return False
