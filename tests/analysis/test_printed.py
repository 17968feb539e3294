"""Whole logs of many programs: records, steps, losses, evaluations, events and the end, each exactly."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from gputel.analysis.parse.log import Log
from tests.analysis.printed import (
    Printed,
    elsewhere,
    endings,
    language,
    pasted,
    programs,
    scripts,
    speech,
    tables,
    variations,
    vision,
)

LOGS = (
    *language.LOGS,
    *vision.LOGS,
    *speech.LOGS,
    *tables.LOGS,
    *scripts.LOGS,
    *programs.LOGS,
    *endings.LOGS,
    *variations.LOGS,
    *pasted.LOGS,
)


@pytest.mark.parametrize("printed", LOGS, ids=lambda printed: printed.name)
def test_a_log_gives_what_it_printed(printed: Printed, read: Callable[[str], Log]) -> None:
    log = read(printed.text)
    assert told(log, printed) == wanted(printed)


def wanted(printed: Printed) -> dict[str, object]:
    return {
        "records": printed.records,
        "first": repr(printed.first),  # so that a NaN equals another
        "last": repr(printed.last),
        "evals": printed.evals,
        "columns": set(printed.columns),
        "total": printed.total,
        "attempts": printed.attempts if printed.records or printed.evals else 0,
        "events": printed.events,
        "status": printed.status,
        "cause": printed.cause,
    }


def told(log: Log, printed: Printed) -> dict[str, object]:
    records = log.records
    ends = [
        (row["step"], row.get("loss")) for row in (*records.head(1).to_dicts(), *records.tail(1).to_dicts())
    ]
    totals = records["total_steps"].drop_nulls().to_list() if "total_steps" in records.columns else []
    counts = dict(log.events.group_by("kind").len().iter_rows())
    return {
        "records": records.height,
        "first": repr(ends[0] if ends else (None, None)),
        "last": repr(ends[1] if ends else (None, None)),
        "evals": {name: measured(log, name) for name in printed.evals},
        "columns": {name for name in printed.columns if name in records.columns and records[name].count()},
        "total": totals[-1] if totals and printed.total else None,
        "attempts": len(log.places),
        "events": {kind: counts.get(kind, 0) for kind in printed.events},
        "status": log.status,
        "cause": log.cause.text if log.cause else None,
    }


def measured(log: Log, name: str) -> tuple[int, object]:
    values = log.evals.filter(pl.col("name") == name)["value"]
    return len(values), values.min()


@pytest.mark.parametrize("text", elsewhere.NO_TRAINING.values(), ids=elsewhere.NO_TRAINING)
def test_what_no_training_printed_gives_nothing(text: str, read: Callable[[str], Log]) -> None:
    log = read(text)
    assert (log.records.height, log.evals.height, log.rejects) == (0, 0, [])
    assert log.status == "unknown"


@pytest.mark.parametrize("text", elsewhere.NO_TRAINING.values(), ids=elsewhere.NO_TRAINING)
def test_what_others_print_between_records_changes_none(text: str, read: Callable[[str], Log]) -> None:
    """Known formats and inferred ones alike."""
    for record in ("iter {0}: loss {1:.4f}, time 10.00ms, mfu 20.00%\n", "it={0} >> nll {1:.4f} ~ speed 3\n"):
        rows = [record.format(i, 9 / (i + 1)) for i in range(120)]
        log = read("".join(rows[:60]) + text + "".join(rows[60:]))
        assert log.records["step"].to_list() == list(range(120))
        assert log.evals.is_empty()
