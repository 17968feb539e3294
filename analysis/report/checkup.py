"""A trial recording of this machine -> what its GPU readings are worth: latency and true refresh rate."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputel.telemetry import run_folder
from gputel.telemetry.doctor import Check
from gputel.telemetry.errors import GputelError
from gputel.telemetry.readings import READINGS

if TYPE_CHECKING:
    import polars as pl

TRIAL_S = 3.0


def check_gpus(machine: str, seconds: float = TRIAL_S) -> tuple[Check, list[dict[str, Any]]]:
    """Records a few seconds; returns a check of driver and GPUs, and a row per GPU and reading."""
    if sys.platform != "linux":
        return Check("GPUs", "poor", "NVML is read on Linux only", "record there"), []
    from gputel.telemetry.sampling import trial  # the whole sampler: other reports do not need it

    with tempfile.TemporaryDirectory(prefix="gputel-trial-") as folder:
        try:
            segment = trial.record(Path(folder) / "run", machine, seconds)
        except GputelError as error:
            return Check("GPUs", "bad", f"{error.place}: {error.fault}", error.hint), []
        facts: dict[str, Any] = run_folder.describe(segment)
        from gputel.telemetry.store import frames

        ticks = frames.ticks(segment / "gpu")
        return _gpus(facts, segment), _readings(facts, _refresh(ticks), _idle(ticks))


def gpu_names(gpus: Sequence[Mapping[str, Any]]) -> str:
    """Formats `2 x NVIDIA H100 80GB HBM3`."""
    names = [gpu["name"] for gpu in gpus]
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))


def _gpus(facts: dict[str, Any], segment: Path) -> Check:
    from gputel.analysis.report.summary import polled_hz
    from gputel.telemetry.completeness import not_sampled

    names = gpu_names(facts["gpus"])
    machine = f"SIMULATED: {names}" if facts["simulated"] else f"{names}, driver {facts['gpus'][0]['driver']}"
    hz, asked = polled_hz([segment / "gpu"]), facts["sampling"]["hz"]
    polling = "no sample came" if hz is None else f"polled {hz:.1f} Hz of {asked:g}"
    missing = not_sampled(segment)
    text = "; ".join([machine, polling, *missing])
    return Check("GPUs", "poor", text, "check `dmesg`") if missing else Check("GPUs", "good", text)


def _readings(
    facts: dict[str, Any], refresh: dict[tuple[str, str], float | None], idle: set[str]
) -> list[dict[str, Any]]:
    units = {reading.name: reading.unit for reading in READINGS}
    names = {gpu["gpu"]: gpu["name"] for gpu in facts["gpus"]}
    counters = (facts["sampling"].get("statistics") or {}).get("counters") or {}
    states_by_rate = {
        (gpu, name): state for gpu, states in counters.items() for name, state in states.items()
    }
    refresh = {**refresh, **{key: state["refresh_hz"] for key, state in states_by_rate.items()}}
    return [
        {
            "gpu": gpu,
            "name": names.get(gpu),
            "reading": name,
            "unit": units[name],
            "tier": probe["tier"],
            "source": probe["source"],
            "latency_us": probe["latency_us"],
            "refresh_hz": _rounded(refresh.get((gpu, name))),
            "fault": probe["fault"] or states_by_rate.get((gpu, name), {}).get("unknown"),
            "idle": gpu in idle,
        }
        for gpu, readings in facts["sampling"]["readings"].items()
        for name, probe in readings.items()
    ]


def _refresh(ticks: pl.DataFrame) -> dict[tuple[str, str], float | None]:
    """Returns refreshes per second by GPU and reading, as the values show; None if a value hardly changed."""
    from gputel.analysis.runs import sensors

    return {key: refresh.hz if refresh else None for key, refresh in sensors.refresh(ticks).items()}


def _idle(ticks: pl.DataFrame) -> set[str]:
    """Returns the GPUs on which no kernel ran during the trial, as far as their utilization is known."""
    if "util" not in ticks.columns:
        return set()
    return {str(gpu) for (gpu,), rows in ticks.group_by("gpu") if rows["util"].max() == 0}


def _rounded(hz: float | None) -> float | None:
    return None if hz is None else round(hz, 2)
