"""A run has facts of declared types, its settings, and figures of every metric."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.catalogue import facts
from gputel.analysis.report.summary import recording_summary


def test_sums_of_gpus_are_those_of_the_closing_report(recording: Path) -> None:
    found, summary = facts.computed(recording), recording_summary(recording)
    assert found
    assert found.facts["energy_j"] == pytest.approx(summary.energy_j)
    assert found.facts["bytes_gpu"] == summary.telemetry_bytes
    gaps = [gpu.measured_s / gpu.covered - gpu.measured_s for gpu in summary.gpus if gpu.covered]
    assert found.facts["gap_s"] == (pytest.approx(max(gaps)) if gaps else None)


def test_every_fact_has_the_type_that_it_is_declared_with(recording: Path) -> None:
    row = facts.computed(recording)
    assert row is not None
    kinds = {"text": str, "time": str, "whole": int, "number": float}
    wrong = [
        name
        for name, cell in row.facts.items()
        if cell is not None and type(cell) is not kinds[facts.FACTS[name]]
    ]
    assert wrong == []
    assert list(row.facts) == list(facts.FACTS)


def test_gpu_hours_are_gpus_times_the_duration(recording: Path) -> None:
    row = facts.computed(recording)
    assert row
    assert row.facts["gpu_hours"] == pytest.approx(2 * row.facts["duration_s"] / 3600)
