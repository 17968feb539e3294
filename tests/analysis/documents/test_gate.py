"""The document of a gate: verdicts first, figures beside them, reasons below."""

from __future__ import annotations

from gputel.analysis.compare.gate import GateResult
from gputel.analysis.document import Table
from gputel.analysis.documents.gate import gate_document

SLOW = GateResult(
    "tok_per_sec", 0.03, "regress", "failed", "medians", 9_000.0, 10_000.0, 0.1, 0.098, 0.102, 90
)
EVALUATED = GateResult(
    "val_bpb", 0.01, "regress", "passed", "evaluation of step 9, taken as it is", 0.9, 0.9, 0.0, 0.0, 0.0, 1
)
MISSING = GateResult("mfu", 40.0, "target", "unknown", "the run has no mfu")


def test_each_check_is_a_row_and_a_reason() -> None:
    document = gate_document("b.log", "a.log", [SLOW, EVALUATED, MISSING])
    results, reasons = document.sections
    (table,) = results.items
    assert isinstance(table, Table)
    assert [list(row) for row in table.rows] == [
        ["tok_per_sec", "failed", "3.00%", "10,000", "9,000.0", "+10.00% (+9.80 to +10.20)"],
        ["val_bpb", "passed", "1.00%", "0.9000", "0.9000", "+0.00%"],
        ["mfu", "unknown", "40", None, None, None],
    ]
    assert reasons.text.splitlines()[2] == "mfu: unknown, the run has no mfu"
    assert document.about == "b.log against a.log: 1 failed, 1 passed, 1 unknown"


def test_next_command_compares_a_run_that_failed_with_its_baseline() -> None:
    assert gate_document("b c.log", "a.log", [SLOW]).next == "gputel compare a.log 'b c.log'"
    assert gate_document("b.log", "a.log", [EVALUATED]).next == ""
    assert gate_document("b.log", None, [MISSING]).next == ""
