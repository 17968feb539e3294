"""The machine around the GPUs -> panels over time: CPU, pressure, memory, disks, networks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from gputel.analysis.compare.axes import floats
from gputel.analysis.document import Curves, Marker, PlotAxis, Series
from gputel.telemetry.clock import SECOND

if TYPE_CHECKING:
    from gputel.analysis.runs.recording import Recording

HALF_A_SECOND = 0.5
MOST = 8  # disks or interfaces, those with the highest values
LINK = "recording"


@dataclass(frozen=True)
class MachinePanel:
    """`columns` of the rows of `table`, each with the word that names its curve."""

    name: str
    title: str
    table: str
    unit: str
    columns: tuple[tuple[str, str], ...]


KINDS = (
    MachinePanel(
        "machine-cpu",
        "CPU of the machine",
        "host",
        "%",
        (("cpu_busy", "busy"), ("cpu_system", "in the kernel"), ("cpu_steal", "stolen")),
    ),
    MachinePanel(
        "machine-pressure",
        "Time in which some task waited",
        "host",
        "%",
        (("psi_cpu_some", "for a core"), ("psi_io_some", "for a disk"), ("psi_memory_some", "for memory")),
    ),
    MachinePanel(
        "machine-memory",
        "Memory of the machine",
        "host",
        "MiB",
        (("mem_used_mib", "used"), ("mem_cached_mib", "files"), ("swap_used_mib", "swap")),
    ),
    MachinePanel("processes", "CPU of the command's processes", "process", "% of a core", (("cpu", ""),)),
    MachinePanel(
        "processes-wait",
        "Main threads that waited for a core",
        "process",
        "%",
        (("main_wait", ""),),
    ),
    MachinePanel("processes-gpu", "GPU time of processes", "process", "% of a GPU", (("gpu_sm", ""),)),
    MachinePanel("processes-gpu-memory", "GPU memory of processes", "process", "MiB", (("gpu_mem_mib", ""),)),
    MachinePanel("disks", "Disks", "disk", "MiB/s", (("read_mib_s", "read"), ("write_mib_s", "written"))),
    MachinePanel("networks", "Networks", "net", "MiB/s", (("rx_mib_s", "received"), ("tx_mib_s", "sent"))),
)


def panels(
    recording: Recording, time: PlotAxis, length_s: float, marks: tuple[Marker, ...] = ()
) -> Iterator[Curves]:
    """Makes the panels for `length_s` seconds from the start of the axis; none where nothing changed."""
    for kind in KINDS:
        series = _series(kind, recording.seconds(kind.table), time, length_s)
        if series:
            y = PlotAxis("y", kind.title, kind.unit)
            yield Curves(kind.name, kind.title, (time,), y, tuple(series), marks, link=LINK)


def whole_time(recording: Recording) -> tuple[PlotAxis, float] | None:
    """An axis over all that was recorded, and its length; None where the machine was not recorded."""
    if recording.host.is_empty():
        return None
    stamps = recording.host["time"].dt.epoch("ns")
    first, last = int(stamps.min()), int(stamps.max())  # type: ignore[arg-type]
    return PlotAxis("time", "time", "s", first), (last - first) / SECOND + 1


def _series(kind: MachinePanel, frame: pl.DataFrame, time: PlotAxis, length_s: float) -> list[Series]:
    """The curves with a value above 0, the highest of them."""
    seconds = (pl.col("time").dt.epoch("ns") - (time.start_ns or 0)) / SECOND + HALF_A_SECOND
    placed = frame.with_columns(seconds.alias("_x")).filter(pl.col("_x").is_between(0, length_s))
    keys = [name for name in ("node", kind.table, "name", "rank") if name in frame.columns]
    parts = placed.partition_by(keys, as_dict=True, maintain_order=True) if keys else {(): placed}
    curves: list[tuple[float, Series]] = []
    for key, rows in parts.items():
        for column, word in kind.columns:
            most: float | None = rows[column].max()  # type: ignore[assignment]
            if most:
                name = " ".join([*_names(keys, key), word]).strip()
                y = floats(rows[column])
                curves.append((most, Series(name, {"time": rows["_x"].to_numpy()}, y)))
    least = sorted((most for most, _ in curves), reverse=True)[:MOST][-1:]
    highest = [series for most, series in curves if [most] >= least]
    return [replace(series, tint=tint) for tint, series in enumerate(highest)]


def _names(keys: list[str], key: tuple[object, ...]) -> list[str]:
    """A process is called by its program, its rank and its number."""
    by_key = dict(zip(keys, key, strict=True))
    node, rank, program = (by_key.pop(name, None) for name in ("node", "rank", "name"))
    return [
        *([] if node is None else [f"node {node}"]),
        *([] if program is None else [str(program)]),
        *([] if rank is None else [f"rank {rank}"]),
        *(
            str(value).partition(".")[0] if name == "process" else str(value)
            for name, value in by_key.items()
        ),
    ]
