"""Values that a training gave by `gputel.log` -> rows of its log: one row a step, whether given, printed or both.

A given value comes before the printed one of the same step and name, which is rounded; so does its time, as printed
lines may wait in a buffer. The `line` of a given row is a fraction behind the line printed last before it, which
keeps all rows in the order of time.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from gputel.analysis import columns
from gputel.analysis.stores.assemble import make_log
from gputel.analysis.stores.points import StoredRun, from_rows, number, settings, whole
from gputel.telemetry.errors import DamagedFile
from gputel.telemetry.events import UNREADABLE
from gputel.telemetry.inside import drain, environment

if TYPE_CHECKING:
    import numpy.typing as npt

    from gputel.analysis.logs.log import Log
    from gputel.telemetry.run_folder import Segment

FORMAT = "gputel.log"
STEP_DONE = "gputel_step_done"
"""The tag by which a step without values has a row, too."""
NEAR = 16  # rows on each side in which the one of a printed line without a step is searched
Cell = tuple[int, int, dict[str, float]]  # step, time in ns, values


@dataclass(frozen=True)
class GivenRows:
    """Values from the processes of one segment; the first rank speaks for the run, others keep their number."""

    cells: dict[int | None, list[Cell]] = field(default_factory=dict)
    config: dict[str, float | str] = field(default_factory=dict)
    spans: pl.DataFrame = field(default_factory=lambda: _spans(()))

    def logs(self, name: str, source: str) -> Iterator[Log]:
        """A log for each rank."""
        for at, rank in enumerate(sorted(self.cells, key=lambda rank: (rank is not None, rank or 0))):
            log = _log(StoredRun(name, source, FORMAT, from_rows(self.cells[rank]), self.config))
            named = pl.lit(None if at == 0 else str(rank), dtype=pl.String).alias("rank")
            yield log.with_results(**{table: getattr(log, table).with_columns(named) for table in TABLES})


TABLES = ("records", "evals", "events")


def read(segment: Segment, inside: object = None) -> GivenRows:
    """Reads the rows of all processes; `inside` is what run.json says of the folder in memory."""
    memory = environment.own_folder(inside)
    cells: dict[int | None, list[Cell]] = {}
    config: dict[str, Any] = {}
    spans: list[dict[str, object]] = []
    for path in sorted({segment.path / drain.NAME / file.name for file in files(segment, memory)}):
        rows, wrong = drain.rows(path, memory)
        if wrong:
            warnings.warn(DamagedFile(path, f"{wrong:,} lines", UNREADABLE), stacklevel=2)
        rank = next((_int64(whole(row.get("rank"))) for row in rows if row.get("kind") == "open"), None)
        cells.setdefault(rank, []).extend(_cells(rows))
        for row in rows:
            if row.get("kind") == "config" and isinstance(row.get("settings"), dict):
                config.update(row["settings"])  # type: ignore[call-overload]
        spans += [{"rank": rank, **row} for row in rows if row.get("kind") == "span"]
    ordered = {rank: sorted(some, key=lambda cell: cell[1]) for rank, some in cells.items() if some}
    return GivenRows(ordered, settings(config), _spans(spans))


def files(segment: Segment, memory: Path | None) -> list[Path]:
    """The files of all processes, in the run folder and in memory."""
    folders = [segment.path / drain.NAME, *([memory] if memory else [])]
    return [path for folder in folders for path in environment.files(folder, environment.ROWS)]


def _cells(rows: Sequence[dict[str, object]]) -> Iterator[Cell]:
    for row in rows:
        step, moment, values = whole(row.get("step")), _int64(row.get("ns")), row.get("values", {})
        if step is None or moment is None or not isinstance(values, dict):
            continue
        numbers = {str(name): value for name, cell in values.items() if (value := number(cell)) is not None}
        if row.get("kind") == "log" and numbers:
            yield step, moment, numbers
        elif row.get("kind") == "step":
            yield step, moment, {STEP_DONE: 1.0}


def _int64(value: object) -> int | None:
    """A whole number that 64 bits hold; None of anything else."""
    return value if type(value) is int and abs(value) < 2**63 else None


def _spans(rows: Sequence[dict[str, object]]) -> pl.DataFrame:
    """Name, rank, begin and end of each span."""
    kept = [
        (str(row.get("name")), row["rank"], began, ended)
        for row in rows
        if (began := _int64(row.get("began_ns"))) is not None and (ended := _int64(row.get("ns"))) is not None
    ]
    schema = {"name": pl.String, "rank": pl.Int64, "start": pl.Int64, "end": pl.Int64}
    moments = pl.col("start", "end").cast(pl.Datetime("ns", "UTC"))
    return pl.DataFrame(kept, schema=schema, orient="row").with_columns(moments)


def _log(run: StoredRun) -> Log:
    """The log of one rank, with a record for steps that were only said to be done."""
    log = make_log(run)
    records = log.records
    if STEP_DONE in log.partials.columns:
        done = log.partials.filter(pl.col(STEP_DONE).is_not_null())
        records = pl.concat([records, done], how="diagonal").sort("line")
    records = records.drop(STEP_DONE, strict=False)
    return log.with_results(records=records[columns.in_order(records.columns)])


def sums_of(segments: Sequence[GivenRows]) -> pl.DataFrame:
    """How often each span was timed, and how long they were together; the longest first."""
    frames = [given.spans.filter(pl.col("rank").is_null() | (pl.col("rank") == 0)) for given in segments]
    spans = pl.concat([_spans(()), *frames])
    seconds = (pl.col("end") - pl.col("start")).dt.total_nanoseconds().sum() / 1e9
    sums = spans.group_by("name").agg(count=pl.len().cast(pl.Int64), seconds=seconds)
    return sums.sort("seconds", "name", descending=[True, False])


def merge(log: Log, given: GivenRows, moments: npt.NDArray[np.int64]) -> Log:
    """Adds given rows to a printed log; `moments` are the times of its lines in ns."""
    if not (given.cells or given.config):
        return log
    notes: list[str] = []
    merged = log.with_results(**{name: _fractional(getattr(log, name)) for name in (*TABLES, "partials")})
    merged = merged.with_results(records=merged.records.with_columns(origin=pl.lit("printed")))
    for at, mine in enumerate(given.logs(log.name, log.source)):
        places = _places(mine, moments, at / len(given.cells))
        placed = mine.with_results(**{table: _placed(getattr(mine, table), places) for table in TABLES})
        merged = _with_rank(merged, placed, notes)
    return replace(
        merged,
        format=log.format or FORMAT,
        config={**log.config, **given.config},
        notes=(*log.notes, *notes),
    )


def _with_rank(log: Log, given: Log, notes: list[str]) -> Log:
    records = _records(log.records, given.records, notes)
    return replace(
        log.with_results(
            records=records[columns.in_order(records.columns)],
            evals=_evals(log.evals, given.evals),
            events=_added(log.events, given.events, ["kind", "step"]),
        ),
        sources={**given.sources, **log.sources},
        places=list(dict.fromkeys([*log.places, *records.select("phase", "attempt").rows()])),
        unread=replace(log.unread, loss=None) if "loss" in given.records.columns else log.unread,
    )


def _fractional(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("line").cast(pl.Float64))


def _places(given: Log, moments: npt.NDArray[np.int64], shift: float) -> pl.DataFrame:
    """For each row of a given log its `line` among the printed ones, and its time; `shift` separates ranks."""
    rows = pl.concat([frame.select("line", "time") for frame in (given.records, given.evals)])
    rows = rows.unique("line", keep="first").sort("time", "line")
    before = np.searchsorted(moments, rows["time"].dt.epoch("ns").to_numpy(), side="right")
    rows = rows.with_columns(before=pl.Series(before, dtype=pl.Float64))
    number = pl.int_range(1, pl.len() + 1).over("before") + shift
    return rows.select("line", at="time", place=pl.col("before") + number / (pl.len().over("before") + 2))


def _placed(frame: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """Rows with the lines and the times of their places."""
    placed = frame.join(places, on="line", how="left", maintain_order="left")
    return placed.with_columns(line="place", time=pl.coalesce("time", "at")).select(frame.columns)


def _records(printed: pl.DataFrame, given: pl.DataFrame, notes: list[str]) -> pl.DataFrame:
    """Joins rows of equal steps, of several the nearest in time; appends the others."""
    if printed.is_empty():
        return given.with_columns(origin=pl.lit("api"))
    names = [name for name in given.columns if given.schema[name] == pl.Float64 and name != "line"]
    printed = _numbered(printed, given, [name for name in names if name in printed.columns])
    pairs = _pairs(printed, given)
    own = [*names, "time", "line"]
    values = given[pairs["_given"]].select(pl.col(own).name.prefix("_given_"))
    mine = pl.concat([pairs.select("_printed"), values], how="horizontal")
    rows = printed.with_row_index("_printed").join(mine, on="_printed", how="left", maintain_order="left")
    both = [name for name in names if name in printed.columns]
    notes += [note for name in both if (note := _differences(name, rows))]
    is_given = pl.col("_printed").is_in(pairs["_printed"].implode())
    merged = rows.with_columns(
        origin=pl.when(is_given).then(pl.lit("api")).otherwise("origin"),
        **{name: pl.coalesce(f"_given_{name}", *([name] if name in printed.columns else [])) for name in own},
    ).drop("_printed", *(f"_given_{name}" for name in own))
    single = given.with_row_index("_given").filter(~pl.col("_given").is_in(pairs["_given"].implode()))
    rest = _in_attempts(single.drop("_given"), printed).with_columns(origin=pl.lit("api"))
    return pl.concat([merged, rest], how="diagonal").sort("line", "time", maintain_order=True)


def _numbered(printed: pl.DataFrame, given: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Gives printed rows without a step that of the given row near them which has the same values."""
    rows = given.sort("time").select("time", "step", *names).rows(named=True)
    times = given["time"].sort().dt.epoch("ns").to_list()
    steps = printed["step"].to_list()
    asked = printed.select("time", *names).with_row_index().filter(printed["step"].is_null())
    for row in (
        asked.filter(pl.col("time").is_not_null())
        .with_columns(pl.col("time").dt.epoch("ns"))
        .rows(named=True)
    ):
        at = bisect(times, row["time"])
        near = range(max(at - NEAR, 0), min(at + NEAR, len(rows)))
        same = [each for each in near if _agree(row, rows[each], names)]
        if same:
            nearest = min(same, key=lambda each: abs(times[each] - row["time"]))
            steps[row["index"]] = rows[nearest]["step"]
    return printed.with_columns(pl.Series("step", steps, dtype=pl.Int64))


def _agree(printed: Mapping[str, Any], given: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether all that both have is the same, and something is."""
    both = [(printed[name], given[name]) for name in names if None not in (printed[name], given[name])]
    return bool(both) and all(
        left == right if isinstance(left, str) else _is_rounded(left, right) for left, right in both
    )


def _pairs(printed: pl.DataFrame, given: pl.DataFrame) -> pl.DataFrame:
    """The numbers of rows that belong together, each at most once."""
    left = given.with_row_index("_given").select("_given", "step", "rank", "time")
    right = printed.with_row_index("_printed").select("_printed", "step", "rank", "time")
    gap = (pl.col("time") - pl.col("time_right")).abs()
    strange = pl.col("rank").is_not_null() & ~pl.col("rank").eq_missing(pl.col("rank_right"))
    joined = left.join(right, on="step").filter(~strange).sort(gap, nulls_last=True, maintain_order=True)
    nearest = joined.unique("_given", keep="first", maintain_order=True)
    once = nearest.unique("_printed", keep="first", maintain_order=True)
    return once.select("_given", "_printed").sort("_given")


def _in_attempts(rows: pl.DataFrame, printed: pl.DataFrame) -> pl.DataFrame:
    """Gives rows the phase and the attempt of the record printed last before them, else of the first."""
    timed = printed.filter(pl.col("time").is_not_null()).select("time", "phase", "attempt").sort("time")
    if timed.is_empty() or rows.is_empty():
        return rows
    bare = rows.drop("phase", "attempt").sort("time")
    placed = bare.join_asof(timed, on="time", strategy="backward")
    return placed.with_columns(
        pl.col("phase").fill_null(timed["phase"][0]), pl.col("attempt").fill_null(timed["attempt"][0])
    )


def _differences(name: str, rows: pl.DataFrame) -> str | None:
    """Says how many printed values are not the given ones, rounded."""
    both = rows.select(name, f"_given_{name}").drop_nulls()
    apart = [(printed, mine) for printed, mine in both.iter_rows() if not _is_rounded(printed, mine)]
    if not apart:
        return None
    printed, mine = apart[0]
    return (
        f"{name}: {len(apart):,} of {both.height:,} printed values are not those that gputel.log was given "
        f"(first {printed:g} printed, {mine:g} given); the given ones are shown"
    )


def _is_rounded(printed: float, given: float) -> bool:
    """Whether a printed number may be the given one with fewer digits."""
    if not (math.isfinite(printed) and math.isfinite(given)):
        return repr(printed) == repr(given)
    mantissa, _, exponent = repr(printed).partition("e")
    decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
    return abs(printed - given) <= 0.51 * 10.0**-decimals + 1e-6 * abs(printed)


def _evals(printed: pl.DataFrame, given: pl.DataFrame) -> pl.DataFrame:
    """Evaluations of both; of one step and name the given value."""
    if given.is_empty():
        return printed
    numbered = _numbered(printed, given, ["name", "value"])
    others = numbered.join(given, on=["step", "name"], how="anti", nulls_equal=True)
    return pl.concat([others, given], how="diagonal").sort("line", "time", maintain_order=True)


def _added(printed: pl.DataFrame, given: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """The printed rows, and the given ones that are not among them."""
    others = given.join(printed, on=key, how="anti", nulls_equal=True)
    return pl.concat([printed, others.select(printed.columns)], how="diagonal").sort(
        "line", maintain_order=True
    )
