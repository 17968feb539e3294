"""Sealed journals -> Parquet, part by part, and their seconds: what the child that compact.py starts does.

A file gets its name when it is whole and on the disk, and only then do those it stands for go: a crash leaves
both, and the next round clears up. Tables of seconds are merged eight by eight, so that those of a week are a few
files.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path

import polars as pl

from gputel.telemetry import events, run_folder
from gputel.telemetry.store import journal, parts, seconds, wide
from gputel.telemetry.store.parts import Part
from gputel.telemetry.store.seconds import one_second_rows
from gputel.telemetry.store.tiers import Tier

LEVEL = 15  # of zstd: of noise it takes a core four seconds for ten minutes of 64 readings, of telemetry 0.3
MERGE = 8
MERGES = 2  # a table of seconds then holds 64 parts, ten hours and a half, and takes the memory of that


def compact(folder: Path, *, everything: bool) -> None:
    """All parts but the newest, which is still being written; with `everything` that one too."""
    with run_folder.locked(
        folder / ".compact.lock"
    ):  # without locks two do the same work, which harms nothing
        _clear_up(folder)
        current = parts.current(folder)
        newest = max((part.last for part in current), default=0)
        for number in sorted({part.first for part in current if not part.compacted}):
            if everything or number < newest:
                _compact_part(folder, [part for part in current if part.first == number])
        while merge := _next_merge(folder):
            _merge(folder, merge)


def write(frame: pl.DataFrame, facts: Mapping[str, object], path: Path) -> None:
    """A whole Parquet file under its name, or none."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        metadata = {wide.KEY: json.dumps(facts, separators=(",", ":"))}
        rows = max(1, len(frame))
        frame.write_parquet(
            draft, metadata=metadata, row_group_size=rows, compression_level=LEVEL, statistics=False
        )
        _sync(draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    _sync(path.parent)


def _compact_part(folder: Path, files: list[Part]) -> None:
    """The seconds first: as soon as a tier's journal is gone, it is they who stand for it."""
    held = {part: read for part in files if part.tier != parts.SECONDS and (read := _read(folder, part))}
    loaded = list(held.values())
    number = files[0].first
    if loaded and not any(part.tier == parts.SECONDS for part in files):
        tiers = [tier.as_json() for tier, _ in loaded]
        name = parts.compacted_name(parts.SECONDS, number, number)
        write(one_second_rows(loaded), {"tiers": tiers}, folder / name)
    for part, (tier, frame) in held.items():
        if not part.compacted:
            target = folder / parts.compacted_name(tier.name, number, number)
            write(frame, tier.as_json(), target)
    _remove([part for part in held if not part.compacted])


def _read(folder: Path, part: Part) -> tuple[Tier, pl.DataFrame] | None:
    """Damage becomes an event here: once the journal is gone nothing else would tell of it."""
    if part.compacted:
        tier = wide.tier_of(part)
        return None if tier is None else (tier, wide.load(part))
    held = journal.read(part.path)
    for fault in held.faults if held else []:
        text = f"gpu/{part.path.name}:{fault.offset}: {fault.length} bytes are damaged and were passed over"
        events.append(folder.parent, time.time_ns(), "gap", text)
    return None if held is None else (held.tier, wide.from_journal(held))


def _next_merge(folder: Path) -> list[Part]:
    """Neighbouring tables of seconds of one size, enough of them to be worth a merge."""
    tables = [part for part in parts.current(folder) if part.tier == parts.SECONDS]
    for level, group in groupby(tables, key=_level):
        alike = list(group)
        if len(alike) >= MERGE and level < MERGES:
            return alike[:MERGE]
    return []


def _level(part: Part) -> int:
    """How many times it was merged."""
    return sum(part.last - part.first + 1 >= MERGE**level for level in range(1, MERGES + 1))


def _merge(folder: Path, tables: list[Part]) -> None:
    held = [seconds.load(part) for part in tables]
    tiers = list(dict.fromkeys(tier for kinds, _ in held for tier in kinds))
    frame = seconds.merged([frame for _, frame in held], tiers)
    name = parts.compacted_name(parts.SECONDS, tables[0].first, tables[-1].last)
    write(frame, {"tiers": [tier.as_json() for tier in tiers]}, folder / name)
    _remove(tables)


def _clear_up(folder: Path) -> None:
    _remove(parts.superseded(folder))
    for draft in folder.glob(".*.parquet.*"):
        draft.unlink(missing_ok=True)


def _remove(files: list[Part]) -> None:
    for part in files:
        part.path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
