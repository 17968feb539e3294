"""A recording of a simulated machine, which lasts until its first readings are written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, pathlib, time
for n in range(4):
    print(f"step {n} | loss {9 - n}.5 | dt: 10.00ms", flush=True)
first = {}
def has_grown(journal):
    size = journal.stat().st_size
    return size > first.setdefault(journal, size)
while not any(map(has_grown, pathlib.Path(os.environ["GPUTEL_RUN"], "gpu").glob("*.gtb"))):
    time.sleep(0.01)
"""


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "run"
    options = ["--simulate", "2xH100", "--out", str(path), "--tag", "sweep=a", "--price", "4"]
    words = ["record", *options, "--", sys.executable, "-c", SCRIPT]
    done = subprocess.run(
        [sys.executable, "-m", "gputel", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return path
