"""What is done beside a recording: the command is stopped because an option says so, and never otherwise."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputel.telemetry import events
from gputel.telemetry.clock import SECOND
from tests.ports import free_port
from tests.recordings import PATIENCE_S, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="recording is for Linux")

TRAINING = """
import signal, sys, time
polite = {polite}
def bye(*_):
    print("saving", flush=True)
    if polite: sys.exit(7)
signal.signal(signal.SIGTERM, bye)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
for step in range({steps}):
    loss = 3.0 if step < {nan} else float("nan")
    print(f"step {{step:05d}} | loss: {{loss:.4f}} | dt: 20.00ms | tok/sec: 1,000", flush=True)
    time.sleep(0.02)
"""

NOTES_ITS_END = """
import signal, sys, time
def bye(*_):
    print(time.monotonic_ns(), flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, bye)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
time.sleep(600)
"""

PYTHON = ("env", "--block-signal=TERM", sys.executable, "-c")
"""A limit may come before a program has said what it does at SIGTERM, which waits until then."""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def training(*, steps: int = 3000, nan: int = 10**6, polite: bool = True) -> list[str]:
    return [*PYTHON, TRAINING.format(steps=steps, nan=nan, polite=polite)]


def start(*options: str, command: list[str]) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "gputel", "record", "--simulate", "H100", "--out", "run", *options]
    return subprocess.Popen(
        [*words, "--", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def record(*options: str, command: list[str]) -> tuple[int, str, str]:
    with start(*options, command=command) as recorder:
        out, err = recorder.communicate(timeout=PATIENCE_S)
    return recorder.returncode, out, err


def facts() -> dict[str, Any]:
    described: dict[str, Any] = json.loads(Path("run/run.json").read_text())
    return described


def stops() -> list[str]:
    return [str(event["text"]) for event in events.read(Path("run")) if event["kind"] == "stop"]


def test_instructions_load_neither_polars_nor_numpy() -> None:
    """Their threads would take the signals that the recorder waits for."""
    assert heavy_imports("gputel.analysis.live.instructions") == "set()\n"


def test_time_limit_waits_for_no_heavy_import() -> None:
    """On busy cores that took six seconds, and a limit of three was met by so much later."""
    assert heavy_imports("gputel.analysis.live.guard") == "set()\n"


def heavy_imports(module: str) -> str:
    code = f"import sys, {module}; print({{'polars', 'numpy'}} & set(sys.modules))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout


def test_nan_stops_the_command_once_and_the_exit_code_is_kept() -> None:
    code, out, err = record("--stop-on", "nan,overfit", command=training(nan=20))
    assert code == 7
    assert out.count("saving") == 1
    assert stops() == ["stopped: NaN or infinite loss at step 20: loss is NaN"]
    assert facts()["stopped"] == {"rule": "nan", "text": "NaN or infinite loss at step 20: loss is NaN"}
    assert facts()["exit_code"] == 7
    assert "gputel: stopped: NaN or infinite loss at step 20: loss is NaN" in err
    assert "stopped   NaN or infinite loss at step 20: loss is NaN" in err


@pytest.mark.long
def test_alarm_that_no_option_names_is_recorded_and_stops_nothing() -> None:
    code, out, _ = record("--stop-on", "overfit", command=training(nan=5, steps=60))
    assert code == 0
    assert "saving" not in out
    assert [event["rule"] for event in events.read(Path("run")) if event["kind"] == "alarm"] == ["nan"]
    assert "stopped" not in facts()


@pytest.mark.long
def test_command_that_does_not_end_is_killed_after_the_grace_period() -> None:
    code, out, _ = record("--stop-after", "500ms", "--grace", "500ms", command=training(polite=False))
    assert code == 128 + signal.SIGKILL
    assert out.count("saving") == 1
    assert [re.sub(r"\d[\d.]* m?s\b", "N", text) for text in stops()] == [
        "stopped: time limit of N reached",
        "killed: still running N after the stop signal",
    ]


def test_command_is_asked_to_end_three_seconds_after_the_recording_began() -> None:
    """By the clock of both. How much later depends on the machine, so only the end bounds it here."""
    code, out, err = record("--stop-after", "3s", command=[*PYTHON, NOTES_ITS_END])
    began, ended = (facts()[moment]["monotonic_ns"] for moment in ("started", "ended"))
    assert code == 7
    assert began + 3 * SECOND <= int(out) <= ended
    assert stops() == ["stopped: time limit of 3 s reached"]
    assert "stopped   time limit of 3 s reached" in err


@pytest.mark.long
def test_budget_is_what_the_gpus_may_have_cost() -> None:
    # two tenths of a cent a second
    code, _, _ = record("--budget", "0.001", "--price", "7.2", command=training())
    assert code == 7
    assert [re.sub(r"\d[\d.]*", "N", text) for text in stops()] == ["stopped: $N spent of a budget of $N"]


AFTER = f"{sys.executable} -c 'import sys; open(sys.argv[1], \"w\").write(sys.argv[2])' after '$(id); x'"
"""Its words are its own: no shell looks at them."""


@contextlib.contextmanager
def held() -> Iterator[subprocess.Popen[str]]:
    """A recorder whose command ends when it is left."""
    hold, release = os.pipe()
    os.set_inheritable(hold, True)
    command = [sys.executable, "-c", f"import os; print('up', flush=True); os.read({hold}, 1)"]
    words = [sys.executable, "-m", "gputel", "record", "--simulate", "H100", "--out", "run", "--then", AFTER]
    with subprocess.Popen(
        [*words, "--", *command], stdout=subprocess.PIPE, text=True, pass_fds=[hold]
    ) as recorder:
        assert recorder.stdout is not None
        assert recorder.stdout.readline() == "up\n"
        yield recorder
        os.write(release, b"x")
        for end in (hold, release):
            os.close(end)


@pytest.mark.long
def test_then_command_runs_after_the_end_though_the_recorder_was_killed() -> None:
    with held() as recorder:
        (beside,) = companions()
        recorder.kill()
        recorder.wait()
        assert not Path("after").exists()
    _wait_for_end(beside)
    assert Path("after").read_text() == "$(id); x"


@pytest.mark.long
def test_then_command_runs_after_the_end_though_the_guard_was_killed() -> None:
    with held():
        (first,) = companions()
        os.kill(first, signal.SIGKILL)
        _wait_for_end(first)
        (beside,) = companions()
    _wait_for_end(beside)
    assert Path("after").read_text() == "$(id); x"


def companions() -> list[int]:
    """Processes beside a recording in this folder, once they are there."""
    while True:
        pids = []
        for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = cmdline.read_bytes()
            except OSError:
                continue
            if b"gputel.analysis.live.guard" in words and str(Path.cwd()).encode() in words:
                pids.append(int(cmdline.parent.name))
        if pids:
            return pids


def _wait_for_end(process: int) -> None:
    import select

    with contextlib.suppress(ProcessLookupError):
        pidfd = os.pidfd_open(process)
        assert select.select([pidfd], [], [], PATIENCE_S)[0]
        os.close(pidfd)


@pytest.mark.long
def test_recorder_stays_one_thread_with_every_option_of_the_guard() -> None:
    """It forks, and a signal that a second thread took would kill it."""
    with start("--stop-on", "nan", "--prometheus", ":0", command=training()) as recorder:
        assert recorder.stdout is not None
        recorder.stdout.readline()
        threads = len(list(Path(f"/proc/{recorder.pid}/task").iterdir()))
        recorder.terminate()
        recorder.communicate(timeout=PATIENCE_S)
    assert threads == 1


@pytest.mark.long
def test_run_is_served_to_prometheus_while_it_is_recorded() -> None:
    pytest.importorskip("prometheus_client")
    port = free_port()
    with start("--prometheus", f":{port}", command=training()) as recorder:
        text = _scraped(port, "gputel_train_loss{")
        recorder.terminate()
        recorder.communicate(timeout=PATIENCE_S)
    assert 'gputel_train_loss{phase="train",rank="",run="run"} 3.0' in text
    assert "DCGM_FI_DEV_POWER_USAGE{" in text


def _scraped(port: int, wanted: str) -> str:
    """Until it is there: the process beside starts in its own time."""

    def look() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                text: str = answer.read().decode()
        except OSError:
            return ""
        return text if wanted in text and "DCGM_FI_DEV_POWER_USAGE{" in text else ""

    return until(look, f"{wanted} among the metrics")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--stop-on", "nam"], "--stop-on nam: no such alarm; the alarms are: nan, spike"),
        (["--budget", "9"], "--budget needs --price, the price of a GPU hour"),
        (["--then", "say 'x"], "--then: no closing quotation; close the quotes"),
        (["--prometheus", "x"], "--prometheus x: is not [HOST]:PORT; write e.g. :9400 or 0.0.0.0:9400"),
    ],
)
def test_option_that_cannot_work_is_one_line_before_the_command_runs(options: list[str], line: str) -> None:
    code, out, err = record(*options, command=["echo", "ran"])
    assert (code, out) == (2, "")
    assert line in err
    assert not Path("run").exists()


def test_without_a_command_there_is_nothing_to_stop() -> None:
    words = [sys.executable, "-m", "gputel", "record", "--simulate", "H100", "--stop-after", "1s"]
    answer = subprocess.run(words, capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert "--stop-on, --stop-after and --budget stop a command, and there is none" in answer.stderr
