"""The end of a recording: telemetry is compacted, the report made, the rest sent, in a process of its own.

The recorder starts it when the command has ended. It imports numpy and polars, which abort where memory is short:
then the report is missing, one line says so, and the exit code is still the command's. Both are done by one process
because that import costs more than the two of them for a recording of some minutes.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shlex
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputel.telemetry import own_process

if TYPE_CHECKING:
    from gputel.analysis.report.summary import RecordingSummary
    from gputel.telemetry.process.exit_limit import ExitLimit
    from gputel.telemetry.remote.sidecar import SyncOrder

START = own_process.code("gputel.cli.final_report")
MOST_THREADS = 4


@dataclass(frozen=True)
class ReportOrder:
    """The run to report on, and how to show it."""

    run: str
    tables: Sequence[str]
    """The folders of the segment whose ticks are to be compacted."""
    kinds: Sequence[str]
    """Which files are written: html, png, svg, pdf."""
    as_json: bool
    look: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a `PictureLook`."""
    sending: SyncOrder | None = None
    """Where the segment goes, if it is sent."""


def show_report(order: ReportOrder, limit: ExitLimit | None = None) -> str | None:
    """Starts the process and waits for it. Returns why there is no report; None if there is one.

    The first Ctrl-C ends the process, from a terminal it has reached it already; the second does not wait for it.
    Ctrl-Z stops both: the recorder blocks that signal, and a shell cannot continue a job that it has not seen stop.
    """
    argv = [sys.executable, *own_process.options(), "-c", START, json.dumps(asdict(order))]
    number = signal.SIGINT
    pid = os.posix_spawn(argv[0], argv, _environment(), setsigmask=(number,), setsigdef=(number,))
    if limit is not None:
        limit.child = pid
    while True:
        try:
            status = os.waitpid(pid, os.WUNTRACED)[1]
            if not os.WIFSTOPPED(status):
                return _fault(os.waitstatus_to_exitcode(status))
            os.kill(os.getpid(), signal.SIGSTOP)
            os.kill(pid, signal.SIGCONT)
        except KeyboardInterrupt:
            os.kill(pid, number)
            number = signal.SIGKILL


def show_short(order: ReportOrder) -> bool:
    """Shows the end of a recording of a moment, in this process; False if there is more to show or to do."""
    from gputel.analysis.documents.short_recording import short_document
    from gputel.cli import show

    if order.tables or order.kinds or order.as_json or order.sending:
        return False
    document = short_document(Path(order.run))
    if document is not None:
        show.note("")
        show.document(document, sys.stderr)
    return document is not None


def _environment() -> dict[str, str]:
    """Few threads, each of which takes memory: 128 cores would have 128 of them."""
    threads = str(min(MOST_THREADS, os.cpu_count() or 1))
    few = {"OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": threads}
    return {**few, **os.environ}


def _fault(status: int) -> str | None:
    if status == 0:
        return None
    if status == -signal.SIGINT:
        return "interrupted"
    return f"its process ended by {signal.Signals(-status).name}" if status < 0 else "its process failed"


def main(order: str) -> None:
    """Makes the report in this process; `order` is the JSON of a `ReportOrder`. Ctrl-C is blocked until here."""
    from gputel.cli import prepare_output, show

    prepare_output()
    wanted = _order(json.loads(order))
    gc.disable()  # imports make objects that stay: looking through them took a sixth of the time
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
        _compact(wanted)
        _make(wanted)
        if wanted.sending:
            _send(wanted.sending)
    except BaseException as error:  # polars panics with exceptions that are no Exception
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with contextlib.suppress(OSError):
            show.error(no_report(wanted.run, why(error)))


def _order(facts: dict[str, Any]) -> ReportOrder:
    if facts["sending"]:
        from gputel.telemetry.remote.sidecar import SyncOrder

        facts["sending"] = SyncOrder(**facts["sending"])
    return ReportOrder(**facts)


def _send(order: SyncOrder) -> None:
    """Sends the rest in a thread that the grace outlives; what is left then can be sent by hand."""
    from gputel.cli import show
    from gputel.telemetry.errors import GputelError
    from gputel.telemetry.remote.courier import Sent
    from gputel.telemetry.remote.sidecar import GRACE_S

    faults = [f"not all of it within {GRACE_S:.0f} s"]

    def send() -> None:
        try:
            order.courier(Sent()).send(over=True)
            faults.clear()
        except (GputelError, OSError) as error:
            faults[:] = [str(error)]

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    thread.join(GRACE_S)
    if faults:
        again = shlex.join(["gputel", "sync", order.run, order.address])
        show.error(f"not sent: {faults[0]}; send it by hand: {again}")
    else:
        show.note(f"sent      {order.address}")


def has_journals(order: ReportOrder) -> bool:
    """Whether ticks are left that are not compacted."""
    return any(any(Path(table).glob("*.gtb")) for table in order.tables)


def why(error: BaseException) -> str:
    """One line about an exception; some have no text, others a page of it."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def no_report(run: str, fault: str) -> str:
    """The line that stands in place of a report."""
    return f"{run}: no report: {fault}; see 'gputel info {run}'"


def not_compacted(run: str, fault: str) -> str:
    """The line about a failed compaction."""
    return f"{run}: telemetry was not compacted: {fault}; it is whole, and read as it is"


def _compact(order: ReportOrder) -> None:
    """Compacts all ticks of the tables; a failure is a line, and readers read the journals."""
    from gputel.cli import show

    if not order.tables:
        return
    try:
        from gputel.telemetry.store import parquet

        for table in order.tables:
            parquet.compact(Path(table), everything=True)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        show.note(not_compacted(order.run, why(error)))


def _make(order: ReportOrder) -> None:
    from gputel.analysis.documents.record import record_document
    from gputel.analysis.report.summary import recording_summary
    from gputel.cli import show

    gc.freeze()
    gc.enable()
    run = Path(order.run)
    if order.kinds:
        _write_page(run, order)
    summary = recording_summary(run)
    _write_facts(run, summary)
    if order.as_json:
        show.as_json(summary.as_json())
    else:
        show.note("")
        show.document(record_document(summary), sys.stderr)


def _write_facts(run: Path, summary: RecordingSummary) -> None:
    """Writes facts.json, by which `gputel runs` knows the run without reading it; a full disk leaves it out."""
    from gputel.analysis.catalogue import facts_file

    with contextlib.suppress(OSError):
        facts_file.write_facts(run, summary.gpus)


def _write_page(run: Path, order: ReportOrder) -> None:
    """Writes the page of `gputel report` into the run's own folder."""
    from gputel.analysis.documents.report import report_document
    from gputel.analysis.render.style import PictureLook
    from gputel.analysis.report.run_report import make_report
    from gputel.analysis.runs import read_run
    from gputel.cli import options, report

    page, look = report_document(make_report(read_run(run))), PictureLook(**order.look)
    options.write(page, list(order.kinds), run, report.NAME, force=True, look=look)
