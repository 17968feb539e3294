"""The seconds of processes -> who each is: name, command line, rank, role, state and wait channel as words."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from gputel.telemetry.characters import parse_json
from gputel.telemetry.errors import DamagedFile, reason
from gputel.telemetry.host.gpu_users import OTHER, UNSEEN
from gputel.telemetry.host.process_names import NAMES
from gputel.telemetry.own_files import read_own
from gputel.telemetry.secrets import mask
from gputel.telemetry.store.tiers import PROCESS

LABELS: dict[str, pl.DataType | type[pl.DataType]] = {
    PROCESS: pl.String,
    "name": pl.String,
    "rank": pl.Int64,
    "local_rank": pl.Int64,
    "role": pl.String,
}
WORDS = ("state", "wait_channel", "gpu")
"""Columns of numbers that become words."""
RANK, WORKER = "rank", "worker"


def labeled(frame: pl.DataFrame, folder: Path) -> pl.DataFrame:
    """`frame` has `process`; adds the other LABELS and turns WORDS into words."""
    names, channels, gpus = known_names(folder)
    known = pl.DataFrame(list(names.values()), schema=LABELS)
    return frame.join(known, on=PROCESS, how="left", maintain_order="left").with_columns(
        pl.col("state").cast(pl.Int64).map_elements(chr, pl.String),
        pl.col("wait_channel").cast(pl.Int64).replace_strict(channels, default=None, return_dtype=pl.String),
        pl.col("gpu").cast(pl.Int64).map_elements(lambda bits: gpu_words(bits, gpus), pl.String),
    )


def commands(folder: Path) -> dict[str, str]:
    """The masked command line of each process that has one."""
    return {
        line[PROCESS]: line["command"]
        for line in _lines(folder)
        if isinstance(line.get(PROCESS), str) and isinstance(line.get("command"), str)
    }


def gpu_words(bits: int, names: Mapping[int, str]) -> str:
    """The GPUs of a process, as in `0,1`."""
    return ",".join(names.get(number, "?") for number in range(bits.bit_length()) if bits >> number & 1)


class ProcessLabels(NamedTuple):
    """The labels by process, in their last state, and the names of wait channels and of GPUs by number."""

    processes: dict[str, dict[str, Any]]
    wait_channels: dict[int, str]
    gpus: dict[int, str]


def known_names(folder: Path) -> ProcessLabels:
    """Reads names.jsonl."""
    names: dict[str, dict[str, Any]] = {}
    channels: dict[int, str] = {}
    gpus: dict[int, str] = {}
    by_pid: dict[int, dict[str, Any]] = {}
    for line in _lines(folder):
        process, channel, name = line.get(PROCESS), line.get("wait_channel"), line.get("name")
        name = mask(name) if isinstance(name, str) else None
        if isinstance(channel, int) and name is not None:
            channels[channel] = name
        if (gpu := _whole(line, "gpu")) is not None and name is not None:
            gpus[gpu] = name
        if isinstance(process, str) and line.get("role") in (OTHER, UNSEEN):
            names[process] = {**dict.fromkeys(LABELS), PROCESS: process, "role": line["role"]}
            names[process]["name"] = name
        elif isinstance(process, str) and name is not None:
            pid, rank, parent = process.partition(".")[0], _whole(line, "rank"), _whole(line, "parent")
            above = by_pid.get(parent) if parent is not None else None
            labels = {
                PROCESS: process,
                "name": name,
                "rank": rank,
                "local_rank": _whole(line, "local_rank"),
                "role": _role(rank, above),
            }
            names[process] = labels
            if pid.isdigit():
                by_pid[int(pid)] = labels
    return ProcessLabels(names, channels, gpus)


def _role(rank: int | None, above: Mapping[str, Any] | None) -> str | None:
    """A process with its parent's rank is a worker of that rank, such as one that loads data."""
    if rank is None:
        return None
    return WORKER if above is not None and above["rank"] == rank else RANK


def _whole(line: Mapping[str, Any], key: str) -> int | None:
    value = line.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**62 else None


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    """The objects of the file; a line that is torn or foreign is left out."""
    path = folder / NAMES
    try:
        lines = read_own(path).splitlines()
    except FileNotFoundError:
        return
    except OSError as error:
        warnings.warn(DamagedFile(path, reason(error)), stacklevel=2)
        return
    for text in lines:
        try:
            line = parse_json(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict):
            yield line
