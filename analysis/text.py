"""Numbers and quantities as text, one function each, for terminals, pages, notebooks, tables and live views.

`render/assets/words.js` writes durations and energies by the same rules; a test holds the two together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta, timezone

from gputel.telemetry.clock import iso

LETTERS = ((1e12, "T"), (1e9, "B"), (1e6, "M"))
DURATIONS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
JOULES_PER_KWH = 3_600_000
MIB_PER_GIB = 1024
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MOMENTS, SECONDS = "%Y-%m-%dT%H:%M:%S%.9fZ", "%Y-%m-%d %H:%M:%S"
"""How polars formats whole columns in the forms of `moment` and of `to_the_second`."""
NUMERIC = re.compile(
    r"[-+]?(?:\d{1,3}(?:_\d{3}){1,10}|\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,3})?"
)
"""A number that a tool kept as text."""
FEW = 5
EVENTS = {
    "clock": "clock set",
    "eval": "evaluation",
    "gpu_back": "GPU back",
    "gpu_lost": "GPU lost",
    "gpu_refused": "GPU refused",
    "nan": "NaN",
    "nccl": "NCCL error",
    "oom": "out of memory",
    "overhead": "driver calls over budget",
    "push": "pushing",
    "rate": "new rate",
    "sync": "object storage",
    "train": "training",
    "unknown_rate": "no rate",
    "unseen": "not seen",
    "xid": "Xid",
}
FEW_TENTHS = 3.55  # below this, an error has two digits: 0.14 and 0.3, 0.35 and 0.4


def number(value: float, decimals: int | None = None) -> str:
    """Formats `2.4179`, `1,234.5`, `512,340`: four decimals below a thousand; tiny values keep their digits."""
    if isinstance(value, int) and decimals is None:
        return f"{value:,}"
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    size = abs(value)
    if size >= 1e15 or (value and size < 10 ** -min(2 if decimals is None else decimals, 2)):
        return f"{value:.4g}"
    if decimals is None:
        decimals = 4 if size < 1000 else 1 if size < 10_000 else 0
    return f"{value:,.{decimals}f}"


def short(value: float, digits: int = 3, decimals: int | None = None) -> str:
    """Formats `0.21`, `12.3`, `1,240`: `digits` significant digits, and never fewer than the integer part has."""
    if isinstance(value, int) or not math.isfinite(value):
        return number(value)
    if abs(value) >= 1e9:
        return count(value)
    before = int(f"{value:.{digits - 1}e}".partition("e")[2])
    most = digits - 1 if decimals is None else decimals
    return number(value, min(max(digits - 1 - before, 0), most))


def with_error(value: float, error: float | None, decimals: int, unit: str = "") -> str:
    """Formats `431,300 ±1,200 tok/s`: as many digits as the error leaves.

    An error that `decimals` do not show is left out.
    """
    behind = f" {unit}" if unit else ""
    if error is None or not math.isfinite(error) or error < 0.5 * 10**-decimals:
        return number(value, decimals) + behind
    exponent = math.floor(math.log10(error))
    digits = 2 if error / 10.0**exponent < FEW_TENTHS else 1
    places = min(digits - 1 - exponent, decimals)
    texts = (f"{round(part, places) + 0.0:,.{max(places, 0)}f}" for part in (value, error))  # -0.0 + 0.0 is 0
    return " ±".join(texts) + behind


def count_with_error(value: float, error: float | None = None) -> str:
    """Formats `524,288`, `335.5M`, `129.3M ±1.1M`."""
    return f"{count(value)} ±{count(float(f'{error:.2g}'))}" if error else count(value)


def four_digits(value: float, error: float | None = None) -> str:
    """Formats `0.04302`, `0.000549 ±0.000012`: four significant digits, fewer where the error leaves fewer."""
    if not value or error is None or not math.isfinite(value):
        return f"{value:.4g}"
    return with_error(value, error, max(0, 3 - math.floor(math.log10(abs(value)))))


def span(low: float, high: float, form: Callable[[float], str] = short) -> str:
    """Formats a range, `3.9–5.6` or `12k–15k`; a single value if both ends read the same."""
    texts = [f"{end / 1000:,.0f}k" if abs(end) >= 9999.5 else form(end) for end in (low, high)]
    return texts[0] if texts[0] == texts[1] else "–".join(texts)


def percent(share: float, error: float | None = None) -> str:
    """Formats `67 %`, `46 ±24 %`: whole percents."""
    return f"{share:.0f} %" if error is None else with_error(round(share), error, 0, "%")


def difference(value: float) -> str:
    """Formats `-0.0120`: four decimals, without a minus before zero."""
    return f"{round(value, 4) + 0.0:.4f}"


def count(value: float) -> str:
    """Formats `524,288`, `335.5M`, `6.7B`, `1.35e+19`: four digits from a million on."""
    if not math.isfinite(value):
        return number(value)
    if abs(value) < 1000:
        return f"{value:.4g}"
    rounded = float(f"{value:.4g}")
    for size, letter in LETTERS:
        if abs(rounded) >= 1e15:
            return f"{value:.3g}"
        if abs(rounded) >= size:
            return f"{rounded / size:.4g}{letter}"
    return f"{value:,.0f}"


def counted(count: int, thing: str) -> str:
    """Formats `1 log`, `1,200 logs`."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def step(value: float) -> str:
    """Formats `12,431`."""
    return f"{value:,.0f}"


def duration(seconds: float, decimals: int = 1, error: float | None = None) -> str:
    """Formats `350 ms`, `4.2 s`, `3 min 20 s ±2 s`, `1 h 02 min`, `2 d 03 h`: rounded to the last unit shown.

    `decimals` applies to seconds; milliseconds have two fewer. An error below these digits is left out.
    """
    if seconds < 0:
        return f"−{duration(-seconds, decimals)}"
    fewer = max(decimals - 2, 0)
    if seconds > 0 and round(1000 * seconds, fewer) < 1000:
        return (
            with_error(1000 * seconds, 1000 * error, fewer, "ms")
            if error
            else f"{1000 * seconds:.{fewer}f} ms"
        )
    if round(seconds, decimals) < 60:
        return with_error(seconds, error, decimals, "s") if error else f"{seconds:.{decimals}f} s"
    for size, unit, small, part in DURATIONS:
        parts = round(seconds / small)
        if parts * small >= size:
            shown = f"{parts * small // size:,} {unit} {parts * small % size // small:02d} {part}"
            if not error or error < small / 2:
                return shown
            return f"{shown} ±{f'{error:.1f} s' if error < 1 else duration(error, 0)}"
    return "1 min 00 s"


def energy(joules: float, error: float | None = None) -> str:
    """Formats `12.5 mJ`, `771.2 J`, `16.3 ±0.4 kJ`, `1.25 kWh`: kJ from ten thousand joules, kWh from 3.6 MJ on."""
    if 0 < abs(joules) < 0.9995:
        return f"{short(1000 * joules)} mJ"
    if round(abs(joules), 1) < 10_000:
        return with_error(joules, error, 1, "J")
    if round(abs(joules) / 1000, 1) < 3600:
        return with_error(joules / 1000, error and error / 1000, 1, "kJ")
    return with_error(joules / JOULES_PER_KWH, error and error / JOULES_PER_KWH, 2, "kWh")


def size(count: float) -> str:
    """Formats a number of bytes: `812 B`, `3.1 MiB`, `20.7 GiB`."""
    for unit in SIZES[:-1]:
        decimals = 0 if unit == "B" else 1
        if round(count, decimals) < 1024:
            return f"{count:.{decimals}f} {unit}"
        count /= 1024
    return f"{count:,.1f} {SIZES[-1]}"


def mebibytes(count: float) -> str:
    """Formats a number of MiB: `812.0 KiB`, `20.7 GiB`."""
    return size(count * 2**20)


def money(dollars: float, error: float | None = None) -> str:
    """Formats `$0.012`, `$12.50`, `$12.5 ±0.3`, `$1,235`: cents below a thousand dollars."""
    if 0 < abs(dollars) < 0.1:
        return f"${dollars:.2g}"
    return f"${with_error(dollars, error, 2 if round(abs(dollars), 2) < 1000 else 0)}"


def moment(at: int | datetime) -> str:
    """Formats nanoseconds since 1970, or an aware datetime, as ISO 8601 in UTC with nine digits and `Z`."""
    return iso(at if isinstance(at, int) else (at - EPOCH) // timedelta(microseconds=1) * 1000)


def to_the_second(at: int | datetime | str) -> str:
    """Formats `2025-11-21 04:40:05`, in UTC: a moment, or what `moment` made of one, for people."""
    return (at if isinstance(at, str) else moment(at))[:19].replace("T", " ")


def event(kind: str) -> str:
    """Names a kind of event as people do; one without an entry is its own name, with spaces."""
    return EVENTS.get(kind, kind.replace("_", " "))


def events(counts: Mapping[str, int]) -> str:
    """Formats the number of events of each kind: `2 x checkpoint, 8 x evaluation`."""
    return ", ".join(f"{count:,} x {event(kind)}" for kind, count in counts.items())


def names(runs: Iterable[str]) -> str:
    """Joins the first five names and counts the rest: `a, b, c, d, e and 3 more`."""
    listed = list(runs)
    return ", ".join(listed[:FEW]) + (f" and {len(listed) - FEW} more" if len(listed) > FEW else "")
