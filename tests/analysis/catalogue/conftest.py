"""A recording of a simulated machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
for n in range(4):
    print(f"step {n} | loss {9 - n}.5 | dt: 10.00ms", flush=True)
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
