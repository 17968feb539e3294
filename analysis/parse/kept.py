"""A `Log` and its figures as parts in the cache, and back; its tables are read when they are asked for.

The key says which files the log was read from, as they were then, in which formats, and with which parser.
"""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputel.analysis import cache
from gputel.analysis.logs import KEPT
from gputel.analysis.parse.log import Log
from gputel.analysis.parse.outcome import Event
from gputel.analysis.parse.patterns import Field, Reject

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.formats import Format

TABLES = ("records", "evals", "partials", "events")
SETTLED_S = 2  # a file may change twice within one tick of its stamps
_HOME = Path(__file__).parents[1]
_PLAIN = (
    "name", "format", "lines", "config", "summary", "status", "inferred", "learned", "composed",
    "started", "ended", "formats",
)  # fmt: skip


def key(path: Path, formats: tuple[Format, ...] | None) -> str | None:
    """None where nothing is kept: of what is no file, and of what was written just now."""
    try:
        files = sorted(_files(path))
    except OSError:
        return None
    if not files or any(time.time_ns() - changed < SETTLED_S * 10**9 for *_, changed in files):
        return None
    digests = None if formats is None else [known.digest for known in formats]
    return cache.key(str(path.absolute()), files, digests, _parser())


def find(key: str, source: str, afresh: Callable[[], Log]) -> Log | None:
    """`source` is how the log is named now; `afresh` reads it where one of its tables turns out to be torn."""
    entry = cache.find(KEPT, key)
    held = entry and entry.part("log")
    if not entry or not held:
        return None
    said = json.loads(held)
    plain: dict[str, Any] = {one: said[one] for one in _PLAIN}
    log = Log(
        **plain,
        source=source,
        cause=said["cause"] and Event(**said["cause"]),
        rejects=[Reject(*reject) for reject in said["rejects"]],
        sources={one: _field(what) for one, what in said["sources"].items()},
        places=[(phase, attempt) for phase, attempt in said["places"]],
        records=_later(entry, "records", afresh),
        evals=_later(entry, "evals", afresh),
        partials=_later(entry, "partials", afresh),
        events=_later(entry, "events", afresh),
    )
    vars(log)["figures"] = {**said["figures"], "source": source}
    return log


def keep(key: str, log: Log) -> None:
    """Nothing is kept of a log that is still written, could not be read to its end, or holds readings of GPUs."""
    if log.status == "running" or log.fault or log.telemetry:
        return
    from gputel.analysis.parse import summary

    said = {
        **{one: getattr(log, one) for one in _PLAIN},
        "cause": log.cause and asdict(log.cause),
        "rejects": [[reject.line, reject.pattern, reject.reason] for reject in log.rejects],
        "sources": {one: _told(what) for one, what in log.sources.items()},
        "places": log.places,
        "figures": summary.run(log),
    }
    tables = {table: _bytes(getattr(log, table)) for table in TABLES}
    cache.keep(KEPT, key, {"log": json.dumps(said).encode(), **tables})


def _files(path: Path) -> Iterator[tuple[str, int, int, int, int]]:
    """The log, or what a run folder holds beside samples of GPUs."""
    if path.is_file():
        yield _facts(path)
    for home, folders, names in os.walk(path):
        folders[:] = [folder for folder in folders if folder != "gpu"]
        yield from (_facts(Path(home, name)) for name in names)


def _facts(path: Path) -> tuple[str, int, int, int, int]:
    facts = path.stat()
    return str(path.name), facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


@lru_cache(maxsize=1)
def _parser() -> list[tuple[str, int, int]]:
    """The parser's own files: another version reads otherwise."""
    files = sorted(path for path in _HOME.rglob("*") if path.suffix in (".py", ".toml"))
    facts = [(path, path.stat()) for path in files]
    return [(str(path.relative_to(_HOME)), fact.st_size, fact.st_mtime_ns) for path, fact in facts]


def _later(entry: cache.Entry, table: str, afresh: Callable[[], Log]) -> Callable[[], pl.DataFrame]:
    def read() -> pl.DataFrame:
        import polars as pl

        held = entry.part(table)
        if held is None:
            frame: pl.DataFrame = getattr(afresh(), table)
            return frame
        return pl.read_ipc(io.BytesIO(held), use_pyarrow=False)

    return read


def _bytes(frame: pl.DataFrame) -> bytes:
    held = io.BytesIO()
    frame.write_ipc(held, compression="uncompressed")
    return held.getvalue()


def _told(what: Field) -> dict[str, Any]:
    return {**asdict(what), "nulls": sorted(null.decode("latin-1") for null in what.nulls)}


def _field(said: dict[str, Any]) -> Field:
    return Field(**{**said, "nulls": frozenset(null.encode("latin-1") for null in said["nulls"])})
