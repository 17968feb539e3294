"""Rows of a log as observations, in the order of their lines."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from gputel.analysis.alarms import observations
from gputel.analysis.alarms.observations import Evaluation, EventSeen, Record
from gputel.analysis.logs.files import read_file

LOG = """2026-11-21T12:00:00Z step 1/9 | loss: 3.0 | dt: 100.00ms
2026-11-21T12:00:01Z saved checkpoint to out/step_1.pt
2026-11-21T12:00:02Z Step 1 | Validation loss: 3.1
2026-11-21T12:00:03Z step 2/9 | loss: 2.9 | dt: 100.00ms
"""
NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc).timestamp()


def test_rows_come_in_the_order_of_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(LOG)
    log = read_file(path)
    placed = list(observations.placed(log.records, log.evals, log.events))
    moments = [(line, type(moment), moment.at_s) for line, _, moment in placed if _is_expected(moment)]
    assert moments == [
        (1, Record, NOON),
        (2, EventSeen, NOON + 1),
        (3, Evaluation, NOON + 2),
        (4, Record, NOON + 3),
    ]


def _is_expected(moment: object) -> bool:
    return not isinstance(moment, EventSeen) or moment.kind == "checkpoint"


def test_record_has_its_metrics_and_the_rank_of_its_source(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(LOG)
    log = read_file(path)
    _, _, record = next(observations.placed(log.records, log.evals, log.events, lambda _: None, "rank 3"))
    assert isinstance(record, Record)
    assert (record.step, record.values, record.rank, record.at_s) == (
        1,
        {"loss": 3.0, "dt_ms": 100.0},
        "rank 3",
        None,
    )
