"""Times and the words of others, in as few characters as can be read."""

from __future__ import annotations

from datetime import datetime

from rich.cells import cell_len, set_cell_size
from rich.text import Text


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
