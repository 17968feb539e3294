"""Two versions of gputel beside each other, as of two environments: what one has saved does not stop the other."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources import ROOT

LOG = "".join(f"step {step} | loss: {9 - step}.5 | dt: 100.00ms\n" for step in range(5))
START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from gputel.cli import main; main()"
OTHER = (  # what a version that saves other things changes
    ("analysis/live/resume.py", "VERSION = 1", "VERSION = 2"),
    ("analysis/catalogue/index.py", "looked REAL,", "looked REAL, seen REAL,"),
    ("analysis/catalogue/facts.py", "FACTS_VERSION = ", "FACTS_VERSION = 1000 + "),
)


class Version:
    """Starts commands of the package that lies in `root`, in the folder of one user."""

    def __init__(self, root: Path, home: Path) -> None:
        places = {"HOME": home, "XDG_STATE_HOME": home / "state", "XDG_CACHE_HOME": home / "cache"}
        self._env = {**os.environ, **{key: str(path) for key, path in places.items()}}
        self._root, self._home = root, home

    def start(self, *words: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", START, str(self._root), *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self._home, env=self._env, stdout=pipe, stderr=pipe, text=True)

    def answer(self, *words: str) -> str:
        return _printed(self.start(*words))

    def tail(self, lines: int) -> tuple[list[str], str]:
        """The first lines of `tail` until it is interrupted, and what it remarks."""
        process = self.start("tail", "--plain", "train.log")
        assert process.stdout
        rows = [process.stdout.readline() for _ in range(lines)]
        process.send_signal(signal.SIGINT)
        rest, remarks = process.communicate()
        assert process.returncode == 0, remarks
        return [*rows, *rest.splitlines(keepends=True)], remarks


def _printed(process: "subprocess.Popen[str]") -> str:
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "Traceback" not in err
    return out


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("other")
    shutil.copytree(ROOT / "gputel", root / "gputel")  # with its byte code
    for name, before, after in OTHER:
        path = root / "gputel" / name
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after, 1))
    return root


@pytest.fixture
def versions(tmp_path: Path, other: Path) -> tuple[Version, Version]:
    (tmp_path / "train.log").write_text(LOG)
    (tmp_path / ".git").mkdir()
    return Version(ROOT, tmp_path), Version(other, tmp_path)


@pytest.mark.long
def test_index_of_runs_answers_both_versions_at_once(versions: tuple[Version, Version]) -> None:
    running = [version.start("runs", ".", "--json") for version in versions * 2]
    answers = [json.loads(_printed(process)) for process in running]
    assert answers[0]["runs"][0]["steps"] == 5
    assert answers[1:] == answers[:1] * 3


@pytest.mark.long
def test_index_of_one_version_is_not_taken_away_by_another(
    versions: tuple[Version, Version], tmp_path: Path
) -> None:
    """A version that still had the removed file open would write its journal beside the new one."""
    first, second = versions
    first.answer("runs", ".")
    (index,) = (tmp_path / "cache" / "gputel").glob("*.db")
    number = index.stat().st_ino
    second.answer("runs", ".")
    assert index.stat().st_ino == number


@pytest.mark.long
def test_each_version_goes_on_where_it_stopped_itself(
    versions: tuple[Version, Version], tmp_path: Path
) -> None:
    first, second = versions
    assert all(len(version.tail(5)[0]) == 5 for version in (first, second))
    with (tmp_path / "train.log").open("a") as log:
        log.write("step 5 | loss: 4.5 | dt: 100.00ms\n")
    for version in (second, first):
        (row,), remarks = version.tail(1)
        assert "loss 4.5" in row
        assert remarks == ""


@pytest.mark.long
def test_facts_that_another_version_wrote_into_a_run_are_not_believed(
    versions: tuple[Version, Version], tmp_path: Path
) -> None:
    first, second = versions
    words = ("--simulate", "H100", "--out", "run", "--html", "--", "echo", "step 1 | loss: 2.5 | dt: 9.00ms")
    second.answer("record", *words)
    facts = tmp_path / "run" / "facts.json"
    lie = json.loads(facts.read_text())
    assert lie["facts_version"] > 1000
    lie["facts"]["loss"] = 99.0
    facts.write_text(json.dumps(lie))
    running = [version.start("runs", "run", "--json") for version in (first, second, first)]
    losses = [json.loads(_printed(process))["runs"][0]["loss"] for process in running]
    assert losses == [2.5, 99.0, 2.5]
    assert json.loads(facts.read_text()) == lie


@pytest.mark.long
def test_two_versions_follow_one_log_at_once_and_one_of_them_saves(
    versions: tuple[Version, Version], tmp_path: Path
) -> None:
    first, second = (version.start("tail", "--plain", "train.log") for version in versions)
    assert first.stdout
    assert second.stdout
    for stdout in (first.stdout, second.stdout):
        assert [stdout.readline().split("loss ")[1][:3] for _ in range(5)] == [
            "9.5",
            "8.5",
            "7.5",
            "6.5",
            "5.5",
        ]
    with (tmp_path / "train.log").open("a") as log:
        log.write("step 5 | loss: 4.5 | dt: 100.00ms\n")
    assert all("loss 4.5" in stdout.readline() for stdout in (first.stdout, second.stdout))
    for process in (first, second):
        process.send_signal(signal.SIGINT)
    remarks = [process.communicate()[1] for process in (first, second)]
    assert [process.returncode for process in (first, second)] == [0, 0]
    assert sum("another tail follows the same paths" in remark for remark in remarks) == 1


@pytest.mark.long
def test_file_trusted_by_one_version_is_trusted_by_the_other_and_trust_ends_for_both(
    versions: tuple[Version, Version], tmp_path: Path
) -> None:
    first, second = versions
    (tmp_path / "gputel.toml").write_text('[tail]\non-alarm = "true"\n')
    first.answer("trust", "gputel.toml")
    assert _origin(second).endswith("gputel.toml")
    second.answer("trust", "--revoke", "gputel.toml")
    assert _origin(first) == "default"


def _origin(version: Version) -> str:
    """Says where the command of `tail --on-alarm` was set."""
    rows = json.loads(version.answer("settings", "--json"))["settings"]
    return next(str(row["origin"]) for row in rows if (row["command"], row["option"]) == ("tail", "on-alarm"))
