"""Power, peaks and cost of a run's GPUs -> facts."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gputel.analysis.report.gpu_totals import GpuTotals
    from gputel.analysis.runs import RunData
    from gputel.analysis.runs.recording import Recording

HOUR_S = 3600


def of_recording(recording: Recording, gpus: Sequence[GpuTotals] | None) -> dict[str, Any]:
    """Sums of what was measured on all GPUs; of peaks, times and gaps that of the GPU with the most."""
    from gputel.analysis.report.gpu_totals import gpu_totals
    from gputel.analysis.report.summary import telemetry_bytes
    from gputel.analysis.runs.recording import highest, total, weighted_mean

    if gpus is None:
        gpus = gpu_totals(recording.folder.segments, refresh=False)
    measured = [gpu.covered for gpu in gpus if gpu.covered is not None]
    return {
        "energy_j": total(gpu.energy_j for gpu in gpus),
        "energy_counter_j": total(gpu.energy_counter_j for gpu in gpus),
        "measured": statistics.fmean(measured) if measured else None,
        "power_mean_w": total(gpu.power_mean_w for gpu in gpus),
        "power_max_w": highest(gpu.power_peak_w for gpu in gpus),
        "temp_max_c": highest(gpu.temp_peak_c for gpu in gpus),
        "mem_max_mib": highest(gpu.mem_peak_mib for gpu in gpus),
        "util": weighted_mean((gpu.util_mean, gpu.measured_s) for gpu in gpus),
        "throttled_s": highest(float(sum(gpu.throttle_s.values())) for gpu in gpus),
        "gap_s": highest(gpu.measured_s / gpu.covered - gpu.measured_s for gpu in gpus if gpu.covered),
        "bytes_gpu": telemetry_bytes(recording),
    }


def of_readings(subject: RunData) -> dict[str, Any]:
    """Returns the same facts of a table of readings; nothing without one."""
    import polars as pl

    from gputel.analysis.align import join
    from gputel.analysis.align.samples import gpu_samples

    samples = gpu_samples(subject)
    if samples is None or samples.edges is None:
        return {}
    first, last = samples.edges
    whole = pl.DataFrame({"start": [first], "end": [last]}).cast(pl.Datetime("ns", "UTC"))
    measured, gpus = join.with_gpus(whole, samples, samples.edges)
    row = measured.row(0, named=True)
    same = ("energy_j", "energy_counter_j", "measured", "power_mean_w", "util", "throttled_s")
    return {
        **{name: row[name] for name in same},
        "power_max_w": gpus["power_peak_w"].max(),
        "temp_max_c": row["temp_peak_c"],
        "mem_max_mib": gpus["mem_peak_mib"].max(),
        "gap_s": None if row["measured"] is None else (1 - row["measured"]) * row["duration_s"],
    }


def spent(recording: Recording, gpus: int | None) -> dict[str, float | None]:
    """GPU hours and dollars; null where the GPUs, the end or the price of any segment is unknown."""
    from gputel.analysis.runs.facts import whole_gpus

    alone = len({segment.node for segment in recording.folder.segments}) == 1
    lengths = recording.segments["duration_s"].to_list()
    hours: list[float | None] = []
    dollars: list[float | None] = []
    for facts, seconds in zip(recording.descriptions, lengths, strict=True):
        count, price = len(whole_gpus([facts])) or (gpus if alone else None), facts.get("price")
        used = None if count is None or seconds is None else count * seconds / HOUR_S
        hours.append(used)
        dollars.append(None if used is None or price is None else used * price)
    return {"gpu_hours": _sum_of_all(hours), "cost": _sum_of_all(dollars)}


def _sum_of_all(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
