"""Who uses the GPUs of a followed recording: the last row of each process on one of them."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from gputel.analysis.live.view import GpuUserView
from gputel.telemetry.host.process_names import process_name
from gputel.telemetry.host.process_seconds import ProcessLabels, gpu_words, known_names


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
