"""What `gputel gate` prints and writes of its verdicts, and the code that it ends with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from gputel.analysis import document, text
from gputel.cli import show, sources

if TYPE_CHECKING:
    from gputel.analysis.compare.gate import GateResult

SUITE = "gputel gate"
COLUMNS = ("metric", "limit", "baseline", "run", "worse by", "95 % of it", "verdict")


def judge(
    run: str,
    baseline: str | None,
    limits: Mapping[str, float],
    targets: Mapping[str, float],
    *,
    warmup: int,
    phase: str | None,
    lower: Collection[str],
    higher: Collection[str],
) -> list[GateResult]:
    from gputel.analysis.compare import gate

    other = None if baseline is None else sources.one_subject(baseline).log
    log = sources.one_subject(run).log
    return gate.judge(log, other, limits, targets, warmup=warmup, phase=phase, lower=lower, higher=higher)


def conclude(
    run: str, checks: Sequence[GateResult], *, as_json: bool, junit: Path | None, force: bool
) -> int:
    from gputel.analysis.compare import gate

    code = gate.exit_code(checks)
    if junit is not None:
        _write(junit, _suite(run, checks), force=force)
        show.note(f"wrote {junit}")
    if as_json:
        told = {"schema": 1, "run": run, "exit_code": code, "checks": [asdict(check) for check in checks]}
        show.as_json(document.as_json(told))
    else:
        show.table(COLUMNS, [_row(check) for check in checks])
        for check in checks:
            show.say(f"{check.metric}: {check.verdict}, {check.why}")
    return code


def _row(check: GateResult) -> tuple[object, ...]:
    limit = f"{check.limit:.4g}" if check.kind == "target" else f"{check.limit:.2%}"
    return (
        check.metric,
        limit,
        None if check.baseline is None else text.number(check.baseline),
        None if check.value is None else text.number(check.value),
        None if check.change is None else f"{check.change:+.2%}",
        None if check.low is None else f"{check.low:+.2%} to {check.high:+.2%}",
        check.verdict,
    )


def _suite(run: str, checks: Sequence[GateResult]) -> ElementTree.ElementTree:
    """JUnit's form: a limit that was broken is a failure, one that cannot be judged was skipped."""
    counts = {
        verdict: str(sum(check.verdict == verdict for check in checks)) for verdict in ("failed", "unknown")
    }
    suite = ElementTree.Element(
        "testsuite", name=SUITE, tests=str(len(checks)), failures=counts["failed"], skipped=counts["unknown"]
    )
    for check in checks:
        case = ElementTree.SubElement(suite, "testcase", classname=run, name=f"{check.kind} {check.metric}")
        said = f"{check.why}: {', '.join(str(cell) for cell in _row(check)[1:-1] if cell is not None)}"
        if check.verdict == "failed":
            ElementTree.SubElement(case, "failure", message=said)
        elif check.verdict == "unknown":
            ElementTree.SubElement(case, "skipped", message=said)
    return ElementTree.ElementTree(suite)


def _write(path: Path, tree: ElementTree.ElementTree, *, force: bool) -> None:
    from gputel.analysis.render import files

    def write(draft: Path) -> None:
        tree.write(draft, encoding="utf-8", xml_declaration=True)

    files.write([files.File(path, write, _is_ours)], force=force)


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return SUITE.encode() in file.read(200)
