"""What the GPU readings of a machine are worth."""

from __future__ import annotations

import sys

import pytest

from gputel.analysis.report import checkup


def test_gpus_are_counted_by_name() -> None:
    gpus = [{"name": "NVIDIA H100"}, {"name": "NVIDIA A100"}, {"name": "NVIDIA H100"}]
    assert checkup.counted(gpus) == "2 x NVIDIA H100, 1 x NVIDIA A100"


def test_readings_are_not_tried_outside_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    check, readings = checkup.check_gpus("gpus")
    assert (check.state, readings) == ("poor", [])
