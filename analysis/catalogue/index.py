"""The table of all runs that were looked at: a SQLite file in the user's cache, which may be deleted at any time.

A run is computed once. It is looked at again only when its signature changes, which is taken before it is read, so
that a run that grows meanwhile is read again. Runs of a folder that vanished leave the table, unless the whole
place vanished, as a disk that is not mounted: then they stay, and are marked `away`.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from gputel.analysis import stores, text
from gputel.analysis.catalogue import signatures
from gputel.analysis.catalogue.compute import Computed, Engine, compute_where_it_pays
from gputel.analysis.catalogue.facts import FACTS, FACTS_VERSION, FIGURES, CatalogueRow
from gputel.analysis.runs import paths
from gputel.telemetry.errors import GputelError
from gputel.telemetry.user_folders import user_folder

BUSY_S = 10.0
RUNNING_S = 60.0  # a run that goes on is computed at most so often
LONGEST_UNWRITTEN_S = 1.0  # rows are written together, and a killed process loses no more than these
SQL_TYPES = {"text": "TEXT", "time": "TEXT", "whole": "INTEGER", "number": "REAL"}
NO_DAMAGE = ("locked", "readonly", "disk I/O", "is full", "unable to open")
"""In an error of SQLite that says nothing of the file."""
ELSEWHERE = "set XDG_CACHE_HOME to a folder that you can write to"


def default_file() -> Path:
    """A file of this version's own in the user's cache folder.

    Several versions may run at once. One that replaced the file would leave the other with one that has no name.
    """
    return user_folder("CACHE") / f"catalogue-{FACTS_VERSION}-{LAYOUT:08x}.db"


@dataclass
class Changes:
    """Counts of an update."""

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
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        connection = _opened_or_none(file)
        if connection is None:
            _delete(file)
            connection = _opened_or_none(file)
    except OSError as error:
        raise GputelError(str(file), f"the index of runs: {error.strerror}", ELSEWHERE) from None
    if connection is None:
        raise GputelError(str(file), "the index of runs cannot be written", ELSEWHERE)
    with closing(connection), gone_if_damaged(file):
        yield connection


@contextmanager
def gone_if_damaged(file: Path) -> Iterator[None]:
    """Deletes an index in which damage is met while it is used; nothing in it is the only copy."""
    try:
        yield
    except sqlite3.Error as error:
        if (hindered := _hindrance(file, error)) is not None:
            raise hindered from None
        _delete(file)
        fault = f"the index of runs was damaged ({error}) and is deleted"
        raise GputelError(str(file), fault, "ask again: it is made anew") from None


def _hindrance(file: Path, error: sqlite3.Error) -> GputelError | None:
    """The message for an error that is no damage of the file; None for damage."""
    if not any(word in str(error) for word in NO_DAMAGE):
        return None
    hint = "try again" if "locked" in str(error) else f"{ELSEWHERE}, or ask with --no-update"
    return GputelError(str(file), f"the index of runs: {error}", hint)


def _delete(file: Path) -> None:
    for ending in ("", "-journal", "-wal", "-shm"):
        Path(f"{file}{ending}").unlink(missing_ok=True)


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
        if (hindered := _hindrance(file, error)) is not None:
            raise hindered from None
        return None
    except (sqlite3.DatabaseError, UnicodeDecodeError):  # sqlite3 cannot decode a message that quotes damage
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
            text TEXT, PRIMARY KEY (run, key)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS metrics (run INTEGER REFERENCES runs(id) ON DELETE CASCADE, name TEXT,
            {figures}, PRIMARY KEY (run, name)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS others (path TEXT PRIMARY KEY, signature TEXT, facts_version INTEGER);
        CREATE TABLE IF NOT EXISTS roots (path TEXT PRIMARY KEY);
        CREATE INDEX IF NOT EXISTS settings_by_key ON settings (key);
        CREATE INDEX IF NOT EXISTS metrics_by_name ON metrics (name);"""


TABLES = _tables()
COLUMNS = [name for name in FACTS if name != "path"]
OF_INDEX = ("id", "path", "signature", "facts_version", "looked")
WRITTEN = [f'"{name}"' for name in (*OF_INDEX, *COLUMNS)]
INSERT_RUN = f"INSERT INTO runs ({', '.join(WRITTEN)}) VALUES ({', '.join('?' * len(WRITTEN))})"
INSERT_METRIC = f"INSERT INTO metrics VALUES (?, ?{', ?' * len(FIGURES)})"
LAYOUT = crc32(TABLES.encode()) >> 1  # a file with other tables is made anew


def known_roots(connection: sqlite3.Connection) -> list[Path]:
    """The places that were asked about before."""
    rows = connection.execute("SELECT path FROM roots WHERE typeof(path) = 'text' ORDER BY path")
    return [Path(path) for (path,) in rows]


def is_there(root: Path) -> bool:
    """Whether a place exists; a run of a database is a part of a file."""
    return stores.split(root)[0].exists()


def update(
    connection: sqlite3.Connection,
    roots: Sequence[Path],
    show: Callable[[list[Path]], Iterable[Path]] = lambda stale: stale,
    *,
    remember: bool = True,
    engine: Engine = compute_where_it_pays,
) -> Changes:
    """Makes the table true of everything below the roots; with `remember`, later questions are about them, too."""
    if remember:
        names = [(str(root),) for root in roots]
        connection.executemany("INSERT OR IGNORE INTO roots VALUES (?)", names)
    changes = Changes()
    present, stale = _looked_through(roots, _known(connection), changes)
    rows_at_once: list[IndexedRow] = []
    written = time.monotonic()
    for path, computed in zip(show(list(stale)), engine(list(stale)), strict=True):
        rows_at_once += _signed(path, stale[path], computed, changes)
        if time.monotonic() - written > LONGEST_UNWRITTEN_S:
            put(connection, rows_at_once)
            rows_at_once, written = [], time.monotonic()
    put(connection, rows_at_once)
    _forget(connection, roots, present, changes)
    return changes


def _looked_through(
    roots: Iterable[Path], known: Mapping[str, KnownRun], changes: Changes
) -> tuple[set[str], dict[Path, str]]:
    """Everything that is there, and what of it must be read, with its signature; the others are counted."""
    present: set[str] = set()
    stale: dict[Path, str] = {}

    def is_unchanged(entry: os.DirEntry[str]) -> bool:
        """Whether a recording that ended, or a file, is as it was when it was read."""
        before = known.get(entry.path)
        if before is None or not before.is_as_signed(signatures.quick(entry, before.signature)):
            return False
        present.add(entry.path)
        changes.unchanged += 1
        return True

    for root in roots:
        for path in paths.walk(root, is_known=is_unchanged) if is_there(root) else ():
            name = str(path)
            if name in present:
                continue
            present.add(name)
            before = known.get(name)
            now = None if before and before.is_fresh else signatures.signature(path)
            if now is None or (before and before.is_as_signed(signatures.ended_signature(name), now)):
                changes.unchanged += 1
            else:
                stale[path] = now
    return present, stale


class KnownRun(NamedTuple):
    """A path in the index: its signature, and when it was looked at."""

    signature: str
    version: int
    looked: float | None
    status: str | None

    def is_as_signed(self, *any_of: str | None) -> bool:
        return self.signature in any_of and self.version == FACTS_VERSION

    @property
    def is_fresh(self) -> bool:
        """Whether it went on when it was computed, and that was just now."""
        is_recent = self.looked is not None and time.time() - self.looked < RUNNING_S
        return self.status == "running" and is_recent and self.version == FACTS_VERSION


def _known(connection: sqlite3.Connection) -> dict[str, KnownRun]:
    """The known run at each path; nothing for a damaged row."""
    rows = connection.execute(
        "SELECT * FROM (SELECT path, signature, facts_version, looked, status FROM runs "
        "UNION ALL SELECT path, signature, facts_version, NULL, NULL FROM others) "
        "WHERE typeof(path) = 'text' AND typeof(signature) = 'text' AND typeof(looked) IN ('real', 'null')"
    )
    return {path: KnownRun(*rest) for path, *rest in rows}


def _signed(path: Path, now_signature: str, row: Computed, changes: Changes) -> list[IndexedRow]:
    """The row with its signature; a run that cannot be read is among the faults, and is tried again next time."""
    if isinstance(row, str):
        changes.faults.append(row)
        return []
    changes.computed += row is not None
    if row and _has_ended(row.facts):
        now_signature = signatures.after_end(path, now_signature)
    return [IndexedRow(path, now_signature, row)]


def _has_ended(facts: Mapping[str, Any]) -> bool:
    return facts["kept_by"] == "recording" and facts["ended"] is not None and facts["status"] != "running"


def put(connection: sqlite3.Connection, rows: Sequence[IndexedRow]) -> None:
    """Writes rows in one transaction, each in the place of the one that its path had."""
    now = time.time()
    connection.execute("BEGIN IMMEDIATE")
    try:
        names = [(str(path),) for path, _, _ in rows]
        connection.executemany("DELETE FROM runs WHERE path = ?", names)
        connection.executemany("DELETE FROM others WHERE path = ?", names)
        others = [(str(path), sign, FACTS_VERSION) for path, sign, row in rows if row is None]
        connection.executemany("INSERT INTO others VALUES (?, ?, ?)", others)
        (number,) = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM runs").fetchone()
        runs = [(str(path), sign, row) for path, sign, row in rows if row is not None]
        connection.executemany(
            INSERT_RUN,
            (
                (at, path, sign, FACTS_VERSION, now, *map(row.facts.get, COLUMNS))
                for at, (path, sign, row) in enumerate(runs, number)
            ),
        )
        connection.executemany("INSERT INTO settings VALUES (?, ?, ?, ?)", _settings(runs, number))
        connection.executemany(INSERT_METRIC, _metrics(runs, number))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk ends it
            connection.execute("ROLLBACK")
        raise


def _settings(
    runs: Iterable[tuple[str, str, CatalogueRow]], number: int
) -> Iterator[tuple[int, str, float | None, str]]:
    for at, (_, _, row) in enumerate(runs, number):
        for key, value in row.settings.items():
            yield at, key, numeric(value), str(value)


def _metrics(runs: Iterable[tuple[str, str, CatalogueRow]], number: int) -> Iterator[tuple[Any, ...]]:
    for at, (_, _, row) in enumerate(runs, number):
        for name, figures in row.metrics.items():
            yield at, name, *map(figures.get, FIGURES)


def numeric(value: float | str) -> float | None:
    """The number of a setting, also of one that is kept as text; None of any other text."""
    if isinstance(value, (int, float)):
        return float(value)
    return float(value) if text.NUMERIC.fullmatch(value.strip()) else None


def _forget(
    connection: sqlite3.Connection, roots: Sequence[Path], present: set[str], changes: Changes
) -> None:
    """Takes out runs that are no longer there; those of a place that vanished as a whole are marked."""
    for root in roots:
        is_away = not is_there(root)
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
