"""Figures as people read them: three digits, ranges, and large numbers by their first letters."""

from __future__ import annotations

from gputel.analysis.planning.estimate import Estimate

SUFFIXES = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


def number(value: float) -> str:
    """Three digits and more: `0.21`, `12.3`, `1,240`."""
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"


def span(figure: Estimate) -> str:
    """`3.9–5.6`; the value alone where there is no range, or none that shows."""
    low, high = (_short(end) for end in (figure.low, figure.high))
    return low if low == high else f"{low}–{high}"


def _short(value: float) -> str:
    return f"{value / 1000:,.0f}k" if abs(value) >= 9999.5 else number(value)


def large(value: float) -> str:
    """`335.5M`, `12.89B`, `524,288`."""
    for size, suffix in SUFFIXES[:3]:
        if value >= size:
            digits = 1 if value >= 100 * size else 2
            return f"{value / size:.{digits}f}{suffix}"
    return f"{value:,.0f}"


def gib(value: float) -> str:
    """A tenth is more than is known."""
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.1f}"


def dollars(value: float) -> str:
    return f"${value:,.2f}" if value < 10 else f"${value:,.0f}"


def hours(value: float) -> str:
    """`12 min`, `4.5 h`, `3.1 days`."""
    if value < 1:
        return f"{60 * value:.0f} min"
    return f"{value:.1f} h" if value < 48 else f"{value / 24:.1f} days"
