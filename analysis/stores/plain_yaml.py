"""The small part of YAML that tools write for settings: names and plain values, nested by indentation.

Everything else (lists, anchors, blocks of text) is passed over.
"""

from __future__ import annotations

import re
from pathlib import Path

from gputel.analysis.stores.points import setting
from gputel.telemetry.own_files import read_own

LINE = re.compile(r"^( *)([^\s#:][^:]{0,200}?):(?: (.*))?$")
EMPTY = ("", "null", "~", "{}", "[]")
BESIDE = ("hparams.yaml", "args.yaml", "hyp.yaml", "opt.yaml")  # Lightning's, and YOLO's
LARGEST = 1 << 20


def settings_beside(folder: Path) -> dict[str, float | str]:
    """What Lightning and YOLO write of a run's settings beside its metrics; nothing where they did not."""
    found: dict[str, float | str] = {}
    for name in BESIDE:
        try:
            found |= plain_settings(read_own(folder / name, LARGEST).decode(errors="replace"))
        except OSError:
            continue
    return found


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
        if read is not None and not value.startswith(("&", "*", "!", "|", ">", "[", "{")):
            flat[path] = read
    return flat
