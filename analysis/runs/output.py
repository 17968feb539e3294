"""A run folder -> one `Log`: the output of its segments, each line with the time at which it was recorded.

The index of a segment holds the time of each read of the output. A line gets the time of the read that delivered
its last byte; timestamps printed in the line are not used.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.analysis import progress
from gputel.analysis.logs import result
from gputel.analysis.logs.log import Log
from gputel.analysis.logs.outcome import LogEvent, Status
from gputel.analysis.logs.parser import make_parser
from gputel.analysis.logs.patterns import Reject
from gputel.analysis.runs import api_rows
from gputel.telemetry import completeness, run_folder
from gputel.telemetry.errors import DamagedFile, reason
from gputel.telemetry.own_files import is_foreign
from gputel.telemetry.process import output_index

if TYPE_CHECKING:
    from gputel.analysis.logs.formats import Format
    from gputel.telemetry.run_folder import Segment

CTRL_C = 130
SIGNALS = {129: "SIGHUP", CTRL_C: "Ctrl-C", 143: "SIGTERM"}
PIECE = 4 << 20
LARGEST = 1 << 62  # of an index: a damaged record beyond is left out
TABLES = ("records", "evals", "partials", "events")


def read(path: Path, formats: tuple[Format, ...] | None = None) -> Log:
    """Parses the output of all segments of the run folder at `path`."""
    folder = run_folder.open_folder(path)
    facts = [run_folder.readable_facts(segment.path) for segment in folder.segments]
    completeness.warn(folder.segments, facts)
    outputs = [
        (segment.node, _segment(segment, formats, fact.get("inside")))
        for segment, fact in zip(folder.segments, facts, strict=True)
    ]
    logs = [(node, log) for node, log in outputs if log is not None]
    whole = _joined(logs, folder.name, str(path)) if logs else _nothing(folder.name, str(path))
    open_ended = any(not description.get("ended") for description in facts)
    status, cause = ending(whole.status, whole.cause, facts)
    started = [wall for fact in facts if (wall := run_folder.wall_ns(fact, "started")) is not None]
    ended = [wall for fact in facts if (wall := run_folder.wall_ns(fact, "ended")) is not None]
    return replace(
        whole.with_results(status=status, cause=cause),
        started=min(started, default=None),
        ended=None if open_ended else max(ended, default=None),
    )


def ending(
    status: Status, cause: LogEvent | None, facts: Sequence[Mapping[str, Any]]
) -> tuple[Status, LogEvent | None]:
    """Returns how a run ended and why: by what it printed, by what stopped it, and by its exit codes.

    `status` and `cause` are what its log says. What no line says has the line 0.
    Only the last segment of each node counts, and only codes of a command: a recording without one has none.
    """
    last = {description.get("node_rank"): description for description in facts}.values()
    if not all(last):  # a description that cannot be read does not say whether it has ended
        return status, cause
    if any(not description.get("ended") for description in last):
        return ("running" if status == "unknown" else status), cause
    stopped = next((reason for description in last if (reason := description.get("stopped"))), None)
    if stopped:
        return "interrupted", LogEvent("stop", 0, str(stopped.get("text")), fatal="interrupted")
    codes = [
        code for description in last if description.get("argv") and (code := _code(description)) is not None
    ]
    if status == "interrupted" or not codes:
        return status, cause
    if not any(codes):
        return "completed", None
    signals = [code for code in codes if code in SIGNALS]
    if signals and status == "unknown":
        text = f"the command was ended by {SIGNALS[signals[0]]}"
        return "interrupted", LogEvent("stop", 0, text, fatal="interrupted")
    code = next(code for code in codes if code)
    return "failed", cause or LogEvent("", 0, f"the command ended with exit code {code}", fatal="failed")


def _code(description: Mapping[str, Any]) -> int | None:
    code = description.get("exit_code")
    return code if isinstance(code, int) else None


def _segment(segment: Segment, formats: tuple[Format, ...] | None, inside: object) -> Log | None:
    """The log of one segment, printed and given by `gputel.log`; None if it has neither."""
    given = api_rows.read(segment, inside)
    printed = _printed(segment, formats)
    if printed is None and not (given.cells or given.config):
        return None
    log, moments = printed or (_nothing(segment.path.name, str(segment.output)), None)
    if moments is None:
        return api_rows.merge(log, given, np.empty(0, dtype=np.int64))
    walls = moments.fill_null(strategy="forward").fill_null(0).to_numpy()
    return api_rows.merge(_timed(log, moments), given, np.maximum.accumulate(walls[: log.lines]))


def _printed(segment: Segment, formats: tuple[Format, ...] | None) -> tuple[Log, pl.Series | None] | None:
    """The log of one segment's output, and when each of its lines was recorded, if its index says so."""
    if is_foreign(segment.output):
        return None
    parser = make_parser(formats)
    ends: list[npt.NDArray[np.int64]] = []
    position = 0
    try:
        size = segment.output.stat().st_size
        with (
            segment.output.open("rb") as output,
            progress.stage(f"reading {segment.output.name}", size, progress.BYTES) as advance,
        ):
            while piece := output.read(PIECE):
                parser.feed(piece)
                advance(len(piece))
                line_feeds = np.flatnonzero(np.frombuffer(piece, dtype=np.uint8) == ord("\n"))
                ends.append(line_feeds + (position + 1))
                position += len(piece)
    except FileNotFoundError:
        return None
    except OSError as error:
        warnings.warn(DamagedFile(segment.output, reason(error)), stacklevel=2)
        if not position:
            return None
    parser.finish()
    log = result.conclude(parser, segment.path.name, str(segment.output))
    line_ends = np.concatenate([*ends, [position]]).astype(np.int64)
    return log, _moments(segment.index, line_ends)


def _moments(index: Path, line_ends: npt.NDArray[np.int64]) -> pl.Series | None:
    """Returns when each line was recorded; None without an index beside the output."""
    reads = [(wall, end) for wall, end in output_index.read(index) if end < LARGEST and (wall or 0) < LARGEST]
    if not reads:
        return None
    walls = pl.Series([wall for wall, _ in reads], dtype=pl.Int64)
    read_number = np.searchsorted(np.array([end for _, end in reads], dtype=np.int64), line_ends)
    numbers = pl.Series(np.where(read_number < len(reads), read_number, len(reads)))
    return pl.concat([walls, pl.Series([None], dtype=pl.Int64)]).gather(numbers)


def _timed(log: Log, moments: pl.Series) -> Log:
    def timed(frame: pl.DataFrame) -> pl.DataFrame:
        times = moments.gather(frame["line"] - 1).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
        return frame.with_columns(times.alias("time"))

    return log.with_results(**{table: timed(getattr(log, table)) for table in TABLES})


def _joined(logs: list[tuple[str | None, Log]], name: str, source: str) -> Log:
    """Concatenates logs: line numbers go on from segment to segment, attempts within each node."""
    attempts: dict[str | None, dict[str, int]] = {}
    lines = 0
    parts: list[Log] = []
    for node, log in logs:
        last_attempt = attempts.setdefault(node, {})
        before, lines_before = dict(last_attempt), lines
        moved = _moved(log, before, lines_before)
        parts.append(moved if node is None else _of_node(moved, node))
        for phase, attempt in log.places:
            last_attempt[phase] = max(last_attempt.get(phase, 0), before.get(phase, 0) + attempt)
        lines += log.lines or 0
    last = parts[-1]
    return replace(
        last.with_results(**{table: _stacked(parts, table) for table in TABLES}),
        name=name,
        source=source,
        format=next((log.format for log in parts if log.format), None),
        lines=lines,
        config={key: value for log in reversed(parts) for key, value in log.config.items()},
        summary={key: value for log in parts for key, value in log.summary.items()},
        rejects=[reject for log in parts for reject in log.rejects],
        sources={key: value for log in reversed(parts) for key, value in log.sources.items()},
        places=list(dict.fromkeys(place for log in parts for place in log.places)),
        inferred=_inferred([log.inferred for log in parts if log.inferred]),
        learned=next((log.learned for log in parts if log.learned), None),
        composed=any(log.composed for log in parts),
    )


def _inferred(texts: Sequence[str]) -> str | None:
    """The format's line, which counts the lines of one output: formats of other outputs may differ."""
    if len(texts) < 2:
        return next(iter(texts), None)
    return f"{texts[0]} in the first of {len(texts):,} outputs"


def _of_node(log: Log, node: str) -> Log:
    """Adds a column with the node where several recorded, since they print the same steps."""
    named = pl.lit(node).alias("node")
    return log.with_results(**{table: getattr(log, table).with_columns(named) for table in TABLES})


def _stacked(parts: list[Log], table: str) -> Any:
    return pl.concat([getattr(log, table) for log in parts], how="diagonal_relaxed")


def _moved(log: Log, attempts: dict[str, int], lines: int) -> Log:
    """Shifts the line numbers and attempts of a log that continues another."""
    if not (attempts or lines):
        return log

    def shift(frame: pl.DataFrame) -> pl.DataFrame:
        shifted = frame.with_columns(pl.col("line") + lines)
        if "attempt" not in frame.columns or not attempts:
            return shifted
        before = pl.col("phase").replace_strict(attempts, default=0, return_dtype=pl.Int64)
        return shifted.with_columns(pl.col("attempt") + before)

    cause = log.cause and LogEvent(**{**vars(log.cause), "line": log.cause.line + lines})
    return replace(
        log.with_results(**{table: shift(getattr(log, table)) for table in TABLES}, cause=cause),
        rejects=[Reject(reject.line + lines, reject.pattern, reject.reason) for reject in log.rejects],
        places=[(phase, attempt + attempts.get(phase, 0)) for phase, attempt in log.places],
    )


def _nothing(name: str, source: str) -> Log:
    parser = make_parser()
    parser.finish()
    return result.conclude(parser, name, source)
