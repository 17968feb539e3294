"""Checks a format against its own samples: the rows that it reads from them must be the rows that they state."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gputel.analysis.logs.formats import Format
    from gputel.analysis.logs.log import Log

_LATEST = datetime(2026, 1, 1, tzinfo=timezone.utc)
_ALWAYS = ("kind", "step")
READ = ("train", "eval")  # roles of which a sample must have a line
_PLACES = ("run", "phase", "attempt", "line", "time")


def check(known: Format) -> list[str]:
    """One line per fault; an empty list if every sample gives its rows."""
    from gputel.analysis.logs import formats

    faults = list(_needles(known))
    together = formats.with_others(known)
    for number, sample in enumerate(known.samples, start=1):
        faults += [f"sample {number}: {fault}" for fault in faults_of(sample, read(sample["text"], together))]
    return [*_unmatched(known), *faults] if faults else []


def _unmatched(known: Format) -> Iterator[str]:
    """Lines of the format that no line of the samples fits, which is why a sample lacks a row."""
    lines = [line.encode() for sample in known.samples for line in sample["text"].splitlines()]
    for pattern in known.patterns:
        if pattern.role in READ and not any(map(pattern.regex.search, lines)):
            yield f"'{pattern.name.rpartition('.')[2]}' fits no line of the samples"


def unread(known: Format) -> list[str]:
    """The lines of its samples, each shape once, that have a number and that no line of the format reads."""
    return unlike([line for sample in known.samples for line in sample["text"].splitlines()], known)


def unlike(lines: Sequence[str], known: Format) -> list[str]:
    """The lines that have a number and that the format does not read, the first one of each shape."""
    from gputel.analysis.logs import formats
    from gputel.analysis.logs.lines import with_bars

    every = formats.patterns(formats.with_others(known))
    shapes: dict[str, str] = {}
    for line in lines:
        if any(map(str.isdigit, line)):
            shapes.setdefault(re.sub(r"\d+", "0", line), line)
    found = shapes.values()
    return [line for line in found if not any(each.regex.search(with_bars(line.encode())) for each in every)]


def _needles(known: Format) -> Iterator[str]:
    """Needles that are not on a line that their pattern matches, so that it is never read."""
    lines = [line.encode() for sample in known.samples for line in sample["text"].splitlines()]
    for pattern in known.patterns:
        lost = next(
            (line for line in lines if pattern.needle not in line and pattern.regex.search(line)), None
        )
        if lost is not None:
            name, needle = pattern.name.rpartition(".")[2], pattern.needle.decode()
            yield f"'{name}' is never read: its needle '{needle}' is not in '{lost.decode()}'"


def compose(lines: Sequence[str], known: Format) -> str:
    """The TOML of a sample of these lines, with the rows that the format reads from them; empty if none."""
    from gputel.analysis.logs import formats, summary

    text = "\n".join(lines)
    log = read(text, formats.with_others(known))
    rows = [row for row in summary.rows(log) if row["kind"] in ("train", "eval")]
    tables = [
        {key: value for key, value in row.items() if key not in _PLACES and _is_plain(value)} for row in rows
    ]
    cells = [
        ", ".join(f"{_key(name)} = {json.dumps(value)}" for name, value in row.items()) for row in tables
    ]
    if not cells:
        return ""
    inline = "".join(f"    {{ {row} }},\n" for row in cells)
    return f"\n[[samples]]\ntext = {json.dumps(text, ensure_ascii=False)}\nrows = [\n{inline}]\n"


def _is_plain(value: object) -> bool:
    """Whether TOML can say it: it has no null."""
    return isinstance(value, (str, int, float))


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def read(text: str, formats: tuple[Format, ...]) -> Log:
    from gputel.analysis.logs import result
    from gputel.analysis.logs.parser import make_parser

    parser = make_parser(formats)
    parser.feed(text.encode())
    parser.finish()
    return result.conclude(parser, "sample", "sample", _LATEST)


def faults_of(sample: Mapping[str, Any], log: Log) -> Iterator[str]:
    """Compares rows in the keys that the sample states; other keys may have any value."""
    from gputel.analysis.logs import summary

    rows = [row for row in summary.rows(log) if row["kind"] in ("train", "eval")]
    wanted = sample.get("rows", [])
    if len(rows) != len(wanted):
        yield f"gives {len(rows)} rows, expected {len(wanted)}"
        return  # each further row would differ
    for at, (row, want) in enumerate(zip(rows, wanted, strict=False), start=1):
        for key in dict.fromkeys((*_ALWAYS, *want)):
            if row.get(key) != want.get(key):
                yield f"row {at}: {key} is {row.get(key)!r}, expected {want.get(key)!r}"
    for key, value in sample.get("config", {}).items():
        if log.config.get(key) != value:
            yield f"config: {key} is {log.config.get(key)!r}, expected {value!r}"
    for reject in log.rejects:
        yield f"line {reject.line} is rejected: {reject.reason}"


def describe(known: Format, faults: list[str]) -> dict[str, Any]:
    """A format and the result of its check, for `gputel formats --json`."""
    return {
        "name": known.name,
        "title": known.title,
        "grammar": known.grammar,
        "lines": {pattern.name.rpartition(".")[2]: pattern.role for pattern in known.patterns},
        "samples": len(known.samples),
        "unread": unread(known),
        "rows": sum(len(sample.get("rows", [])) for sample in known.samples),
        "faults": faults,
    }
