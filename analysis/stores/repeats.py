"""Which files of a folder only repeat a store beside them, and so are no runs of their own.

Such are the states in checkpoint folders, the files around a `.wandb`, all but one of the outputs of a logger that
writes several (Stable-Baselines3, Ray Tune), and the settings that belong to a table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from gputel.analysis.stores import event_files, mlruns, plain_yaml, ray_tune, tables, trainer_state
from gputel.telemetry.characters import parse_json

Kind = Callable[[Path], str | None]  # which store a path is
PROGRESS = "progress.csv"  # of Stable-Baselines3 and Ray Tune
WANDB_LATEST, WANDB_LOG = "latest-run", re.compile(r"debug(-.*)?\.log")  # above the folders of its runs
WANDB_FOLDERS = ("files", "logs", "tmp")  # beside a `.wandb`: copies of what is in it, and W&B's own logs

SB3_STEP = "time/total_timesteps"
SB3_COUNTERS = frozenset(
    {SB3_STEP, "time/iterations", "time/episodes", "time/time_elapsed", "train/n_updates"}
)
"""Columns that Stable-Baselines3 itself leaves out of its event files."""
SB3_ROWS, SB3_PRINT = "progress.json", "log.txt"
SB3_PRINTED = re.compile(rb"(Logging to [^\n]*\n)?-{5,}\n\| ")
LONGEST_LOOK = 1 << 16  # bytes of the first row of a table
LONGEST_EVENTS = 1 << 18  # bytes at either end of an event file that are read for its tags


def beside(folder: Path, names: Collection[str], events: Sequence[Path], kind: Kind) -> set[Path]:
    """Returns what is repeated among the files `names` of a folder, which may have event files of its own."""
    found: set[Path] = set()
    if any(name.startswith("checkpoint-") for name in names):
        found |= set(trainer_state.newest(folder)[1])
    if WANDB_LATEST in names:
        found |= {folder / name for name in names if WANDB_LOG.fullmatch(name)}
    if PROGRESS in names or SB3_ROWS in names:
        found |= _of_sb3(folder, names, events)
    if PROGRESS in names or ray_tune.RESULTS in names:
        found |= _of_trial(folder, events, kind)
    has_table = any(".csv" in name or "tfevents" in name for name in names)
    for name in names:
        if name in plain_yaml.BESIDE and has_table:
            found.add(folder / name)
        else:
            found |= _of_file(folder, name, kind)
    return found


def _of_file(folder: Path, name: str, kind: Kind) -> set[Path]:
    """Returns what belongs to one file of the folder, or the file itself if it holds no run."""
    if name == mlruns.META:
        return set(folder.iterdir()) if mlruns.is_deleted(folder) else {folder / mlruns.META}
    if name.endswith(".wandb") and kind(folder / name) == "wandb":
        return {folder / repeated for repeated in WANDB_FOLDERS}
    if name.endswith(".db"):
        return {folder / f"{name}{ending}" for ending in ("-wal", "-shm")}
    if ray_tune.STATE.fullmatch(name) and _start(folder / name).startswith(ray_tune.STATE_MARK):
        return {folder / name}
    return set()


def _of_sb3(folder: Path, names: Collection[str], events: Sequence[Path]) -> set[Path]:
    """Returns what repeats the logger of Stable-Baselines3.

    Its event files have all values with their times, unless one was excluded from them; then the table is read too.
    Episodes of the environments are those that the logger averages.
    """
    table, rows = folder / PROGRESS, folder / SB3_ROWS
    header = tables.column_names(_start(table))
    has_table = SB3_STEP in header
    if not has_table:
        header = _keys(_start(rows))
    if SB3_STEP not in header:
        return set()
    found = {folder / name for name in names if name.endswith("monitor.csv")}
    if SB3_PRINTED.match(_start(folder / SB3_PRINT)):
        found.add(folder / SB3_PRINT)
    if has_table:
        found.add(rows)
    if events and header - SB3_COUNTERS <= _tags(events):
        found |= {table, rows}
    return found


def _of_trial(folder: Path, events: Sequence[Path], kind: Kind) -> set[Path]:
    """Returns what repeats the `result.json` of a trial of Ray Tune, or its table without that."""
    table, results = folder / PROGRESS, folder / ray_tune.RESULTS
    if kind(results) == "ray-tune":
        is_repeated = bool(events) and all(tag.startswith(ray_tune.TAGS) for tag in _tags(events))
        return {folder / ray_tune.SETTINGS, table, *(events if is_repeated else ())}
    return {folder / ray_tune.SETTINGS} if tables.column_names(_start(table)) >= ray_tune.COLUMNS else set()


def _tags(events: Sequence[Path]) -> set[str]:
    """The names of scalars at both ends of event files; one that is logged at all is logged again and again."""
    found: set[str] = set()
    for path in events:
        start, end = event_files.EventDecoder(), event_files.EventDecoder(in_the_middle=True)
        try:
            with path.open("rb") as file:
                start.feed(file.read(LONGEST_EVENTS))
                size = file.seek(0, os.SEEK_END)
                file.seek(max(LONGEST_EVENTS, size - LONGEST_EVENTS))
                end.feed(file.read(LONGEST_EVENTS))
        except OSError:
            continue  # reading it says why
        found |= {*start.tags, *end.tags}
    return found


def _start(path: Path) -> bytes:
    """The first bytes of a regular file; none of what cannot be read: reading it says why."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(LONGEST_LOOK)
    except OSError:
        return b""


def _keys(lines: bytes) -> set[str]:
    """The keys of JSON objects, one a line; a last line that is cut off is left out."""
    found: set[str] = set()
    for line in lines.splitlines():
        try:
            row = parse_json(line)
        except ValueError:
            continue
        found |= row.keys() if isinstance(row, dict) else set()
    return found
