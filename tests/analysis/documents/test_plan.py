"""The document of a plan and of a plan's check."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

import gputel
from gputel.analysis.document import Bars, Document, Table
from gputel.analysis.documents.plan import check_document, plan_document
from gputel.analysis.plan.check import CheckLine, PlanCheck
from gputel.analysis.plan.estimate import Estimate

D16 = Path(__file__).resolve().parents[3] / "sample_logs" / "d16-base.log.gz"


def tables(document: Document) -> dict[str, Table]:
    items = [item for section in document.sections for item in section.items]
    return {item.title: item for item in items if isinstance(item, Table)}


def test_memory_is_drawn_against_that_of_the_gpu() -> None:
    document = plan_document(gputel.plan(depth=[16, 64], on="2xH100", device_batch_size=8).plan)
    (memory,) = document.panels()
    assert isinstance(memory, Bars)
    assert (memory.rows, memory.whole) == (("d16", "d64"), 79.6)
    expected = dict(zip(memory.rows, np.nansum(memory.values, axis=1), strict=True))
    assert expected["d16"] < 79.6 < expected["d64"]


def test_plan_that_does_not_fit_has_a_note_and_one_without_notes_no_section() -> None:
    document = plan_document(gputel.plan(depth=64, on="2xH100", device_batch_size=8).plan)
    assert [section.title for section in document.sections] == ["", "Notes", "Details"]
    assert document.sections[1].text.startswith("d64 does not fit: ")
    small = plan_document(gputel.plan(depth=4, on="H100").plan)
    assert [section.title for section in small.sections] == ["", "Details"]


def test_caution_of_the_run_that_corrects_a_plan_stands_at_the_top_and_only_there() -> None:
    document = plan_document(gputel.plan(depth=16, on="2xH100", like=D16).plan)
    assert document.caution == "d16-base: synthetic log"
    assert "synthetic log" not in "".join(section.text for section in document.sections)


def test_check_says_of_each_figure_whether_it_lies_in_its_range() -> None:
    line = CheckLine("dt_ms", Estimate(1000.0, 900.0, 1200.0, "assumed", ("pace",)), 1250.0)
    lines = (line, replace(line, happened=None))
    document = check_document(PlanCheck("d16", lines, ("one note",)))
    (table,) = tables(document).values()
    assert [list(row) for row in table.rows] == [
        ["ms/step", "1,000", "900–1,200", "1,250", "-20.0%", "no"],
        ["ms/step", "1,000", "900–1,200", None, None, None],
    ]
    assert document.sections[-1].text == "one note"


def test_first_line_says_what_does_not_fit() -> None:
    document = plan_document(gputel.plan(depth=[16, 48, 64], on="2xH100", device_batch_size=8).plan)
    assert document.about.splitlines()[0] == "d48, d64 do not fit the 79.6 GiB of a GPU."
    small = plan_document(gputel.plan(depth=16, on="2xH100", device_batch_size=8).plan)
    assert small.about.startswith("2 x H100: ")


def test_gpu_without_a_public_measurement_is_a_note() -> None:
    document = plan_document(gputel.plan(depth=12, on="B200").plan)
    notes = next(section.text for section in document.sections if section.title == "Notes")
    assert "no measurement on this GPU (B200): time and money are the widest range" in notes
