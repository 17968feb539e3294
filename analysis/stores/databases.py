"""SQLite databases of MLflow and trackio -> one stored run for each run in them.

A database is opened for reading only. Beside a write-ahead log on a read-only disk SQLite cannot open it: then both
are copied, and the copy is opened.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from gputel.analysis.logs.outcome import LogEvent, Status
from gputel.analysis.stores.points import StoredRun, from_rows, from_series, number, setting, settings, whole
from gputel.analysis.stores.system_metrics import MLFLOW, TRACKIO, SystemMetrics
from gputel.telemetry.errors import GputelError

Tool = Literal["mlflow", "trackio"]
MAGIC = b"SQLite format 3\x00"
BUSY_S = 5.0
SHORT = 8  # letters of a run's id that tell it from others of its name
IN_NO_ADDRESS = re.compile("[#/]")  # letters of a name that the last part of FILE#RUN cannot have
STEPS = 50_000_000  # of SQLite's machine, after which a query of a hostile database ends
UNENDING = {sys.float_info.max: math.inf, -sys.float_info.max: -math.inf}  # what MLflow keeps for infinity
ENDINGS: dict[str, Status] = {"FINISHED": "completed", "FAILED": "failed", "KILLED": "interrupted"}
TABLES: dict[Tool, frozenset[str]] = {
    "mlflow": frozenset({"runs", "metrics", "params", "tags"}),
    "trackio": frozenset({"metrics", "configs"}),
}


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Opens a database for reading; raises OSError for any other file."""
    with tempfile.TemporaryDirectory(prefix="gputel-") as folder:
        try:
            connection = _connect(path)
        except sqlite3.Error:
            copy = Path(folder) / "copy.db"
            for ending in ("", "-wal"):
                if Path(f"{path}{ending}").is_file():
                    shutil.copyfile(f"{path}{ending}", f"{copy}{ending}")
            try:
                connection = _connect(copy)
            except sqlite3.Error as error:
                raise OSError(0, f"the database cannot be read: {error}") from None
        with closing(connection):
            yield connection


def _connect(path: Path) -> sqlite3.Connection:
    quoted = path.resolve().as_uri().removeprefix("file://")
    connection = sqlite3.connect(f"file:{quoted}?mode=ro", uri=True, timeout=BUSY_S)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.set_progress_handler(lambda: 1, STEPS)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except UnicodeDecodeError:  # of sqlite3's own message, which quotes the damage
        connection.close()
        raise sqlite3.DatabaseError("its schema is damaged") from None
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def tool(path: Path) -> Tool | None:
    """Which tool's database a file is; None of any other."""
    try:
        with opened(path) as connection:
            return _tool(connection)
    except (OSError, sqlite3.Error):
        return None


def _tool(connection: sqlite3.Connection) -> Tool | None:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return next((name for name, needed in TABLES.items() if needed <= tables), None)


def runs(path: Path) -> list[str]:
    """The names of the runs in a database, by which they are addressed; with a short id where two share one."""
    try:
        with opened(path) as connection:
            return [name for name, _ in _named(connection)]
    except (OSError, sqlite3.Error):
        return []


def read(path: Path, run: str | None) -> StoredRun:
    """Reads one run; the only one if none is named."""
    try:
        with opened(path) as connection:
            which, named = _tool(connection), _named(connection)
            chosen = [key for name, key in named if run is None or run in (name, key)]
            if len(chosen) != 1 or which is None:
                names = [name for name, _ in named]
                near = [name for name in names if name.startswith(f"{run}-")] or names
                hint = f"name one of them: {path}#RUN of {', '.join(near[:5])}"
                raise GputelError(str(path), f"holds {len(named)} runs", hint)
            label = next(name for name, key in named if key == chosen[0])
            reader = _mlflow if which == "mlflow" else _trackio
            return reader(connection, chosen[0], label, f"{path}#{label}" if run is not None else str(path))
    except sqlite3.Error as error:
        raise OSError(0, f"the database cannot be read: {error}") from None


def _named(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """The name and the key of each run."""
    which = _tool(connection)
    if which == "mlflow":
        columns = _columns(connection, "runs")
        name = "r.name" if "name" in columns else "NULL"
        query = (
            "SELECT coalesce((SELECT value FROM tags t WHERE t.run_uuid = r.run_uuid AND "
            f"t.key = 'mlflow.runName'), {name}), r.run_uuid FROM runs r "
            "WHERE r.lifecycle_stage IS NULL OR r.lifecycle_stage <> 'deleted' "
            "ORDER BY r.start_time, r.rowid"
        )
    elif which == "trackio":
        key = "run_id" if "run_id" in _columns(connection, "metrics") else "run_name"
        query = f"SELECT min(run_name), {key} FROM metrics GROUP BY {key} ORDER BY min(rowid)"
    else:
        return []
    return _labelled([(str(name or ""), str(key)) for name, key in connection.execute(query)])


def _labelled(runs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Unique labels for names and keys. A whole key of MLflow alone would look like a secret, and be masked."""
    names = Counter(name for name, _ in runs)
    starts = Counter((name, key[:SHORT]) for name, key in runs)
    labels = []
    for name, key in runs:
        short = key[:SHORT] if starts[name, key[:SHORT]] == 1 else key
        label = name if name and names[name] == 1 else "-".join(part for part in (name, short) if part)
        labels.append((IN_NO_ADDRESS.sub("_", label), key))
    return labels


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def _mlflow(connection: sqlite3.Connection, key: str, name: str, source: str) -> StoredRun:
    series: dict[str, list[tuple[int, int, float]]] = {}
    chosen = "SELECT key, step, timestamp, value, is_nan FROM metrics WHERE run_uuid = ?"
    query = f"{chosen} ORDER BY key, timestamp, step"
    for tag, step, stamp, value, is_nan in connection.execute(query, (key,)):
        cell, at = number(value), whole(step)
        if cell is not None and at is not None:
            exact = math.nan if is_nan else UNENDING.get(cell, cell)
            series.setdefault(str(tag), []).append((at, (whole(stamp) or 0) * 10**6, exact))
    series = {tag: sorted(rows, key=lambda row: (row[0], row[1])) for tag, rows in series.items()}
    params = connection.execute("SELECT key, value FROM params WHERE run_uuid = ?", (key,))
    config = {str(param): setting(value) for param, value in params}
    row = connection.execute(
        "SELECT status, start_time, end_time FROM runs WHERE run_uuid = ?", (key,)
    ).fetchone()
    status, started, ended = row or (None, None, None)
    return mlflow_run(name, source, series, config, str(status), _ns(started), _ns(ended))


def mlflow_run(
    name: str,
    source: str,
    series: dict[str, list[tuple[int, int, float]]],
    config: dict[str, float | str | None],
    status: str,
    started: int | None,
    ended: int | None,
) -> StoredRun:
    """Makes a run of MLflow, from its database or its folder."""
    system, metrics = SystemMetrics(MLFLOW), dict[str, list[tuple[int, int, float]]]()
    for tag, rows in series.items():
        if not MLFLOW.gpu.fullmatch(tag):
            metrics[tag] = rows
            continue
        for _, moment, value in rows:
            system.take(moment, tag, value)
    how = ENDINGS.get(status, "unknown")
    outcome = {"failed": "failed", "interrupted": "interrupted"}.get(how)
    cause = LogEvent("", 0, f"MLflow says {status}", fatal=outcome) if outcome else None  # type: ignore[arg-type]
    known = {key: value for key, value in config.items() if value is not None}
    return StoredRun(
        name,
        source,
        "mlflow",
        from_series(metrics),
        known,
        status=how,
        cause=cause,
        started=started,
        ended=ended,
        notes=system.notes,
        telemetry=system.table(None),
    )


def _ns(milliseconds: Any) -> int | None:
    moment = whole(milliseconds)
    return moment * 10**6 if moment and 0 < moment < 10**13 else None


def _trackio(connection: sqlite3.Connection, key: str, name: str, source: str) -> StoredRun:
    column = "run_id" if "run_id" in _columns(connection, "metrics") else "run_name"
    rows = connection.execute(
        f"SELECT step, timestamp, metrics FROM metrics WHERE {column} = ? ORDER BY rowid", (key,)
    )
    values = from_rows(
        (step, _moment(stamp), cells)
        for step, stamp, cells in ((whole(step), stamp, _json(text)) for step, stamp, text in rows)
        if step is not None
    )
    run_column, value = _of_run(connection, "configs", key, name)
    row = connection.execute(f"SELECT config FROM configs WHERE {run_column} = ?", (value,)).fetchone()
    config = _document(row[0]) if row else {}
    shown = {name: cell for name, cell in config.items() if not str(name).startswith("_")}
    system = _system_of_trackio(connection, key, name)
    notes, table = system.notes, system.table(None)
    return StoredRun(name, source, "trackio", values, settings(shown), notes=notes, telemetry=table)


def _of_run(connection: sqlite3.Connection, table: str, key: str, name: str) -> tuple[str, str]:
    """The column of a table of trackio that names the run, and what it has there; older ones lack the id."""
    if "run_id" in _columns(connection, table):
        return "run_id", key
    return "run_name", name if "run_id" in _columns(connection, "metrics") else key


def _system_of_trackio(connection: sqlite3.Connection, key: str, name: str) -> SystemMetrics:
    """Reads the table of system metrics, which older databases lack."""
    system = SystemMetrics(TRACKIO)
    if _columns(connection, "system_metrics") >= {"timestamp", "run_name", "metrics"}:
        column, value = _of_run(connection, "system_metrics", key, name)
        query = f"SELECT timestamp, metrics FROM system_metrics WHERE {column} = ? ORDER BY rowid"
        for stamp, text in connection.execute(query, (value,)):
            for tag, cell in _json(text).items():
                system.take(_moment(stamp), tag, cell)
    return system


def _document(text: Any) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def _json(text: Any) -> dict[str, float]:
    cells = {str(name): number(cell) for name, cell in _document(text).items()}
    return {name: cell for name, cell in cells.items() if cell is not None}


def _moment(stamp: Any) -> int:
    """Nanoseconds of an ISO time; 0 of anything else."""
    try:
        moment = datetime.fromisoformat(str(stamp).replace("Z", "+00:00"))
    except ValueError:
        return 0
    aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return round(aware.timestamp() * 1e6) * 1000
