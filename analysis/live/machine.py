"""The machine around the GPUs of a followed recording: the figures of its last second."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from gputel.analysis.live.view import GpuUserView, MachineView
from gputel.telemetry.clock import SECOND
from gputel.telemetry.host import seconds
from gputel.telemetry.host.columns import DISK, HOST, NET
from gputel.telemetry.host.process_names import process_name
from gputel.telemetry.host.process_seconds import ProcessLabels, gpu_words, known_names
from gputel.telemetry.store import parts, ticks
from gputel.telemetry.store.tiers import PROCESS

if TYPE_CHECKING:
    from gputel.analysis.live.run_folder import GrowingTicks
    from gputel.telemetry.store.tiers import Tier

TABLES = (HOST, DISK, NET)
KEPT_S = 5
"""Seconds of ticks that are kept, from which rates are made."""


class LiveMachine:
    """Reads the tables of one segment on; `read` returns the last second, None if nothing new was written."""

    def __init__(self, segment: Path, node: str) -> None:
        self._segment, self._node = segment, node
        self._journals: dict[Path, GrowingTicks] = {}
        self._ticks: dict[tuple[str, str], tuple[Tier, pl.DataFrame]] = {}
        self._gpu_users = LiveGpuUsers(segment / PROCESS)

    def read(self) -> MachineView | None:
        grown = [self._read(table) for table in (*TABLES, PROCESS)]
        if True not in grown:
            return None
        figures: dict[tuple[str, str], dict[str, float]] = {}
        moments: list[datetime] = []
        for table in TABLES:
            loaded = [ticks for (kept, _), ticks in self._ticks.items() if kept == table]
            for subject, at, row in _last(table, loaded):
                figures[table, subject] = row
                moments.append(at)
        if not moments:
            return None
        return MachineView(self._node, max(moments), figures, self._gpu_users.read())

    def _read(self, table: str) -> bool:
        """Whether a journal of the newest part has grown."""
        from gputel.analysis.live.run_folder import GrowingTicks

        journals = [part for part in parts.every_file(self._segment / table) if not part.compacted]
        newest = max((part.first for part in journals), default=0)
        grown = False
        for part in (part for part in journals if part.first == newest):
            new = self._journals.setdefault(part.path, GrowingTicks(part.path)).read()
            if new is not None and new[1].height:
                if table == PROCESS:
                    self._gpu_users.take(new[1])
                else:
                    self._keep(table, *new)
                grown = True
        return grown

    def _keep(self, table: str, tier: Tier, frame: pl.DataFrame) -> None:
        before = self._ticks.get((table, tier.name))
        frames = [frame] if before is None or before[0].subjects != tier.subjects else [before[1], frame]
        whole = pl.concat(
            [
                each.slice(place * (len(each) // len(tier.subjects)), len(each) // len(tier.subjects))
                for place in range(len(tier.subjects))
                for each in frames
            ]
        )
        stamps = whole.select(ticks.STAMP.alias("stamp"))["stamp"]
        recent = whole.filter(stamps > int(stamps.max()) - KEPT_S * SECOND)  # type: ignore[arg-type]
        self._ticks[table, tier.name] = tier, recent


def _last(
    table: str, loaded: list[tuple[Tier, pl.DataFrame]]
) -> Iterator[tuple[str, datetime, dict[str, float]]]:
    """The last known values of each subject."""
    if not loaded:
        return
    rows = seconds.of_ticks(table, loaded)
    keys = [name for name in (table,) if name in rows.columns]
    for key, of_subject in rows.partition_by(keys, as_dict=True).items() if keys else [((), rows)]:
        names = [name for name in of_subject.columns if name not in ("time", table)]
        values = {name: of_subject[name].drop_nulls() for name in names}
        known = {name: float(series[-1]) for name, series in values.items() if len(series)}
        yield (str(key[0]) if key else ""), of_subject["time"][-1], known


class LiveGpuUsers:
    """`take` the ticks of a process table; `read` names the users, those with the most memory first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._uses: dict[str, tuple[int, float | None, float | None]] = {}
        self._names = ProcessLabels({}, {}, {})

    def take(self, ticks: pl.DataFrame) -> None:
        for pid, start, *use in ticks.select("pid", "start", "gpu", "gpu_mem_mib", "gpu_sm").iter_rows():
            process = process_name(pid, start)
            self._uses.pop(process, None)
            if use[0]:
                self._uses[process] = (use[0], use[1], use[2])

    def read(self) -> tuple[GpuUserView, ...]:
        bits = 0
        for gpus, _, _ in self._uses.values():
            bits |= gpus
        if self._uses.keys() - self._names.processes.keys() or bits.bit_length() > len(self._names.gpus):
            self._names = known_names(self._folder)
        users = [self._user(process, *use) for process, use in self._uses.items()]
        return tuple(sorted(users, key=lambda user: -(user.memory_mib or 0)))

    def _user(self, process: str, gpus: int, memory: float | None, share: float | None) -> GpuUserView:
        labels = self._names.processes.get(process, {})
        return GpuUserView(
            gpus=gpu_words(gpus, self._names.gpus),
            name=labels.get("name") or process.partition(".")[0],
            rank=labels.get("rank"),
            role=labels.get("role"),
            memory_mib=memory,
            share=share,
        )
