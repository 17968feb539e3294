"""Runs made by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from gputel.analysis.runs import RunData, read_run
from gputel.telemetry import run_folder

H100 = {"gpu": "0", "name": "NVIDIA H100 80GB HBM3", "limits": {"power_w": 700}, "memory_total_mib": 81_559}

Make = Callable[..., RunData]


@pytest.fixture
def subject(tmp_path: Path) -> Make:
    """A run of this log, recorded on so many H100s; on none it is a bare log."""

    def subject(lines: Iterable[str], gpus: int = 0) -> RunData:
        text = "".join(f"{line}\n" for line in lines)
        if not gpus:
            path = tmp_path / "train.log"
            path.write_text(text)
            return read_run(path)
        facts = {"run": "d12", "gpus": [{**H100, "gpu": str(n), "uuid": str(n)} for n in range(gpus)]}
        segment = run_folder.create(tmp_path / "run", facts)
        segment.output.write_text(text)
        return read_run(segment.path)

    return subject
