"""Whole logs as programs print them: `tests/logs/<family>/<name>.log`, each beside a .toml of what it must give.

No line is copied from a log of others: the grammars come from the sources and docs of the programs, and the
expected figures are those that the log was composed from; a few were printed in small trainings of our own. A table
claims what it names and, by default, no cause and one attempt. `first` and `last` are records; where one names no
step or no loss, the record has none. `complete` columns have a value in every record, `columns` in some; of an
evaluation a table claims `count`, `min`, `max`, `steps` or `after`, or all values. `format = "inferred"` hides all
shipped formats from the parser.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gputel.analysis.logs import infer, regex_engine
from gputel.analysis.logs.lines import Splitter
from gputel.analysis.logs.log import Log
from gputel.analysis.logs.parser import Parser, make_parser

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).resolve().parents[2] / "logs"
LOGS = {
    log.relative_to(FOLDER).with_suffix("").as_posix(): log.read_bytes()
    for log in sorted(FOLDER.glob("*/*.log"))
}
TABLES = {
    table.relative_to(FOLDER).with_suffix("").as_posix(): table for table in sorted(FOLDER.glob("*/*.toml"))
}
NO_TRAINING = {name: log.decode() for name, log in LOGS.items() if name.startswith("no-training/")}


def column(log: Log, name: str) -> list[Any]:
    return log.records[name].drop_nulls().to_list() if name in log.records.columns else []


def record(rows: pl.DataFrame) -> dict[str, Any]:
    row = rows.row(0, named=True) if rows.height else {}
    return {key: row[key] for key in ("step", "loss") if row.get(key) is not None}


def evaluation(log: Log, name: str) -> pl.DataFrame:
    return log.evals.filter(pl.col("name") == name)


def facts(evaluated: pl.DataFrame) -> dict[str, Any]:
    values = evaluated["value"]
    places = {"steps": evaluated["step"].to_list(), "after": evaluated["after"].drop_nulls().to_list()}
    return {"count": len(values), "min": values.min(), "max": values.max(), **places}


FIGURES: dict[str, Callable[[Log], Any]] = {
    "records": lambda log: log.records.height,
    "evaluations": lambda log: log.evals.height,
    "rejects": lambda log: len(log.rejects),
    "attempts": lambda log: len(log.places),
    "first": lambda log: record(log.records.head(1)),
    "last": lambda log: record(log.records.tail(1)),
    "steps": lambda log: column(log, "step"),
    "loss": lambda log: column(log, "loss"),
    "dt_ms": lambda log: [round(value, 6) for value in column(log, "dt_ms")],
    "total_steps": lambda log: (column(log, "total_steps") or [None])[-1],
    "status": lambda log: log.status,
    "cause": lambda log: log.cause.text if log.cause else "",
}


def figure(log: Log, key: str, expected: Any) -> Any:
    """The figure of the log that a key of its table names, in the form in which the table writes it."""
    kind, _, name = key.partition(".")
    if kind == "evals":
        evaluated = evaluation(log, name)
        if isinstance(expected, dict):
            return {fact: value for fact, value in facts(evaluated).items() if fact in expected}
        return evaluated["value"].to_list()
    if kind == "events":
        return log.events.filter(pl.col("kind") == name).height
    if kind == "columns":
        return [column for column in expected if log.records.get_column(column, default=pl.Series()).count()]
    if kind == "complete":
        return [name for name in expected if len(column(log, name)) == log.records.height]
    return FIGURES[kind](log)


def claims(table: dict[str, Any]) -> dict[str, Any]:
    read = table.get("records") or table.get("evals")
    flat: dict[str, Any] = {"cause": "", "attempts": 1 if read else 0}
    for key, value in table.items():
        if key in ("evals", "events"):
            flat.update({f"{key}.{name}": one for name, one in value.items()})
        elif key != "format":
            flat[key] = value
    return flat


def parser_without_formats(log: bytes) -> Parser:
    splitter = Splitter()
    found = infer.infer(b"".join(chunk.data for chunk in [*splitter.feed(log), *splitter.finish()]))
    assert found is not None, "no format was inferred"
    return Parser((found.format,), regex_engine.read)


@pytest.mark.parametrize("name", LOGS)
def test_log_gives_the_figures_that_stand_beside_it(name: str, conclude: Callable[[Parser], Log]) -> None:
    table = tomllib.loads(TABLES[name].read_text(encoding="utf-8"))
    inferred = table.get("format") == "inferred"
    parser = parser_without_formats(LOGS[name]) if inferred else make_parser()
    parser.feed(LOGS[name])
    parser.finish()
    log = conclude(parser)
    wrong = [
        f"tests/logs/{name}.log: {key}: expected {expected!r}, got {got!r}"
        for key, expected in claims(table).items()
        if repr(got := figure(log, key, expected)) != repr(expected)  # so that a NaN equals another
    ]
    assert not wrong, "\n".join(wrong)


def test_every_table_has_a_log_and_every_log_a_table() -> None:
    assert LOGS.keys() == TABLES.keys()


@pytest.mark.parametrize("name", NO_TRAINING)
def test_lines_of_other_programs_between_records_change_none(name: str, read: Callable[[str], Log]) -> None:
    """Known formats and inferred ones alike."""
    for record in ("iter {0}: loss {1:.4f}, time 10.00ms, mfu 20.00%\n", "it={0} >> nll {1:.4f} ~ speed 3\n"):
        rows = [record.format(i, 9 / (i + 1)) for i in range(120)]
        log = read("".join(rows[:60]) + NO_TRAINING[name] + "".join(rows[60:]))
        assert log.records["step"].to_list() == list(range(120))
        assert log.evals.is_empty()
