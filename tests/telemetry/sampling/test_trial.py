"""The short recording of the doctor."""

from pathlib import Path

import pytest

from gputel.telemetry.errors import GputelError
from gputel.telemetry.sampling import trial
from gputel.telemetry.store import frames


def test_trial_records_every_gpu_of_the_machine(tmp_path: Path) -> None:
    segment = trial.record(tmp_path / "trial", "simulate:2xH100", 0.5)
    ticks = frames.ticks(segment / "gpu")
    assert set(ticks["gpu"]) == {"0", "1"}
    assert ticks["power_w"].null_count() == 0


def test_trial_of_a_machine_that_cannot_be_sampled_fails_without_waiting(tmp_path: Path) -> None:
    with pytest.raises(GputelError, match="there is no 'H900' to simulate; did you mean"):
        trial.record(tmp_path / "trial", "simulate:H900", 3600)
