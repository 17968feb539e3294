"""The small part of YAML that tools write for settings: names and plain values, nested by indentation.

Everything else (lists, anchors, blocks of text) is passed over.
"""

from __future__ import annotations

import re

from gputel.analysis.stores.points import setting

LINE = re.compile(r"^( *)([^\s#:][^:]{0,200}?):(?: (.*))?$")
EMPTY = ("", "null", "~", "{}", "[]")


def plain_settings(text: str) -> dict[str, float | str]:
    """Returns the values by their names, joined by dots."""
    flat: dict[str, float | str] = {}
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        match = LINE.match(line.rstrip())
        if not match:
            continue
        indent, name, value = len(match[1]), match[2].strip("'\""), (match[3] or "").strip()
        above = [(depth, word) for depth, word in above if depth < indent]
        path = ".".join([*(word for _, word in above), name])
        if value in EMPTY:
            above.append((indent, name))
            continue
        read = setting(value.strip("'\""))
        if read is not None and not value.startswith(("&", "*", "|", ">", "[", "{")):
            flat[path] = read
    return flat
