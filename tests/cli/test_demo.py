"""`gputel demo`: what a newcomer sees in the first minute."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import gputel
from gputel.cli import main

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="recording is for Linux")


def demo(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["demo", *words])
    return int(ended.value.code or 0)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.long
def test_without_torch_logs_are_played_recorded_followed_and_compared(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A second demo takes the place of the first."""
    monkeypatch.setitem(sys.modules, "torch", None)
    assert demo("--steps", "3") == demo("--steps", "3") == 0
    out, err = capfd.readouterr()
    assert "played from logs, as torch is not installed; the GPUs are simulated" in err
    assert (
        "$ gputel record --simulate 2xH100 --out gputel-demo/depth-2 -- python -m gputel.demo depth2 3" in err
    )
    assert "PLAYED: the log of a training" in out
    assert re.search(r"depth-4 step 1/300  epoch 0  loss 5\.\d+", out)
    assert "loss at step 2" in out
    for page in ("gputel-compare.html", "gputel-report.html"):
        assert "SIMULATED" in Path("gputel-demo", page).read_text()
    first = gputel.open_run("gputel-demo/depth-2")
    assert first.steps["step"].to_list() == [0, 1, 2]
    assert first.gpu.height > 0


@pytest.mark.long
def test_with_torch_two_trainings_run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # with more, threads of a busy machine turn while they wait
    assert demo("--steps", "2") == 0
    assert "trained on this machine's CPU" in capfd.readouterr().err
    for depth, parameters in ((2, 458752), (4, 3276800)):
        assert gputel.parse(f"gputel-demo/depth-{depth}").config["parameters"] == parameters


def test_played_log_says_so_first_and_ends_where_it_was_asked_to() -> None:
    words = [sys.executable, "-m", "gputel.demo", "depth4", "2"]
    played = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert played[0].startswith("PLAYED: ")
    assert [line[:10] for line in played if line.startswith("step ")] == ["step 00000", "step 00001"]


def test_folder_of_another_program_is_left_alone(capfd: pytest.CaptureFixture[str]) -> None:
    Path("mine/depth-2").mkdir(parents=True)
    Path("mine/depth-2/notes.txt").write_text("mine")
    assert demo("--out", "mine") == 1
    assert (
        capfd.readouterr().err
        == "error: mine/depth-2: is not a run of an earlier demo; choose another --out\n"
    )
    assert Path("mine/depth-2/notes.txt").read_text() == "mine"
