"""`gputel record --push`: whatever the server does, the command never notices."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gputel.telemetry import events

TRAINING = """
import time
for step in range(8):
    print("step", step, "| loss", 3 - step)
    time.sleep(0.3)
raise SystemExit(7)
"""


def record(tmp_path: Path, address: str, *command: str) -> subprocess.CompletedProcess[str]:
    words = ["record", "--simulate", "1xH100", "--out", f"{tmp_path}/d16", "--push", address, "--", *command]
    return subprocess.run(
        [sys.executable, "-m", "gputel", *words], capture_output=True, text=True, check=False
    )


def test_server_that_is_away_costs_an_event_and_a_line(tmp_path: Path) -> None:
    ended = record(tmp_path, "http://127.0.0.1:1", sys.executable, "-c", TRAINING)
    assert (ended.returncode, ended.stdout.count("step")) == (7, 8)
    fault = "pushing is held up: http://127.0.0.1:1 cannot be reached: Connection refused"
    assert [event["text"] for event in events.read(tmp_path / "d16") if event["kind"] == "push"] == [fault]
    assert ended.stderr.count(f"gputel: {fault}") == 1


@pytest.mark.parametrize("address", ["metrics.example.com", "s3://bucket/d16"])
def test_address_that_cannot_be_pushed_to_starts_nothing(tmp_path: Path, address: str) -> None:
    ended = record(tmp_path, address, "touch", f"{tmp_path}/started")
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"error: --push {address}: is no address to push to")
    assert not list(tmp_path.iterdir())
