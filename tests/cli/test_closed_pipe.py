"""Files that were asked for are written, even where the reader of the printed text is gone (`| head -1`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gputel.telemetry import run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.store.tiers import Tier, TierColumn
from tests.conftest import Compose
from tests.recordings.printed import step

COMMANDS = {
    "report": (["report", "a.log", "--html"], "gputel-report.html"),
    "parse": (["parse", "a.log", "--csv", "--rows"], "a.steps.csv"),
    "compare": (["compare", "a.log", "b.log", "--markdown"], "gputel-compare.md"),
    "plan": (["plan", "--depth", "4,8", "--on", "1xH100", "--csv", "--html"], "gputel-plan.csv"),
    "gate": (["gate", "a.log", "--target", "loss=9", "--junit", "gate.xml"], "gate.xml"),
    "record": (
        ["record", "--simulate", "1xH100", "--out", "run", "--json", "--html", "--", "echo", "step 1 loss 2"],
        "run/gputel-report.html",
    ),
}


def into_a_closed_pipe(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command whose standard output has no reader left when it starts."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run(
            [sys.executable, "-m", "gputel", *words],
            cwd=folder, stdout=writer, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    finally:
        os.close(writer)


@pytest.mark.parametrize("name", COMMANDS)
def test_files_are_written_though_the_reader_of_the_printed_text_is_gone(name: str, tmp_path: Path) -> None:
    words, file = COMMANDS[name]
    for run in "ab":
        (tmp_path / f"{run}.log").write_text("".join(f"{step(n)}\n" for n in range(20)))
    result = into_a_closed_pipe(words, tmp_path)
    assert (tmp_path / file).stat().st_size > 0, result.stderr
    assert "Traceback" not in result.stderr


def test_export_writes_its_table_though_the_reader_of_the_printed_text_is_gone(
    tmp_path: Path, compose: Compose
) -> None:
    segment = run_folder.create(tmp_path / "run", {})
    tier = Tier("fast", 10.0, (TierColumn("power_w", "W", 1000, "0"),))
    compose(segment.gpu, [tier], [(0, n * SECOND // 10, [70_000]) for n in range(20)])
    result = into_a_closed_pipe(["export", "run", "--csv", "run.csv"], tmp_path)
    assert (tmp_path / "run.csv").stat().st_size > 0, result.stderr
