"""The results of a gate as JUnit's XML, which CI systems list among their tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from gputel.analysis.documents import gate
from gputel.analysis.render import files
from gputel.telemetry.characters import visible

if TYPE_CHECKING:
    from gputel.analysis.compare.gate import GateResult

SUITE = "gputel gate"


def write_junit(run: str, checks: Sequence[GateResult], path: Path, *, force: bool) -> None:
    """A file that gputel did not write is a GputelError."""
    tree = ElementTree.ElementTree(_suite(run, checks))

    def write_draft(draft: Path) -> None:
        tree.write(draft, encoding="utf-8", xml_declaration=True)

    files.write([files.File(path, write_draft, _is_ours)], force=force)


def _suite(run: str, checks: Sequence[GateResult]) -> ElementTree.Element:
    """A broken limit is a failure; a limit that cannot be judged is a skipped test. XML holds no controls."""
    counts = {
        verdict: str(sum(check.verdict == verdict for check in checks)) for verdict in ("failed", "unknown")
    }
    suite = ElementTree.Element(
        "testsuite", name=SUITE, tests=str(len(checks)), failures=counts["failed"], skipped=counts["unknown"]
    )
    for check in checks:
        case = ElementTree.SubElement(
            suite, "testcase", classname=visible(run), name=visible(f"{check.kind} {check.metric}")
        )
        message = visible(f"{check.why}: {', '.join(cell for cell in gate.cells(check) if cell is not None)}")
        if check.verdict == "failed":
            ElementTree.SubElement(case, "failure", message=message)
        elif check.verdict == "unknown":
            ElementTree.SubElement(case, "skipped", message=message)
    return suite


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return SUITE.encode() in file.read(200)
