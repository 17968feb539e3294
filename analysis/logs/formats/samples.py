"""Checks a format against its own samples: the rows that it reads from them must be the rows that they state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gputel.analysis.logs.formats import Format
    from gputel.analysis.logs.log import Log

_LATEST = datetime(2026, 1, 1, tzinfo=timezone.utc)
_ALWAYS = ("kind", "step")


def check(known: Format) -> list[str]:
    """One line per fault; an empty list if every sample gives its rows."""
    faults = []
    for number, sample in enumerate(known.samples, start=1):
        faults += [f"sample {number}: {fault}" for fault in faults_of(sample, read(sample["text"], (known,)))]
    return faults


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
        "rows": sum(len(sample.get("rows", [])) for sample in known.samples),
        "faults": faults,
    }
