"""What a run printed, kept by a store -> its rows, where the store's own history has none."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO

from gputel.analysis.logs import files
from gputel.analysis.logs.log import Log

NOTE = "the history has no values: the rows are those of the console output"


def with_printed_rows(log: Log, printed: bytes) -> Log:
    """The log with the rows of the text, if it has none of its own; the end of the run is as the store says."""
    if not printed or log.records.height or log.evals.height:
        return log
    read = files.stream(BytesIO(printed), log.name, log.source)
    if read.is_empty:
        return log
    ending = {} if log.status == "unknown" else {"status": log.status, "cause": log.cause}
    read = replace(
        read.with_results(**ending),
        config={**read.config, **log.config},
        summary={**read.summary, **log.summary},
        rejects=log.rejects,
        notes=(*log.notes, NOTE),
    )
    return replace(read, fault=log.fault, started=log.started, ended=log.ended)
