"""A run folder -> Recording: the frames of all its segments and nodes as one run.

Frames are read when they are first used, so opening reads only the descriptions. A run may be opened while it is
still being written, and after a crash.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gputel.telemetry import completeness, events, run_folder

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.logs.log import Log

    Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)


def open_recording(path: str | Path) -> Recording:
    """Opens the run folder at `path`; raises GputelError if there is none."""
    return Recording(run_folder.open_folder(Path(path)))


class Recording:
    """A recorded run. `gpu`: a row per tick and GPU; `gpu_1s`: whole seconds; `steps`, `evals`: from the output."""

    def __init__(self, folder: run_folder.RunFolder) -> None:
        self.folder = folder
        self.path = folder.path
        self.descriptions: list[dict[str, Any]] = [
            run_folder.readable_facts(segment.path) for segment in folder.segments
        ]
        self._seconds: dict[str, pl.DataFrame] = {}
        completeness.warn(folder.segments, self.descriptions)

    def __repr__(self) -> str:
        return f"<run {self.name!r}: {len(self.folder.segments)} segments, {self.path}>"

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def log(self) -> Log:
        """The parsed output of the command; without rows if it printed nothing."""
        from gputel.analysis.runs import output

        return output.read(self.path)

    @property
    def steps(self) -> pl.DataFrame:
        """One row per step of each phase."""
        return self.log.steps

    @property
    def evals(self) -> pl.DataFrame:
        return self.log.evals

    @property
    def simulated(self) -> str | None:
        """Names the simulated machine, if any part of the run was simulated; every picture must then say so."""
        return next(
            (str(machine) for facts in self.descriptions if (machine := facts.get("simulated"))), None
        )

    @cached_property
    def gpu(self) -> pl.DataFrame:
        from gputel.telemetry.store import frames

        return self._together(frames.ticks)

    @cached_property
    def gpu_1s(self) -> pl.DataFrame:
        from gputel.telemetry.store import frames

        return self._together(frames.seconds)

    def scan(self, table: str = "gpu") -> pl.LazyFrame:
        """The ticks of a table; without rows if it was not recorded."""
        import polars as pl

        from gputel.telemetry.store import frames

        if table == "gpu":
            return pl.concat(list(self._each(frames.scan)), how="diagonal_relaxed")
        from gputel.analysis.runs import scan

        whole = scan.scan([self.path], table).drop("run", "simulated")
        return whole.select(pl.exclude("node"), "node") if self._several_nodes else whole.drop("node")

    @property
    def host(self) -> pl.DataFrame:
        """A row a second: the whole machine."""
        return self.seconds("host")

    @property
    def cores(self) -> pl.DataFrame:
        return self.seconds("core")

    @property
    def disks(self) -> pl.DataFrame:
        return self.seconds("disk")

    @property
    def networks(self) -> pl.DataFrame:
        return self.seconds("net")

    @property
    def cgroups(self) -> pl.DataFrame:
        return self.seconds("cgroup")

    @property
    def processes(self) -> pl.DataFrame:
        """A row a second and process of the command that did something in it."""
        return self.seconds("process")

    @cached_property
    def inside(self) -> pl.DataFrame:
        """A row a step and process of the command, as `--inside steps` recorded them."""
        import polars as pl

        from gputel.analysis.runs import inside_steps

        frames = []
        for segment, facts in zip(self.folder.segments, self.descriptions, strict=True):
            frame = inside_steps.read(segment, facts.get("inside"))
            if self._several_nodes:
                frame = frame.insert_column(1, pl.lit(segment.node, pl.String).alias("node"))
            frames.append(frame)
        return pl.concat(frames).sort("time", maintain_order=True)

    def seconds(self, table: str) -> pl.DataFrame:
        """A row a second and subject of a table beside gpu/; without rows if it was not recorded."""
        if table not in self._seconds:
            self._seconds[table] = self._read_seconds(table)
        return self._seconds[table]

    def _read_seconds(self, table: str) -> pl.DataFrame:
        import polars as pl

        from gputel.telemetry.host import seconds

        tables = []
        for segment in self.folder.segments:
            frame = seconds.seconds(segment.path / table)
            if self._several_nodes:
                frame = frame.insert_column(1, pl.lit(segment.node, pl.String).alias("node"))
            tables.append(frame)
        return pl.concat(tables).sort("time", maintain_order=True)

    @cached_property
    def events(self) -> pl.DataFrame:
        """Recorder events in order: `time`, `kind`, `text`, `node` if there are several, `facts` as JSON."""
        import polars as pl

        rows = [
            {
                **{name: _text(event.pop(name, None)) for name in ("time", "kind", "text")},
                "node": segment.node,
                "facts": json.dumps(event),
            }
            for segment in self.folder.segments
            for event in events.read(segment.path)
        ]
        schema = {
            "time": pl.String,
            "kind": pl.String,
            "text": pl.String,
            "node": pl.String,
            "facts": pl.String,
        }
        frame = pl.DataFrame(rows, schema=schema).with_columns(
            pl.col("time").str.to_datetime(
                "%Y-%m-%dT%H:%M:%S%.fZ", time_unit="ns", time_zone="UTC", strict=False
            )
        )
        return (frame if self._several_nodes else frame.drop("node")).sort("time", maintain_order=True)

    @cached_property
    def segments(self) -> pl.DataFrame:
        """One row per segment: node, attempt, start, end, exit code, and the downtime before it on its node."""
        import polars as pl

        rows = []
        previous: dict[str | None, dict[str, Any]] = {}
        for segment, facts in zip(self.folder.segments, self.descriptions, strict=True):
            before = previous.get(segment.node)
            rows.append(
                {
                    "node": segment.node,
                    "attempt": segment.number,
                    "started": run_folder.wall_ns(facts, "started"),
                    "ended": run_folder.wall_ns(facts, "ended"),
                    "duration_s": run_folder.between_s(facts, "started", facts, "ended"),
                    "downtime_s": run_folder.between_s(before, "ended", facts, "started") if before else None,
                    "exit_code": facts.get("exit_code"),
                }
            )
            previous[segment.node] = facts
        moment = pl.Datetime("ns", "UTC")
        schema: dict[str, Any] = {
            "node": pl.String,
            "attempt": pl.Int64,
            "started": moment,
            "ended": moment,
            "duration_s": pl.Float64,
            "downtime_s": pl.Float64,
            "exit_code": pl.Int64,
        }
        return pl.DataFrame(rows, schema=schema)

    @property
    def duration_s(self) -> float | None:
        """Total duration of the segments that have ended; of several nodes, that of the longest."""
        return self._of_longest("duration_s")

    @property
    def downtime_s(self) -> float | None:
        return self._of_longest("downtime_s")

    def _of_longest(self, name: str) -> float | None:
        """The largest sum of a node: nodes run at the same time."""
        sums = (total(rows[name].to_list()) for rows in self.segments.partition_by("node"))
        return max((seconds for seconds in sums if seconds is not None), default=None)

    @property
    def _several_nodes(self) -> bool:
        return any(segment.node is not None for segment in self.folder.segments)

    def _together(self, read: Callable[[Path], pl.DataFrame]) -> pl.DataFrame:
        import polars as pl

        whole = pl.concat([frame.lazy() for frame in self._each(read)], how="diagonal_relaxed")
        return whole.sort("time", maintain_order=True).collect()

    def _each(self, read: Callable[[Path], Frame]) -> Iterator[Frame]:
        """Yields one frame per segment; the column `node`, if any, comes after `time` and `gpu`."""
        import polars as pl

        for segment in self.folder.segments:
            frame = read(segment.gpu)
            if self._several_nodes:
                node = pl.lit(segment.node).alias("node")
                frame = frame.select("time", "gpu", node, pl.exclude("time", "gpu"))
            yield frame


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def total(values: Iterable[float | None]) -> float | None:
    """Sums the known values; None if all are unknown."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None


def highest(values: Iterable[float | None]) -> float | None:
    """Returns the highest of the known values; None if all are unknown."""
    return max((value for value in values if value is not None), default=None)


def weighted_mean(pairs: Iterable[tuple[float | None, float]]) -> float | None:
    """Averages the known values by their weights; None if all are unknown."""
    known = [(value, weight) for value, weight in pairs if value is not None and weight]
    return (
        math.fsum(value * weight for value, weight in known) / math.fsum(w for _, w in known)
        if known
        else None
    )
