import os
import subprocess
import sys
from pathlib import Path

import pytest

from gputel.cli import sources
from gputel.telemetry import recorder_lock, run_folder
from gputel.telemetry.errors import GputelError
from tests.command import gputel


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with two runs and some logs."""
    monkeypatch.chdir(tmp_path)
    run_folder.create(Path("runs/new"), {"run": "new", "started": {"wall_ns": 2}})
    run_folder.create(Path("runs/old"), {"run": "old", "started": {"wall_ns": 1}})
    (tmp_path / "runs" / "new" / "output.log").touch()
    (tmp_path / "logs" / "deep").mkdir(parents=True)
    for name in ("b.log", "a.txt.gz", "deep/c.log.zst", ".hidden"):
        (tmp_path / "logs" / name).touch()
    return tmp_path


def paths(word: str) -> list[str]:
    return [f"{source.kind} {source.path}" for source in sources.find(word)]


def test_log_file_is_one_source(here: Path) -> None:
    assert paths("logs/b.log") == ["log logs/b.log"]


def test_run_folder_is_one_source_and_not_the_files_in_it(here: Path) -> None:
    assert paths("runs/new") == ["run runs/new"]


def test_folder_is_searched_through_for_logs_and_runs(here: Path) -> None:
    assert paths(".") == [
        "log logs/a.txt.gz",
        "log logs/b.log",
        "log logs/deep/c.log.zst",
        "run runs/new",
        "run runs/old",
    ]


def test_glob_is_expanded_when_the_shell_has_not(here: Path) -> None:
    assert paths("logs/**/*.zst") == ["log logs/deep/c.log.zst"]


def test_latest_is_the_run_that_started_last(here: Path) -> None:
    assert paths("latest") == ["run runs/new"]


def test_latest_passes_over_a_start_that_recorded_nothing(here: Path) -> None:
    (here / "runs" / "old" / "output.log").write_text("step 1 | loss 3.0\n")
    assert paths("latest") == ["run runs/old"]


def test_latest_that_is_being_recorded_counts_before_its_first_line(here: Path) -> None:
    (here / "runs" / "old" / "output.log").write_text("step 1 | loss 3.0\n")
    descriptor = recorder_lock.hold(here / "runs" / "new")
    try:
        assert paths("latest") == ["run runs/new"]
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("word", ["many", "many/run*"])
def test_runs_stand_in_the_order_of_their_numbers(here: Path, word: str) -> None:
    for number in (10, 2, 1):
        run_folder.create(Path(f"many/run{number}"), {"run": str(number)})
    assert paths(word) == [f"run many/run{number}" for number in (1, 2, 10)]


def test_file_that_is_called_latest_is_that_file(here: Path) -> None:
    Path("latest").touch()
    assert paths("latest") == ["log latest"]


def test_dash_is_standard_input(here: Path) -> None:
    assert paths("-") == ["stdin -"]


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("gone.log", "gone.log: no such file or folder; name a run folder, a log, a glob, 'latest' or '-'"),
        ("page.html", "page.html: no such file or folder; to write it, say --out page.html"),
        ("*.csv", "*.csv: no such file or folder; name a run folder, a log, a glob, 'latest' or '-'"),
        ("empty", "empty: the folder is empty; name a folder that holds logs or runs"),
    ],
)
def test_word_that_names_nothing_is_an_error(here: Path, word: str, line: str) -> None:
    Path("empty").mkdir()
    with pytest.raises(GputelError) as error:
        sources.find(word)
    assert str(error.value) == line


def test_without_a_run_there_is_no_latest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GputelError) as error:
        sources.find("latest")
    assert str(error.value) == "latest: there is no run under runs/; record one: gputel record -- COMMAND"


def test_report_of_several_runs_names_the_table_of_all(here: Path) -> None:
    with pytest.raises(GputelError, match=r"holds 2 runs.*name one of them.*'gputel runs runs' shows all"):
        sources.one_subject("runs")


def test_command_that_needs_one_run_says_how_many_it_was_given(here: Path) -> None:
    assert sources.one_run("runs/new") == Path("runs/new")
    with pytest.raises(
        GputelError, match="runs: holds 2 runs, and this needs one; name one of them, such as runs/old"
    ):
        sources.one_run("runs")
    with pytest.raises(GputelError, match=r"logs: no run is here; a run folder holds a run\.json"):
        sources.one_run("logs")
    with pytest.raises(GputelError, match="gone: no such file or folder; name a run folder, or 'latest'"):
        sources.one_run("gone")


def test_one_run_is_found_below_its_folder_and_without_its_links(here: Path) -> None:
    run_folder.create(Path("outputs/2026/d16"), {"run": "d16"})
    run_folder.create(Path("outputs/.trash/d12"), {"run": "d12"})
    Path("outputs/last").symlink_to("2026/d16")
    assert sources.one_run("outputs") == Path("outputs/2026/d16")
    assert sources.one_run("outputs/last") == Path("outputs/last")
    assert sources.one_run("outputs/*/d16") == Path("outputs/2026/d16")


def test_one_run_of_a_folder_is_found_in_a_process_that_still_forks(here: Path) -> None:
    """The recorder blocks its signals in its only thread; one of polars would take them."""
    run_folder.create(Path("outputs/d16"), {"run": "d16"})
    check = (
        "from gputel.cli import sources; import os, sys; sources.one_run('outputs')\n"
        "assert not {'numpy', 'polars'} & set(sys.modules), sys.modules\n"
        "assert len(os.listdir('/proc/self/task')) == 1"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


@pytest.mark.parametrize(
    ("path", "name"),
    [("logs/d16-base.log.gz", "d16-base"), ("x.log", "x"), ("train", "train"), ("a.b.txt.zst", "a.b")],
)
def test_log_is_named_without_its_endings(path: str, name: str) -> None:
    assert sources.RunSource("log", Path(path)).name == name


@pytest.mark.parametrize("command", ["info", "report", "parse", "tail --plain"])
def test_output_that_is_a_link_to_an_endless_device_is_named_and_not_read(here: Path, command: str) -> None:
    ended = {"ended": {"wall_ns": 10**18}}
    output = run_folder.create(here / "sent", {"run": "a", "argv": ["train"], **ended}).output
    output.symlink_to("/dev/zero")
    answer = gputel(*command.split(), "sent")
    fault = "sent/output.log: cannot be read and is left out (no file of this folder: a link out of it"
    assert fault in answer.stderr


def test_many_files_that_are_damaged_in_one_way_are_counted(here: Path) -> None:
    for number in range(8):
        run_folder.create(here / "later" / f"r{number}", {"run": "a"})
        (here / "later" / f"r{number}" / run_folder.DESCRIPTION).write_text('{"schema": 9}')
    lines = [line for line in gputel("runs", "later").stderr.splitlines() if line.startswith("warning")]
    assert len(lines) == 6
    assert "schema 9 is not 1" in lines[0]
    assert lines[-1] == "warning: 3 more files called run.json: cannot be read and is left out"


def test_runs_as_a_shell_lists_them_are_put_in_natural_order_and_others_stay() -> None:
    assert sources.in_natural_order(["run1", "run10", "run2"]) == ["run1", "run2", "run10"]
    assert sources.in_natural_order(["run10", "run2", "run1"]) == ["run10", "run2", "run1"]
    assert sources.in_natural_order(["a10", "a2", "B1"]) == ["a2", "a10", "B1"]
    assert sources.in_natural_order(["B1", "a10", "a2"]) == ["B1", "a2", "a10"]
