"""The nodes of a run -> a document with a row for each."""

from __future__ import annotations

from collections.abc import Sequence

from gputel.analysis import text
from gputel.analysis.document import Document, Section, Table
from gputel.analysis.report.nodes import NodeRow

COLUMNS = ("node", "host", "GPUs", "segments", "state", "s/step", "last in", "clock", "by")
NOTE = "last in: the share of steps whose line came last from this node; clock: ahead of the first node's"


def nodes_document(name: str, nodes: Sequence[NodeRow]) -> Document:
    rows = [
        [
            node.node,
            node.host,
            node.gpus,
            node.segments,
            _state(node),
            node.step_s,
            None if node.last_share is None else text.percent(100 * node.last_share),
            _clock(node),
            node.how,
        ]
        for node in nodes
    ]
    title = text.counted(len(nodes), "node")
    return Document(title=name, about=title, sections=[Section(items=[Table("", COLUMNS, rows, NOTE)])])


def _state(node: NodeRow) -> str:
    if node.ended is None:
        return "still running or cut off"
    return "ended" if not node.exit_code else f"exit code {node.exit_code}"


def _clock(node: NodeRow) -> str | None:
    if not node.uncertainty_ms or node.offset_ms is None:
        return None
    return text.with_error(node.offset_ms, node.uncertainty_ms, 0, "ms")
