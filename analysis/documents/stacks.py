"""States of the processes of a training, and the verdict on which holds up the others -> a document."""

from __future__ import annotations

from collections.abc import Sequence

from gputel.analysis.document import Document, Section
from gputel.analysis.incidents.process_states import Standing
from gputel.analysis.incidents.text import overview
from gputel.analysis.incidents.verdict import HangVerdict


def stacks_document(run: str, found: Sequence[Standing], verdict: HangVerdict | None) -> Document:
    sections = [Section(text="\n".join(overview(found, verdict)), code=True)] if found else []
    return Document(run, sections)
