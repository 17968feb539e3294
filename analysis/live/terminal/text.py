"""Text for a terminal: short times, clean log text, lines of an exact width."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import accumulate

from rich.cells import cell_len, set_cell_size
from rich.text import Span, Text

BRAILLE = range(0x2800, 0x2900)
DENSITY = " ..::****"  # by the dots of a braille cell
PLAIN = {
    **dict(zip("▁▂▃▄▅▆▇█", "_.-=+*%#", strict=True)),
    **dict(zip("━●▲△✓×·…°–∞", "=o!^+x-~ -8", strict=True)),
}
WITHOUT_UNICODE = ("linux", "vt100", "vt102", "vt220", "cons25", "dumb")


def moment(at: datetime, now: datetime) -> str:
    """A time in the local zone, with the day if it is not today."""
    here, today = at.astimezone(), now.astimezone()
    return f"{here:%H:%M}" if here.date() == today.date() else f"{here:%a %d %b %H:%M}"


def clock(at: datetime) -> str:
    """A time of day in the local zone, with seconds."""
    return f"{at.astimezone():%H:%M:%S}"


def event_time(time: object) -> datetime | None:
    """The time of an event: a datetime from a log, text from a recorder's file, None if there is none."""
    if isinstance(time, datetime):
        return time
    try:
        return datetime.fromisoformat(f"{str(time)[:19]}+00:00")
    except ValueError:
        return None


def clean(words: object) -> str:
    """Text without control characters; a log may contain escape sequences that the terminal would obey."""
    return "".join(character if character.isprintable() else " " for character in str(words)).strip()


def shortened(words: str, width: int) -> str:
    """Cuts the middle out of long text, since names of runs often differ at their ends."""
    if cell_len(words) <= width:
        return words
    after = max(width - 1, 0) // 2
    end = words[len(words) - after :]
    while cell_len(end) > after:
        end = end[1:]
    return f"{set_cell_size(words, max(width - 1 - cell_len(end), 0))}…{end}"


def line(*parts: str | Text | tuple[str, str]) -> Text:
    return Text.assemble(*parts, end="", no_wrap=True)


def fit(text: Text, width: int) -> Text:
    """Cuts or pads text to an exact width."""
    text = text.copy()
    text.truncate(width, overflow="ellipsis", pad=True)
    return text


def flow(chips: list[Text], width: int, between: str = "  ") -> list[Text]:
    """Puts short texts one after the other, on as many lines as they need."""
    lines: list[Text] = []
    for chip in chips:
        if lines and lines[-1].cell_len + len(between) + chip.cell_len <= width:
            lines[-1].append(between).append_text(chip)
        else:
            lines.append(chip.copy())
    return [fit(line, width) for line in lines]


def has_unicode(environment: Mapping[str, str]) -> bool:
    """Whether a terminal draws more than ASCII, by its TERM and the locale; an unset locale says nothing."""
    if environment.get("TERM", "").partition("-")[0] in WITHOUT_UNICODE:
        return False
    names = (environment.get(name, "") for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    locale = next((name for name in names if name), "UTF-8").upper().replace("-", "")
    return "UTF8" in locale


def in_ascii(text: Text) -> Text:
    """The same line in ASCII, as wide as before and with its styles."""
    pieces = [_ascii(character) for character in text.plain]
    offsets = [0, *accumulate(map(len, pieces))]
    spans = [Span(offsets[start], offsets[min(end, len(pieces))], style) for start, end, style in text.spans]
    return Text("".join(pieces), text.style, end=text.end, no_wrap=text.no_wrap, spans=spans)


def _ascii(character: str) -> str:
    if character.isascii():
        return character
    if ord(character) in BRAILLE:
        return DENSITY[(ord(character) - BRAILLE.start).bit_count()]
    return PLAIN.get(character, "?" * cell_len(character))
