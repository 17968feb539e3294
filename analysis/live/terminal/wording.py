"""Numbers, times and the words of others, in as few characters as can be read."""

from __future__ import annotations

import math
from datetime import datetime

from rich.cells import cell_len, set_cell_size
from rich.text import Text

DAY_S = 86_400


def number(value: float) -> str:
    """`2.4179`, `512,340`, `1.2e-05`: about five digits."""
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    size = abs(value)
    if not size:
        return "0"
    if size >= 1e9 or 0 < size < 1e-3:
        return f"{value:.3g}"
    if size >= 10_000 or (value.is_integer() and size >= 100):
        return f"{value:,.0f}"
    digits = 4 if size < 10 else 2 if size < 1000 else 1
    return f"{value:.{digits}f}"


def lasting(seconds: float) -> str:
    """`4.2 s`, `3 min 20 s`, `7 h 05 min`, `2 d 03 h`."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < DAY_S:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // DAY_S} d {whole % DAY_S // 3600:02d} h"


def moment(at: datetime, now: datetime) -> str:
    """In the zone of whoever looks; with its day where that is another one."""
    here, today = at.astimezone(), now.astimezone()
    return f"{here:%H:%M}" if here.date() == today.date() else f"{here:%a %d %b %H:%M}"


def clock(at: datetime) -> str:
    return f"{at.astimezone():%H:%M:%S}"


def stamped(time: object) -> datetime | None:
    """Of a log it is a moment, of a recorder's file text."""
    if isinstance(time, datetime):
        return time
    try:
        return datetime.fromisoformat(f"{str(time)[:19]}+00:00")
    except ValueError:
        return None


def clean(words: object) -> str:
    """What a log says may hold anything, also what a terminal would obey."""
    return "".join(character if character.isprintable() else " " for character in str(words)).strip()


def elided(words: str, width: int) -> str:
    """Without its middle where it is too long: names of runs differ at their ends as often as not."""
    if cell_len(words) <= width:
        return words
    after = max(width - 1, 0) // 2
    end = words[len(words) - after :]
    while cell_len(end) > after:
        end = end[1:]
    return f"{set_cell_size(words, max(width - 1 - cell_len(end), 0))}…{end}"


def line(*parts: str | Text | tuple[str, str]) -> Text:
    return Text.assemble(*parts, end="", no_wrap=True)


def fitted(text: Text, width: int) -> Text:
    """As wide as that, neither more nor less."""
    text = text.copy()
    text.truncate(width, overflow="ellipsis", pad=True)
    return text


def flowed(chips: list[Text], width: int, between: str = "  ") -> list[Text]:
    """Short texts, one after the other, on as many lines as they need."""
    lines: list[Text] = []
    for chip in chips:
        if lines and lines[-1].cell_len + len(between) + chip.cell_len <= width:
            lines[-1].append(between).append_text(chip)
        else:
            lines.append(chip.copy())
    return [fitted(line, width) for line in lines]
