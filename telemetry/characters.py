"""Characters that act or hide: a terminal obeys them, or they reorder or add to a text without being seen.

These are control characters (C0, C1), which begin escape sequences; bidirectional controls; zero-width and other
invisible ones; and surrogates, which cannot be encoded. Text that was read from a file may hold any of them.
"""

from __future__ import annotations

import re
from typing import Any

_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_INVISIBLE = (
    "\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# patterns that `re` compiles when a text first needs them, as few do
_IN_TEXT = f"[\x00-\x08\x0b-\x1f{_INVISIBLE}]"
_IN_LINE = f"[\x00-\x08\x0a-\x1f{_INVISIBLE}]"
_IN_JSON = f"[{_INVISIBLE}]"


def visible(text: str) -> str:
    r"""Text of several lines in which such a character is written as its code: `\x1b`, `\u202e`."""
    return text if text.isascii() and text.isprintable() else re.sub(_IN_TEXT, _code, text)


def visible_line(text: str) -> str:
    r"""Like `visible`, with line feeds as `\x0a`, so that no text adds a line."""
    return text if text.isascii() and text.isprintable() else re.sub(_IN_LINE, _code, text)


def escaped_json(text: str) -> str:
    r"""JSON in which such a character is a `\u` escape, which readers turn back into it."""
    return text if text.isascii() and text.isprintable() else re.sub(_IN_JSON, _json_code, text)


def parse_json(text: bytes) -> Any:
    """JSON whose texts can be encoded again: half of a surrogate pair becomes `?`. ValueError for anything else."""
    import json

    try:
        value = json.loads(text)
        if not _SURROGATE_ESCAPE.search(text):
            return value
        return json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _code(character: re.Match[str]) -> str:
    number = ord(character[0])
    return (
        f"\\x{number:02x}"
        if number < 0x100
        else f"\\u{number:04x}"
        if number < 0x10000
        else f"\\U{number:08x}"
    )


def _json_code(character: re.Match[str]) -> str:
    number = ord(character[0])
    if number < 0x10000:
        return f"\\u{number:04x}"
    high, low = divmod(number - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
