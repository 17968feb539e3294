"""Numbers of a comparison as people read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

Form: TypeAlias = "Callable[[float], str]"
LARGE = ((1e15, "e"), (1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))
UNITS = {"tokens": "tokens", "flops": "FLOPs"}
FEW = 5
SECONDS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def metric(value: float) -> str:
    """Losses to four decimals; what is small by its digits, what is large without them."""
    if value and abs(value) < 0.01:
        return f"{value:.4g}"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4f}"


def difference(value: float) -> str:
    """To four decimals, and no minus before a zero."""
    return f"{round(value, 4) + 0.0:.4f}"


def whole(value: float) -> str:
    return f"{value:,.0f}"


def large(value: float) -> str:
    """`6.71B`, `335.5M`, `1.35e+19`: four digits."""
    for size, letter in LARGE:
        if abs(value) >= size:
            return f"{value:.3g}" if letter == "e" else f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def joules(value: float) -> str:
    for size, unit in ((1e9, "GJ"), (1e6, "MJ"), (1e3, "kJ")):
        if abs(value) >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value:.4g} J"


def duration(seconds: float) -> str:
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    for size, unit, small, part in SECONDS:
        parts = round(seconds / small)
        if parts * small >= size:
            return f"{parts * small // size} {unit} {parts * small % size // small:02d} {part}"
    return f"{seconds:.1f} s"


def minutes(seconds: float) -> str:
    return f"{seconds / 60:g} min"


def dollars(value: float) -> str:
    return f"${value:,.2f}" if value >= 0.1 or value == 0 else f"${value:.2g}"


def place(axis: str, x: float) -> str:
    """`step 12,431`, `6.518B tokens`, `4 h 19 min`."""
    told = AMOUNTS[axis](x)
    return f"step {told}" if axis == "step" else f"{told} {UNITS.get(axis, '')}".rstrip()


def names(runs: Iterable[str]) -> str:
    """Five of them, and how many more."""
    every = list(runs)
    return ", ".join(every[:FEW]) + (f" and {len(every) - FEW} more" if len(every) > FEW else "")


def digits(places: int, unit: str = "") -> Form:
    return lambda value: f"{value:,.{places}f}{unit}"


POINTS: Mapping[str, Form] = {
    "step": whole, "tokens": large, "time": minutes, "flops": large, "energy": joules, "cost": dollars,
}  # fmt: skip
AMOUNTS: Mapping[str, Form] = {**POINTS, "time": duration}
