"""Units of time and of counts: what one of each is in the unit that a column is kept in."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.logs import values
from gputel.analysis.logs.log import Log

NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
COUNTS = {"k": 10**3, "M": 10**6, "B": 10**9, "G": 10**9, "T": 10**12}
SPELT = {
    "d": ("d", "day", "days"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "min": ("m", "min", "mins", "minute", "minutes"),
    "s": ("s", "sec", "secs", "second", "seconds"),
}


def one(scale: values.Scale) -> Fraction:
    return Fraction(10) ** scale.shift * scale.times / scale.over


@pytest.mark.parametrize("kept", ["ms", "min"])
def test_unit_of_time_is_so_many_milliseconds_or_minutes(kept: str) -> None:
    assert {unit: one(scale) for unit, scale in values.CANONICAL[kept].items()} == {
        unit: Fraction(size, NANOSECONDS[kept]) for unit, size in NANOSECONDS.items()
    }


def test_letter_behind_a_count_is_a_power_of_a_thousand() -> None:
    assert {unit: one(scale) for unit, scale in values.COUNTS.items()} == COUNTS


@pytest.mark.parametrize("unit", SPELT)
def test_duration_has_the_same_length_however_its_unit_is_spelt(
    unit: str, rows: Callable[..., list[tuple[Any, ...]]]
) -> None:
    """In a log, and spelt out beside another unit."""
    milliseconds = NANOSECONDS[unit] // NANOSECONDS["ms"]
    for word in SPELT[unit]:
        log = "".join(f"it={i} nll {9 / (i + 1):.4f} step_time 2 {word}\n" for i in range(20))
        assert rows(log, "dt_ms") == [(2 * milliseconds,)] * 20, word
        if unit != "s":
            assert values.seconds(f"3{word} 4s".encode()) == 3 * milliseconds / 1000 + 4, word


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2 days, 0:00:00", 172_800),
        ("1 day, 2:03:04", 93_784),
        ("1:00:00", 3_600),
        ("25:00:00", 90_000),
        ("59:59", 3_599),
        ("1d 2h 3m", 93_780),
        ("0h  2min  3s 500ms", 123.5),
        ("1h 10min  4s   5ms", 4_204.005),
        ("3s 250ms", 3.25),
    ],
)
def test_clock_is_so_many_seconds(
    text: str, seconds: float, rows: Callable[..., list[tuple[Any, ...]]]
) -> None:
    assert values.seconds(text.encode()) == seconds
    log = "".join(f"it={i} nll {9 / (i + 1):.4f} eta {text}\n" for i in range(20))
    assert rows(log, "eta_min") == [(seconds / 60,)] * 20


@given(st.from_regex(rb"[-+]?[\d,:.e+ msdhkBW%/nainf-]{0,40}", fullmatch=True), st.booleans())
def test_value_whose_like_was_split_before_is_split_as_if_it_were_the_first(value: bytes, last: bool) -> None:
    values.split(value.translate(bytes.maketrans(b"123456789", b"987654321")), last)
    assert values.split(value, last) == values._split(value, last)


@pytest.mark.parametrize("exponent", ["400", "-400"])
def test_number_beyond_every_float_stops_no_reading(exponent: str, read: Callable[[str], Log]) -> None:
    log = read("".join(f"step {n}: loss {4 / n:.4f}e{exponent} lr 0.1\n" for n in range(1, 6)))
    assert log.records["loss"].to_list() == [float(f"1e{exponent}")] * 5
