"""The table of all runs that were looked at: a SQLite file in the user's cache, which may be deleted at any time.

A run is computed once. It is looked at again only when its signature changes, which is taken before it is read, so
that a run that grows meanwhile is read again. Runs of a folder that vanished leave the table, unless the whole
place vanished, as a disk that is not mounted: then they stay, and are marked `away`.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from gputel.analysis import stores
from gputel.analysis.catalogue.facts import FACTS, FACTS_VERSION, FIGURES, NAME, CatalogueRow, row_of
from gputel.analysis.runs import paths
from gputel.telemetry import run_folder
from gputel.telemetry.errors import GputelError
from gputel.telemetry.user_folders import user_folder

BUSY_S = 10.0
RUNNING_S = 60.0  # a run that goes on is computed at most so often
LONGEST_UNWRITTEN_S = 1.0  # rows are written together, and a killed process loses no more than these
SQL_TYPES = {"text": "TEXT", "time": "TEXT", "whole": "INTEGER", "number": "REAL"}
LAST = (
    ".",
    run_folder.DESCRIPTION,
    NAME,
    "segments",
)  # what changes in a recording that goes on after its end
ENDED = "ended"  # how the signature of a recording begins that will not change any more


def default_file() -> Path:
    """A file of this version's own in the user's cache folder.

    Several versions may run at once. One that replaced the file would leave the other with one that has no name.
    """
    return user_folder("CACHE") / f"catalogue-{FACTS_VERSION}-{LAYOUT:08x}.db"


@dataclass
class Changes:
    """What an update did."""

    computed: int = 0
    unchanged: int = 0
    left: int = 0
    away: int = 0
    faults: list[str] = field(default_factory=list)


class IndexedRow(NamedTuple):
    """A path with its signature, and the row of its run; None of a file that is no run."""

    path: Path
    signature: str
    row: CatalogueRow | None


@contextmanager
def opened(file: Path) -> Iterator[sqlite3.Connection]:
    """Opens the index for writing; one that is damaged, or of another layout, is made anew."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    connection = _opened_or_none(file)
    if connection is None:
        for ending in ("", "-journal", "-wal", "-shm"):
            Path(f"{file}{ending}").unlink(missing_ok=True)
        connection = _opened_or_none(file)
    if connection is None:
        raise GputelError(
            str(file), "the index of runs cannot be written", "set XDG_CACHE_HOME to a folder of yours"
        )
    try:
        yield connection
    finally:
        connection.close()


def _opened_or_none(file: Path) -> sqlite3.Connection | None:
    """Opens the file and makes its tables; None if it is no index of this layout."""
    try:
        connection = sqlite3.connect(file, timeout=BUSY_S, isolation_level=None)
    except sqlite3.Error:
        return None
    try:
        (layout,) = connection.execute("PRAGMA user_version").fetchone()
        if layout not in (0, LAYOUT):
            raise sqlite3.DatabaseError("another layout")
        if not layout:
            connection.executescript(f"BEGIN IMMEDIATE; {TABLES} PRAGMA user_version = {LAYOUT}; COMMIT;")
        connection.execute("SELECT count(*) FROM runs").fetchone()
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = OFF")  # a cache need not survive a power failure
    except sqlite3.OperationalError as error:
        connection.close()
        if "locked" in str(error) or "readonly" in str(error):
            raise GputelError(str(file), f"the index of runs: {error}", "try again") from None
        return None
    except sqlite3.DatabaseError:
        connection.close()
        return None
    return connection


def _tables() -> str:
    facts = ", ".join(f'"{name}" {SQL_TYPES[kind]}' for name, kind in FACTS.items() if name != "path")
    figures = ", ".join(f'"{name}" REAL' for name in FIGURES)
    return f"""
        CREATE TABLE IF NOT EXISTS runs (id INTEGER PRIMARY KEY, path TEXT UNIQUE NOT NULL, signature TEXT,
            facts_version INTEGER, looked REAL, away INTEGER DEFAULT 0, {facts});
        CREATE TABLE IF NOT EXISTS settings (run INTEGER REFERENCES runs(id) ON DELETE CASCADE, key TEXT, num REAL,
            text TEXT);
        CREATE TABLE IF NOT EXISTS metrics (run INTEGER REFERENCES runs(id) ON DELETE CASCADE, name TEXT,
            {figures});
        CREATE TABLE IF NOT EXISTS others (path TEXT PRIMARY KEY, signature TEXT, facts_version INTEGER);
        CREATE TABLE IF NOT EXISTS roots (path TEXT PRIMARY KEY);
        CREATE INDEX IF NOT EXISTS settings_by_key ON settings (key, run);
        CREATE INDEX IF NOT EXISTS settings_by_run ON settings (run);
        CREATE INDEX IF NOT EXISTS metrics_by_name ON metrics (name, run);
        CREATE INDEX IF NOT EXISTS metrics_by_run ON metrics (run);"""


TABLES = _tables()
LAYOUT = crc32(TABLES.encode()) >> 1  # a file with other tables is made anew


def known_roots(connection: sqlite3.Connection) -> list[Path]:
    """The places that were asked about before."""
    return [Path(path) for (path,) in connection.execute("SELECT path FROM roots ORDER BY path")]


def update(
    connection: sqlite3.Connection,
    roots: Sequence[Path],
    show: Callable[[list[Path]], Iterable[Path]] = lambda stale: stale,
    *,
    remember: bool = True,
) -> Changes:
    """Makes the table true of everything below the roots; with `remember`, later questions are about them, too."""
    changes = Changes()
    rows = connection.execute("SELECT path, signature, facts_version, looked, status FROM runs")
    known = {path: tuple(rest) for path, *rest in rows}
    others = connection.execute("SELECT path, signature, facts_version, NULL, NULL FROM others")
    known |= {path: tuple(rest) for path, *rest in others}
    present: set[str] = set()
    stale: list[tuple[Path, str]] = []
    now = time.time()
    for root in roots:
        if remember:
            connection.execute("INSERT OR IGNORE INTO roots VALUES (?)", (str(root),))
        for path in paths.walk(root, known=known.keys()) if root.exists() else ():
            name = str(path)
            if name in present:
                continue
            present.add(name)
            before = known.get(name)
            now_signature = signature(path, has_ended=bool(before and str(before[0]).startswith(ENDED)))
            if before and _is_current(before, now_signature, now):
                changes.unchanged += 1
            else:
                stale.append((path, now_signature))
    signatures = dict(stale)
    rows_at_once: list[IndexedRow] = []
    written = time.monotonic()
    for path in show([path for path, _ in stale]):
        rows_at_once += _computed(path, signatures[path], changes)
        if time.monotonic() - written > LONGEST_UNWRITTEN_S:
            put(connection, rows_at_once)
            rows_at_once, written = [], time.monotonic()
    put(connection, rows_at_once)
    _forget(connection, roots, present, changes)
    return changes


def _is_current(before: tuple[object, ...], now_signature: str, now: float) -> bool:
    was, version, looked, status = before
    if version != FACTS_VERSION:
        return False
    is_fresh = status == "running" and isinstance(looked, float) and now - looked < RUNNING_S
    return was == now_signature or is_fresh


def signature(path: Path, *, has_ended: bool = False) -> str:
    """What changes when a run does: sizes and times of its files; of a recording that ended, its description's."""
    if has_ended or (path.is_dir() and run_folder.is_run(path)):
        has_ended = has_ended or (path / NAME).is_file()  # which the recorder writes last
        files = [f"{path}/{name}" for name in LAST] if has_ended else sorted(map(str, path.rglob("*")))
    elif path.is_dir():
        within = stores.store_reader(path).files if stores.kind(path) != "tensorboard" else _event_files(path)
        files = [str(file) for file in within]
    else:
        file, _ = stores.split(path)
        files = [str(file), f"{file}-wal"]
    said = []
    for name in files:
        with suppress(OSError):
            facts = os.stat(name)  # noqa: PTH116
            said.append(f"{facts.st_size}:{facts.st_mtime_ns}:{facts.st_ino}")
    return f"{ENDED if has_ended else 'whole'} {blake2b(' '.join(said).encode(), digest_size=12).hexdigest()}"


def _event_files(folder: Path) -> list[Path]:
    from gputel.analysis.stores import tensorboard

    return [path for files in tensorboard.parts(folder).values() for path in files]


def _computed(path: Path, now_signature: str, changes: Changes) -> list[IndexedRow]:
    """The row of one path; a run that cannot be read is named among the faults, and tried again the next time."""
    try:
        row = row_of(path)
    except (GputelError, OSError) as error:
        changes.faults.append(str(error))
        return []
    changes.computed += row is not None
    if (
        row
        and row.facts["ended"]
        and row.facts["status"] != "running"
        and row.facts["kept_by"] == "recording"
    ):
        now_signature = signature(path, has_ended=True)
    return [IndexedRow(path, now_signature, row)]


def put(connection: sqlite3.Connection, rows: Sequence[IndexedRow]) -> None:
    """Writes rows in one transaction, each in the place of the one that its path had."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for path, now_signature, row in rows:
            connection.execute("DELETE FROM runs WHERE path = ?", (str(path),))
            connection.execute("DELETE FROM others WHERE path = ?", (str(path),))
            if row is None:
                cells = (str(path), now_signature, FACTS_VERSION)
                connection.execute("INSERT INTO others VALUES (?, ?, ?)", cells)
            else:
                _put_run(connection, path, now_signature, row)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _put_run(connection: sqlite3.Connection, path: Path, now_signature: str, row: CatalogueRow) -> None:
    facts = {**row.facts, "path": str(path)}
    columns = {**facts, "signature": now_signature, "facts_version": FACTS_VERSION, "looked": time.time()}
    names = ", ".join(f'"{name}"' for name in columns)
    marks = ", ".join("?" * len(columns))
    done = connection.execute(f"INSERT INTO runs ({names}) VALUES ({marks})", list(columns.values()))
    number = done.lastrowid
    cells = [(number, key, numeric(value), str(value)) for key, value in row.settings.items()]
    connection.executemany("INSERT INTO settings VALUES (?, ?, ?, ?)", cells)
    figures = [(number, name, *(each.get(key) for key in FIGURES)) for name, each in row.metrics.items()]
    connection.executemany(f"INSERT INTO metrics VALUES (?, ?{', ?' * len(FIGURES)})", figures)


def numeric(value: float | str) -> float | None:
    """The number of a setting, also of one that is kept as text; None of any other text."""
    from gputel.analysis.stores.points import NUMERIC  # with numpy, which a question needs not

    if isinstance(value, (int, float)):
        return float(value)
    return float(value) if NUMERIC.fullmatch(value.strip()) else None


def _forget(
    connection: sqlite3.Connection, roots: Sequence[Path], present: set[str], changes: Changes
) -> None:
    """Takes out runs that are no longer there; those of a place that vanished as a whole are marked."""
    for root in roots:
        is_away = not root.exists()
        below = f"{root}{os.sep}"
        for number, path in connection.execute("SELECT id, path FROM runs").fetchall():
            if path in present or not (path == str(root) or path.startswith(below)):
                continue
            if is_away or not Path(path).parent.parent.exists():
                connection.execute("UPDATE runs SET away = 1 WHERE id = ?", (number,))
                changes.away += 1
            else:
                connection.execute("DELETE FROM runs WHERE id = ?", (number,))
                changes.left += 1
