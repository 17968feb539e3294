"""Turns sealed journals into Parquet, part by part, and makes their tables of seconds; runs in compact.py's child.

A file gets its name when it is complete and on the disk, and only then are the files that it replaces removed: a
crash leaves both, and the next round cleans up. Tables of seconds are merged by eights, so that a week has few
files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from io import BytesIO
from itertools import groupby
from pathlib import Path

import polars as pl

from gputel.telemetry import events, run_folder
from gputel.telemetry.store import checksum, journal, parts, seconds, ticks
from gputel.telemetry.store.damage import attempt
from gputel.telemetry.store.parts import MERGE, MERGES, Part
from gputel.telemetry.store.seconds import SecondRows, one_second_rows
from gputel.telemetry.store.tiers import GPU, Tier
from gputel.telemetry.whole_files import write_whole

LEVEL = 12  # zstd; 15 saves 0.2 % of the bytes for twice the time
ONE_PAGE = 1 << 26  # bytes: zstd finds the times of one GPU again in those of the next only within one page


def compact(folder: Path, *, everything: bool) -> None:
    """Compact all parts but the newest, which is still being written; with `everything`, that one too."""
    # Where locks fail, two processes do the same work, which is harmless.
    with run_folder.locked(folder / run_folder.COMPACT_LOCK):
        _clear_up(folder)
        current = parts.current(folder)
        newest = max((part.last for part in current), default=0)
        for number in sorted({part.first for part in current if not part.compacted}):
            if everything or number < newest:
                _compact_part(folder, [part for part in current if part.first == number])
        while (tables := _next_merge(folder)) and _merge(folder, tables):
            pass


def write(frame: pl.DataFrame, facts: Mapping[str, object], path: Path) -> None:
    """Write a Parquet file; under its name there is a complete file or none."""
    whole = {"version": ticks.VERSION, **facts, checksum.NAME: checksum.EMPTY}
    content = BytesIO()
    frame.write_parquet(
        content,
        metadata={ticks.KEY: json.dumps(whole, separators=(",", ":"))},
        row_group_size=max(1, len(frame)),
        data_page_size=ONE_PAGE,
        compression_level=LEVEL,
        statistics=False,
    )
    write_whole(path, checksum.with_checksum(content.getvalue()), fsync=True)


def write_ticks(frame: pl.DataFrame, tier: Tier, path: Path) -> None:
    """Write a part of a tier."""
    write(frame, tier.as_table(), path)


def write_seconds(rows: SecondRows, path: Path) -> None:
    """Write a table of seconds."""
    write(rows.frame, {"table": GPU, "tier": parts.SECONDS, "slow": rows.slow}, path)


def _compact_part(folder: Path, files: list[Part]) -> None:
    """Compact one part, its table of seconds first: readers of seconds need it once the journals are gone."""
    tiers_read = {
        part: read for part in files if part.tier != parts.SECONDS and (read := _read(folder, part))
    }
    loaded = list(tiers_read.values())
    number = files[0].first
    is_of_gpus = any(tier.table == GPU for tier, _ in loaded)  # others are read as ticks, which are fewer
    if is_of_gpus and not any(part.tier == parts.SECONDS for part in files):
        name = parts.compacted_name(parts.SECONDS, number, number)
        write_seconds(one_second_rows(loaded), folder / name)
    for part, (tier, frame) in tiers_read.items():
        if not part.compacted:
            write_ticks(frame, tier, folder / parts.compacted_name(tier.name, number, number))
    _remove([part for part in tiers_read if not part.compacted])


def _read(folder: Path, part: Part) -> tuple[Tier, pl.DataFrame] | None:
    """Read one file, and report its damage as an event: the journal will soon be gone."""
    if part.compacted:
        tier = attempt(part.path, lambda: ticks.tier_of(part), None)
        return None if tier is None else (tier, ticks.read(part, tier))
    content = journal.read(part.path)
    for fault in content.faults if content else []:
        text = f"{folder.name}/{part.path.name}:{fault.offset}: {fault.length} damaged bytes were skipped"
        events.note(folder.parent, "gap", text)
    return None if content is None else (content.tier, ticks.from_journal(content))


def _next_merge(folder: Path) -> list[Part]:
    """Adjacent tables of seconds of the same size, once there are enough for a merge."""
    tables = [part for part in parts.current(folder) if part.tier == parts.SECONDS]
    for level, group in groupby(tables, key=_level):
        alike = list(group)
        if len(alike) >= MERGE and level < MERGES:
            return alike[:MERGE]
    return []


def _level(part: Part) -> int:
    """How many times a table has been merged."""
    return sum(part.last - part.first + 1 >= MERGE**level for level in range(1, MERGES + 1))


def _merge(folder: Path, tables: list[Part]) -> bool:
    """Merge tables; False, and nothing changes, if one of them is damaged."""
    loaded = [table for part in tables if (table := attempt(part.path, partial(seconds.load, part), None))]
    if len(loaded) < len(tables):
        return False
    name = parts.compacted_name(parts.SECONDS, tables[0].first, tables[-1].last)
    write_seconds(seconds.merged(loaded), folder / name)
    _remove(tables)
    return True


def _clear_up(folder: Path) -> None:
    _remove(parts.superseded(folder))
    for draft in folder.glob(".*.parquet.*.part"):
        draft.unlink(missing_ok=True)


def _remove(files: list[Part]) -> None:
    for part in files:
        part.path.unlink(missing_ok=True)
