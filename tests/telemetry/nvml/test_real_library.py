"""NVIDIA's own library where there is no driver: what Debian ships, which `.ci/nvml .venv/nvml` gets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.fake_nvml import DRIVER_NOT_LOADED
from tests.fake_nvml.every_function import NEWER, OUTPUTS
from tests.recordings import GPUTEL

FOLDER = ROOT / ".venv" / "nvml"
LIBRARY = FOLDER / "libnvidia-ml.so.1"
FAULT = "NVML: the NVIDIA driver is not loaded"
HINT = "try `modprobe nvidia`; in a container start it with --gpus all; or try --simulate 2xH100"
UNINITIALIZED = 1
CALL_ALL = """
import ctypes, json, sys
library = ctypes.CDLL(sys.argv[1])
found = [name for name in sys.argv[2:] if hasattr(library, name)]
buffers = [ctypes.create_string_buffer(65536) for _ in range(6)]
answers = {"nvmlInit_v2": library.nvmlInit_v2()}
for name in found:
    answers[name] = library[name](*[ctypes.c_void_p(ctypes.addressof(buffer)) for buffer in buffers])
print(json.dumps(answers))
"""

pytestmark = [
    pytest.mark.skipif(
        not LIBRARY.exists(), reason="needs `.ci/nvml .venv/nvml`, where apt has Debian's non-free"
    ),
    pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="there is a driver, which would answer"),
]


def gputel(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(FOLDER)}
    return subprocess.run([*GPUTEL, *words], env=environment, capture_output=True, text=True, check=False)


def test_every_function_that_is_called_but_the_newest_exists_and_says_that_nothing_was_started() -> None:
    """In a process of its own: what a process has loaded, it finds again by its name."""
    names = [name for name in OUTPUTS if name not in ("nvmlInit_v2", "nvmlShutdown")]
    answer = subprocess.run(
        [sys.executable, "-c", CALL_ALL, str(LIBRARY), *names], capture_output=True, text=True, check=True
    )
    answers = json.loads(answer.stdout)
    assert {*names} - answers.keys() <= set(NEWER)
    assert answers == {**dict.fromkeys(answers, UNINITIALIZED), "nvmlInit_v2": DRIVER_NOT_LOADED}


def test_recording_without_a_driver_keeps_the_output_and_says_why_no_gpu_was_sampled(tmp_path: Path) -> None:
    answer = gputel("record", "--out", str(tmp_path / "run"), "--", "sh", "-c", "echo hi; exit 3")
    assert answer.returncode == 3
    assert answer.stdout.startswith("hi\n")
    kept = "output, its times and the exit code are recorded, GPUs are not"
    assert answer.stderr.splitlines()[0] == f"{FAULT}: {kept}; {HINT}"
    facts = json.loads((tmp_path / "run" / "events.jsonl").read_text().splitlines()[0])
    assert (facts["kind"], facts["text"]) == ("no_telemetry", FAULT)


def test_recording_of_gpus_alone_is_refused_and_leaves_no_folder(tmp_path: Path) -> None:
    answer = gputel("record", "--out", str(tmp_path / "run"), "--for", "1s")
    without = "with a COMMAND its output is recorded without a GPU"
    assert (answer.returncode, answer.stderr) == (1, f"error: {FAULT}; {HINT}; {without}\n")
    assert list(tmp_path.iterdir()) == []


def test_doctor_says_what_to_do() -> None:
    answer = gputel("doctor")
    assert answer.returncode == 1
    assert FAULT in answer.stdout
