"""A format held against its own samples: what it reads from them, and where that is not what they must give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gputel.analysis.logs.formats import Format
    from gputel.analysis.logs.log import Log

_THEN = datetime(2026, 1, 1, tzinfo=timezone.utc)
_ALWAYS = ("kind", "step")


def check(known: Format) -> list[str]:
    """A line per fault; none where every sample gives its rows."""
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
    return result.conclude(parser, "sample", "sample", _THEN)


def faults_of(sample: Mapping[str, Any], log: Log) -> Iterator[str]:
    """Rows are compared in the keys that the sample names; a key that it does not name may be anything."""
    from gputel.analysis.logs import summary

    rows = [row for row in summary.rows(log) if row["kind"] in ("train", "eval")]
    wanted = sample.get("rows", [])
    if len(rows) != len(wanted):
        yield f"gives {len(rows)} rows, and must give {len(wanted)}"
    for at, (row, want) in enumerate(zip(rows, wanted, strict=False), start=1):
        for key in dict.fromkeys((*_ALWAYS, *want)):
            if row.get(key) != want.get(key):
                yield f"row {at}: {key} is {row.get(key)!r}, and must be {want.get(key)!r}"
    for key, value in sample.get("config", {}).items():
        if log.config.get(key) != value:
            yield f"config: {key} is {log.config.get(key)!r}, and must be {value!r}"
    for reject in log.rejects:
        yield f"line {reject.line} is rejected: {reject.reason}"


def describe(known: Format, faults: list[str]) -> dict[str, Any]:
    """What a format says of itself."""
    return {
        "name": known.name,
        "title": known.title,
        "grammar": known.grammar,
        "lines": {pattern.name.rpartition(".")[2]: pattern.role for pattern in known.patterns},
        "samples": len(known.samples),
        "rows": sum(len(sample.get("rows", [])) for sample in known.samples),
        "faults": faults,
    }
