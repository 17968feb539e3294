"""The results of a gate -> its document: a row a check with its figures, and why each verdict is what it is."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputel.analysis import text
from gputel.analysis.document import Document, Section, Table

if TYPE_CHECKING:
    from gputel.analysis.compare.gate import GateResult

COLUMNS = ("metric", "verdict", "limit", "baseline", "run", "worse by (95 % interval)")


def gate_document(run: str, baseline: str | None, checks: Sequence[GateResult]) -> Document:
    """`run` and `baseline` are what the user called them."""
    counts = Counter(check.verdict for check in checks)
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    against = f"{run} against {baseline}" if baseline else run
    return Document(
        title=f"Gate of {against}",
        sections=(
            Section(items=(Table("", COLUMNS, [_row(check) for check in checks]),)),
            Section(text="\n".join(f"{check.metric}: {check.verdict}, {check.why}" for check in checks)),
        ),
        about=f"{against}: {verdicts}",
        next=shlex.join(["gputel", "compare", baseline, run]) if baseline and counts["failed"] else "",
    )


def cells(check: GateResult) -> tuple[str | None, ...]:
    """The limit, the values of baseline and run, and how much worse the run is."""
    return (
        f"{check.limit:.4g}" if check.kind == "target" else f"{check.limit:.2%}",
        None if check.baseline is None else text.number(check.baseline),
        None if check.value is None else text.number(check.value),
        _change(check),
    )


def _row(check: GateResult) -> list[str | None]:
    return [check.metric, check.verdict, *cells(check)]


def _change(check: GateResult) -> str | None:
    """Without an interval where a single number was compared."""
    if check.change is None:
        return None
    change = f"{check.change:+.2%}"
    if check.low is None or check.high is None or check.low == check.high:
        return change
    return f"{change} ({100 * check.low:+.2f} to {100 * check.high:+.2f})"
