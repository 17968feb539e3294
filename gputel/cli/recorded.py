"""What is printed when a recording ends, for people. Everything here comes from `analysis.recorded`."""

from __future__ import annotations

import sys
from typing import Any

from gputel.analysis import document, text
from gputel.cli import show

MIB = 2**20
SHORT = {
    "power_w": "power",
    "power_avg_w": "average power",
    "energy_j": "energy",
    "temp_c": "temperature",
    "util": "utilisation",
    "sm_mhz": "clock",
}


def report(told: dict[str, Any]) -> None:
    """Folded under its own first column on a terminal, whole lines elsewhere."""
    for line in lines(told):
        show.note(show.folded(line, 9, stream=sys.stderr))


def lines(told: dict[str, Any]) -> list[str]:
    """Duration and rate, a line a GPU, what the sensors really did, what it cost, where it lies, what is next."""
    caution = document.caution(told["simulated"])
    said = ["", *([caution] if caution else []), _duration(told)]
    said += [_gpu(gpu) for gpu in told["gpus"]]
    said += _sensors(told) + _cost(told) + _events(told)
    said += [f"run      {told['path']} ({_sizes(told)})", f"next     gputel info {told['path']}"]
    return said


def _duration(told: dict[str, Any]) -> str:
    sampling, seconds = told["sampling"], told["duration_s"]
    said = "recorded " + ("an unknown time" if seconds is None else text.duration(seconds))
    if told["segments"] > 1:
        said += f" in {told['segments']} segments"
    if told["downtime_s"]:
        said += f", down {text.duration(told['downtime_s'])} between them"
    if not sampling:
        return said + "; no GPU was sampled"
    said += f"; polled {_hz(sampling['polled_hz'])}" + _asked(sampling)
    if sampling["lateness_max_ms"] is not None:
        said += f", at worst {sampling['lateness_max_ms']:.1f} ms late"
    if sampling["missed"]:
        said += f", {sampling['missed']:,} ticks missed"
    return said


def _gpu(gpu: dict[str, Any]) -> str:
    name = f"GPU {gpu['gpu']}" if gpu["node"] is None else f"node {gpu['node']} GPU {gpu['gpu']}"
    parts = [
        _unit(gpu["power_mean_w"], "{:.0f} W mean"),
        _unit(gpu["power_peak_w"], "{:.0f} W peak"),
        energy(gpu),
        None if gpu["mem_peak_mib"] is None else f"{text.size(gpu['mem_peak_mib'] * MIB)} peak",
        _unit(gpu["temp_peak_c"], "{:.0f} °C peak"),
    ]
    parts += [f"{text.duration(seconds)} of {reason}" for reason, seconds in gpu["throttle_s"].items()]
    return f"{name:<8} " + ", ".join(part for part in parts if part)


def energy(gpu: dict[str, Any]) -> str | None:
    """Both ways, and how far the integral is from the counter."""
    counter, integral, off = gpu["energy_counter_j"], gpu["energy_integral_j"], gpu["energy_difference"]
    if counter is None:
        return None if integral is None else f"{text.energy(integral)} by integral (no counter)"
    if integral is None:
        return f"{text.energy(counter)} by counter"
    apart = "too short to compare" if gpu["few_refreshes"] else f"{100 * (off or 0):+.1f} %"
    return f"{text.energy(counter)} by counter, {text.energy(integral)} by integral ({apart})"


def _sensors(told: dict[str, Any]) -> list[str]:
    """`power refreshed 9.9 Hz`: of the first GPU, since those of one machine are alike."""
    from gputel.analysis.report.summary import refreshed

    if not told["gpus"]:
        return []
    found = refreshed(told["gpus"][0])
    known = [f"{SHORT[name]} {_hz(hz)}" for name, hz in found.items() if hz is not None]
    unknown = [SHORT[name] for name, hz in found.items() if hz is None]
    said = f"sensors  polled {_hz(told['sampling'] and told['sampling']['polled_hz'])}"
    if known:
        said += f"; refreshed: {', '.join(known)}"
    return [said, f"         indeterminate: {', '.join(unknown)}"] if unknown else [said]


def _cost(told: dict[str, Any]) -> list[str]:
    sampling = told["sampling"]
    if not sampling or sampling["cpu_share"] is None:
        return []
    whole, driver = 100 * sampling["cpu_share"], 100 * sampling["driver_share"]
    said = f"cost     {whole:.1f} % of a core, of it {driver:.2f} % in the driver"
    said += f"; {text.size(sampling['resident_mib'] * MIB)} resident"
    lowered = [f"{tier['tier']} to {tier['hz']:g} Hz" for tier in sampling["lowered"]]
    return [said + (f"; lowered to stay within --max-overhead: {', '.join(lowered)}" if lowered else "")]


def _events(told: dict[str, Any]) -> list[str]:
    counted = [f"{count} {kind}" for kind, count in told["events"].items()]
    stopped = [f"stopped  {told['stopped']['text']}"] if told["stopped"] else []
    return stopped + ([f"events   {', '.join(counted)}"] if counted else [])


def _sizes(told: dict[str, Any]) -> str:
    held = [] if told["output_bytes"] is None else [f"{text.size(told['output_bytes'])} of output"]
    return ", ".join([*held, f"{text.size(told['gpu_bytes'])} of telemetry"])


def _asked(sampling: dict[str, Any]) -> str:
    """Said where a twentieth or more of the samples that were asked for is not there."""
    polled, asked = sampling["polled_hz"], sampling["asked_hz"]
    return f" of {asked:g} asked for" if polled is not None and polled < 0.95 * asked else ""


def _hz(rate: float | None) -> str:
    return "at an unknown rate" if rate is None else f"{rate:.1f} Hz"


def _unit(value: float | None, form: str) -> str | None:
    return None if value is None else form.format(value)
