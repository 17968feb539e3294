"""The file of `gputel.log` works copied and alone on each Python, and never disturbs the training."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import gputel
from gputel import gputel_log
from tests.telemetry.inside.pythons import every_python

SAYS = """
import gputel_log as gputel
gputel.config({"lr": 0.1, "api_key": "sk-1", "tokenizer": "bpe"}, depth=4)
gputel.log(loss=3.0)
gputel.log({"eval/loss": float("nan"), "note": "words"}, step=7, grad_norm=float("inf"))
gputel.step()
gputel.log(loss=2)
gputel.mark("new data")
with gputel.span("eval"):
    pass
"""
FORKS = """
import os, gputel_log as gputel
gputel.log(loss=1)
child = os.fork()
gputel.log(loss=2 if child else 3)
if child:
    os.waitpid(child, 0)
"""
CLOSES = """
import os, sys, gputel_log as gputel
gputel.log(loss=1)
os.closerange(3, 1000)
own = [os.open("own.txt", os.O_RDWR | os.O_CREAT) for _ in range(800)]
gputel.log(loss=2)
print(os.path.getsize("own.txt"))
"""
FULL = """
import resource, signal, gputel_log as gputel
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
gputel.log(loss=1)
resource.setrlimit(resource.RLIMIT_FSIZE, (200, -1))
for step in range(9):
    gputel.log(loss=2)
resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
gputel.log(loss=3)
print("goes on")
"""
THREADS = """
import threading, gputel_log as gputel
def speak(name):
    for step in range(500):
        gputel.log({name: step}, step=step)
threads = [threading.Thread(target=speak, args=(f"t{i}",)) for i in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
KILLED = "import os, gputel_log as gputel\ngputel.log(loss=1)\nos.kill(os.getpid(), 9)\n"


def run(tmp_path: Path, script: str, *, python: Path = Path(sys.executable), recorded: bool = True) -> str:
    """Runs a script beside a copy of the file, as in a project that has copied it; its whole output."""
    folder = tmp_path / "memory"
    folder.mkdir(exist_ok=True)
    shutil.copy(gputel_log.__file__, tmp_path)
    (tmp_path / "train.py").write_text(script)
    env = {"GPUTEL_INSIDE_AT": f"off:{folder}"} if recorded else {}
    answer = subprocess.run(
        [python, "-W", "error", "train.py"],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout + answer.stderr


def rows(tmp_path: Path) -> list[dict[str, Any]]:
    """What all processes said, without their first rows."""
    lines = [line for path in (tmp_path / "memory").glob("*.jsonl") for line in path.read_text().splitlines()]
    return [row for row in map(json.loads, lines) if row["kind"] != "open"]


def trouble(tmp_path: Path) -> list[str]:
    return [path.read_text() for path in (tmp_path / "memory").glob("*.trouble")]


@every_python
def test_copied_file_keeps_what_is_said(python: Path, tmp_path: Path) -> None:
    assert run(tmp_path, SAYS, python=python) == ""
    said = [{name: value for name, value in row.items() if not name.endswith("ns")} for row in rows(tmp_path)]
    assert said == [
        {"kind": "config", "settings": {"lr": 0.1, "api_key": "***", "tokenizer": "bpe", "depth": 4}},
        {"kind": "log", "step": 0, "values": {"loss": 3.0}},
        {"kind": "log", "step": 7, "values": {"eval/loss": "nan", "grad_norm": "inf"}},
        {"kind": "step", "step": 8},
        {"kind": "log", "step": 8, "values": {"loss": 2.0}},
        {"kind": "mark", "text": "new data"},
        {"kind": "span", "name": "eval"},
    ]
    assert trouble(tmp_path) == [
        "gputel.log: note is no number and left out (could not convert string to float: 'words')\n"
    ]


@every_python
def test_training_that_is_not_recorded_writes_nothing(python: Path, tmp_path: Path) -> None:
    assert run(tmp_path, SAYS, python=python, recorded=False) == ""
    assert list((tmp_path / "memory").iterdir()) == []


def test_forked_process_has_a_file_of_its_own(tmp_path: Path) -> None:
    assert run(tmp_path, FORKS) == ""
    files = sorted(len(path.read_text().splitlines()) for path in (tmp_path / "memory").glob("*.jsonl"))
    assert files == [2, 3]


def test_descriptor_that_the_program_closed_and_opened_anew_is_not_written_to(tmp_path: Path) -> None:
    assert run(tmp_path, CLOSES) == "0\n"
    assert len(rows(tmp_path)) == 1
    assert trouble(tmp_path) == ["gputel.log: nothing is kept any more: the program has closed the file\n"]


def test_full_memory_ends_the_rows_and_not_the_training(tmp_path: Path) -> None:
    """A row that was cut is the last."""
    assert run(tmp_path, FULL) == "goes on\n"
    (path,) = (tmp_path / "memory").glob("*.jsonl")
    assert path.stat().st_size == 200
    assert trouble(tmp_path) == ["gputel.log: nothing is kept any more: no space left in memory\n"]


def test_rows_of_several_threads_do_not_mix(tmp_path: Path) -> None:
    assert run(tmp_path, THREADS) == ""
    assert len(rows(tmp_path)) == 2000


def test_killed_process_keeps_its_last_row(tmp_path: Path) -> None:
    run(tmp_path, KILLED)
    assert [row["values"] for row in rows(tmp_path)] == [{"loss": 1.0}]


def test_folder_that_is_gone_costs_rows_only(tmp_path: Path) -> None:
    script = f"import shutil; shutil.rmtree({str(tmp_path / 'memory')!r})\n{SAYS}"
    assert run(tmp_path, script) == ""


def test_package_offers_the_same_functions_without_its_libraries() -> None:
    names = ("config", "log", "mark", "span", "step")
    assert all(getattr(gputel, name) is getattr(gputel_log, name) for name in names)
    program = "import sys, gputel; gputel.log(loss=1); print('polars' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"
