"""`gputel report` of several runs: a few lines and a page of each, and faults that stop none of the others."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gputel.analysis import spread
from gputel.cli import reports
from tests.command import gputel
from tests.conftest import ROOT

PAGE = "gputel-report.html"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recording, a log and a text in which nothing can be parsed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", f"{tmp_path}/config")
    monkeypatch.setenv("XDG_DATA_HOME", f"{tmp_path}/data")
    shutil.copytree(ROOT / "sample_runs" / "h100-depth12", "runs/h100-depth12")
    shutil.copy(ROOT / "sample_logs" / "trainer-depth2.log", "runs")
    Path("runs/notes.txt").write_text("nothing\n")
    return Path("runs")


def test_each_run_has_the_first_lines_of_its_report(runs: Path) -> None:
    said = gputel("report", runs)
    assert said.returncode == 0
    head, *blocks = said.stdout.split("\n\n")
    assert head == "2 reports"
    assert [block.splitlines()[0] for block in blocks] == ["h100-depth12", "trainer-depth2"]
    alone = gputel("report", runs / "h100-depth12").stdout
    for name in ("loss", "speed", "energy", "peaks"):
        here, there = (
            next(line.removeprefix(name).strip() for line in text.splitlines() if line.startswith(name))
            for text in (blocks[0], alone)
        )
        assert here == there
    assert "findings  bottleneck compute; headroom yes" in blocks[0]
    assert said.stderr == (
        "runs/notes.txt: nothing in it could be parsed; see 'gputel parse runs/notes.txt'\n"
    )


def test_json_lists_the_reports_as_they_are_alone(runs: Path) -> None:
    answer = json.loads(gputel("report", runs, "--json").stdout)
    alone = [runs / "h100-depth12", runs / "trainer-depth2.log"]
    assert answer["reports"] == [json.loads(gputel("report", path, "--json").stdout) for path in alone]
    fault = {
        "path": "runs/notes.txt",
        "message": "nothing in it could be parsed; see 'gputel parse runs/notes.txt'",
    }
    assert answer["errors"] == [fault]


def test_each_run_has_a_page_where_the_pages_of_several_runs_look_for_it(runs: Path) -> None:
    said = gputel("report", runs, "--html", "--out", "runs")
    assert said.returncode == 0
    pages = [runs / "h100-depth12" / PAGE, runs / "trainer-depth2" / PAGE, runs / PAGE]
    assert [line for line in said.stderr.splitlines() if line.startswith("wrote")] == [
        f"wrote {page}" for page in pages
    ]
    assert f'<a href="h100-depth12/{PAGE}">h100-depth12</a>' in pages[-1].read_text()
    assert gputel("report", runs, "--html", "--out", "runs").returncode == 0
    gputel("runs", runs, "--html", "--out", "runs")
    assert f'href="h100-depth12/{PAGE}"' in (runs / "gputel-runs.html").read_text()


def test_runs_of_the_same_name_are_called_by_their_paths_and_have_pages_of_their_own(runs: Path) -> None:
    shutil.copytree(runs / "h100-depth12", "more/h100-depth12")
    said = gputel("report", runs / "h100-depth12", "more/h100-depth12", "--html", "--out", "pages")
    assert [line for line in said.stdout.splitlines() if line.endswith("h100-depth12")] == [
        "runs/h100-depth12", "more/h100-depth12",
    ]  # fmt: skip
    assert Path(f"pages/h100-depth12/{PAGE}").is_file()
    assert Path(f"pages/h100-depth12-2/{PAGE}").is_file()


def test_run_that_is_not_there_is_named_and_stops_none_of_the_others(runs: Path) -> None:
    said = gputel("report", "nowhere", runs / "trainer-depth2.log")
    assert said.returncode == 1
    assert said.stdout.startswith("1 report\n\ntrainer-depth2\n")
    assert said.stderr.startswith("error: nowhere: no such file or folder; ")


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (("runs", "-"), 2, "error: -: standard input is reported alone; leave out the others"),
        (
            ("runs", "--html", "--out", "a.html"),
            2,
            "error: a.html: is one file, and 3 reports were asked for",
        ),
        (("runs/notes.txt", "runs/notes.txt"), 3, "runs/notes.txt: nothing in it could be parsed"),
    ],
)
@pytest.mark.usefixtures("runs")
def test_what_cannot_be_done_for_several_runs_is_one_line(words: Sequence[str], code: int, line: str) -> None:
    said = gputel("report", *words)
    assert said.returncode == code
    assert said.stderr.startswith(line)
    assert not said.stdout
    assert not Path("a.html").exists()


def test_page_of_another_program_is_refused_before_any_work(runs: Path) -> None:
    Path("pages/trainer-depth2").mkdir(parents=True)
    Path("pages/trainer-depth2", PAGE).write_text("mine")
    said = gputel("report", runs, "--html", "--out", "pages")
    assert said.returncode == 1
    assert said.stderr.startswith(f"error: pages/trainer-depth2/{PAGE}: was not written by gputel")
    assert not Path("pages/h100-depth12").exists()


def make_or_die(
    runs: Sequence[reports.RunToReport], wanted: reports.WantedReport
) -> Iterator[reports.RunReport]:
    """The reports of the runs; a log called deadly kills the process, and one called unlucky its first reader."""
    for run in runs:
        tried = run.source.path.with_suffix(".tried")
        if run.source.name == "deadly" or (run.source.name == "unlucky" and not tried.exists()):
            tried.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from reports.make_reports([run], wanted)


@pytest.mark.long
@pytest.mark.parametrize(("name", "code"), [("deadly", 1), ("unlucky", 0)])
def test_run_that_kills_each_worker_is_named_and_a_worker_that_was_killed_costs_no_report(
    name: str, code: int, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(runs / "trainer-depth2.log", runs / f"{name}.log")
    monkeypatch.setattr(spread, "workers_for", lambda _cpu_s: 2)
    monkeypatch.setattr(reports, "make_reports", make_or_die)
    said = gputel("report", runs / f"{name}.log", runs / "trainer-depth2.log")
    assert (runs / f"{name}.tried").exists()
    assert said.returncode == code
    fault = f"error: runs/{name}.log: reporting it killed the process that did; is there enough memory?\n"
    assert said.stderr == (fault if code else "")
    reported = [line for line in said.stdout.splitlines() if line and " " not in line]
    assert reported == (["trainer-depth2"] if code else [name, "trainer-depth2"])
