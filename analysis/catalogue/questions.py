"""A question in SQL -> rows of the index. It can read the three tables, and do nothing else.

The file is opened for reading; an authorizer lets through reading, a list of functions and recursion; a handler
ends what runs for too long; no text may grow beyond a megabyte.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from gputel.analysis.catalogue.index import gone_if_damaged
from gputel.analysis.catalogue.names import KnownNames, condition, expression
from gputel.telemetry.errors import GputelError
from gputel.telemetry.file_names import natural_order

LONGEST_S = 10.0
LOOK_EVERY = 20_000  # steps of SQLite's machine
MOST_CELLS = 10_000_000  # of an answer, which is held in memory
ROWS_AT_ONCE = 10_000
LARGEST = 1 << 20  # bytes of a value that a question makes
FUNCTIONS = frozenset(
    """abs avg ceil ceiling coalesce count cume_dist date datetime dense_rank exp first_value floor glob
    group_concat ifnull iif instr julianday lag last_value lead length like ln log log10 log2 lower ltrim max min
    mod nth_value ntile nullif percent_rank pow power rank round row_number rtrim sign sqrt strftime substr
    substring sum time total trim trunc typeof unixepoch upper""".split()
)
TABLES = frozenset({"runs", "settings", "metrics"})


@dataclass(frozen=True)
class RunRows:
    """The rows of a question; `paths` of the runs, where each row is one."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    paths: Sequence[str] = ()


@contextmanager
def reading(file: Path) -> Iterator[sqlite3.Connection]:
    """Opens the index for questions."""
    connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)
    with closing(connection), gone_if_damaged(file):
        begun = time.monotonic()
        connection.set_progress_handler(lambda: int(time.monotonic() - begun > LONGEST_S), LOOK_EVERY)
        if sys.version_info >= (3, 11):
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.set_authorizer(_may)
        connection.create_collation("natural_order", _compare)
        yield connection


def _compare(path: str, other: str) -> int:
    """Sorts run2 before run10."""
    one, two = _natural_order(path), _natural_order(other)
    return (one > two) - (one < two)


_natural_order = lru_cache(maxsize=100_000)(natural_order)


def _may(
    action: int, first: str | None, second: str | None, database: str | None, _trigger: str | None
) -> int:
    """SQLite's authorizer: allows an action or not; recursion only if the length of texts can be limited."""
    if action == sqlite3.SQLITE_SELECT:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_READ:
        return sqlite3.SQLITE_OK if first in TABLES or not first or not database else sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_OK if (second or "").lower() in FUNCTIONS else sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_RECURSIVE and sys.version_info >= (3, 11):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def ask(connection: sqlite3.Connection, sql: str, values: Sequence[object] = ()) -> RunRows:
    """Answers one SELECT; anything else is wrong usage."""
    try:
        found = connection.execute(sql, values)
        columns = [column[0] for column in found.description or ()]
        rows: list[tuple[Any, ...]] = []
        while more := found.fetchmany(ROWS_AT_ONCE):
            rows += more
            if len(rows) * len(columns) > MOST_CELLS:
                fault = f"has an answer of more than {MOST_CELLS:,} cells"
                raise GputelError("the question", fault, "add a LIMIT, or name fewer columns", exit_code=2)
        return RunRows(columns, rows)
    except sqlite3.Error as error:
        if "malformed" in str(error) or "decode" in str(error):
            raise
        raise GputelError("the question", _fault(error), "see docs/runs.md", exit_code=2) from None
    except (sqlite3.Warning, UnicodeEncodeError, ValueError, OverflowError, MemoryError) as error:
        raise GputelError(
            "the question", str(error) or "is too large", "see docs/runs.md", exit_code=2
        ) from None


def _fault(error: sqlite3.Error) -> str:
    text = str(error)
    if text == "interrupted":
        return f"took more than {LONGEST_S:.0f} s, and was ended"
    if "prohibited" in text or "not authorized" in text:
        return f"{text}: a question may only read runs, settings and metrics"
    return text


def rows_of(
    connection: sqlite3.Connection,
    columns: Sequence[str],
    where: str | None,
    sort: Sequence[str],
    below: Sequence[Path] = (),
    limit: int | None = None,
) -> RunRows:
    """The chosen columns of the runs that meet a condition, below any of the places."""
    names = KnownNames(connection)
    chosen = [f"{expression(name, names)} AS {_quoted(name)}" for name in columns]
    order = [_order(word, names) for word in sort]
    conditions = [f"({condition(where, names)})" if where and where.strip() else "1"]
    values: list[object] = []
    if below:
        conditions.append(f"({' OR '.join(['r.path = ? OR substr(r.path, 1, ?) = ?'] * len(below))})")
        for place in below:
            start = f"{place}/"
            values += [str(place), len(start), start]
    order.append("r.started, r.path COLLATE natural_order")
    sql = (
        f"SELECT {', '.join(chosen)} FROM runs r WHERE {' AND '.join(conditions)} ORDER BY {', '.join(order)}"
    )
    if limit is not None:
        sql += f" LIMIT {int(limit)}"
    return ask(connection, sql, values)


def settings(connection: sqlite3.Connection) -> dict[str, dict[str, float | str]]:
    """The settings of every run, by its path."""
    found: dict[str, dict[str, float | str]] = {}
    sql = "SELECT r.path, s.key, coalesce(s.num, s.text) FROM runs r JOIN settings s ON s.run = r.id"
    for path, key, value in ask(connection, sql).rows:
        found.setdefault(path, {})[key] = value
    return found


def _order(word: str, names: KnownNames) -> str:
    """`-NAME` sorts downwards; unknown values come last either way, and run2 before run10."""
    way = "DESC" if word.startswith("-") else "ASC"
    return f"{expression(word.lstrip('-'), names)} COLLATE natural_order {way} NULLS LAST"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
