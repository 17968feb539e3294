"""`gputel runs` as people use it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.analysis.stores.compose_events import losses, version
from tests.analysis.stores.test_databases import mlflow
from tests.analysis.stores.test_tensorboard import write
from tests.command import gputel as in_process


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(tmp_path / "all" / "tb", version() + losses(range(20)))
    for name, rate in (("a", 0.1), ("b", 0.2)):
        text = f"lr = {rate}\n" + "".join(f"step {n} | loss {9 - n}.0 | lr {rate}\n" for n in range(5))
        (tmp_path / "all" / f"{name}.log").write_text(text)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "all"


def gputel(*words: str, code: int = 0, command: str = "runs") -> subprocess.CompletedProcess[str]:
    done = in_process(command, *words)
    assert done.returncode == code, done.stderr
    return done


def runs(*words: str) -> list[dict[str, object]]:
    return list(json.loads(gputel(*words, "--json").stdout)["runs"])


def test_folder_is_named_once(folder: Path) -> None:
    assert [row["run"] for row in runs(str(folder), "--sort", "run")] == ["a", "b", "tb"]
    assert [row["run"] for row in runs("--where", "lr > 0.15")] == ["b"]
    assert [row["loss"] for row in runs("--sort", "-loss", "--columns", "loss", "--limit", "1")] == [5]


def test_first_question_without_a_folder_says_what_to_type(folder: Path) -> None:
    assert "gputel runs FOLDER" in gputel(code=2).stderr


def test_place_that_was_never_there_is_an_error_and_is_not_remembered(folder: Path) -> None:
    """A typing error is not an empty table; a disk that is away still is a table of what was on it."""
    asked = gputel(str(folder), str(folder.parent / "al"), code=1)
    assert (
        asked.stderr
        == f"error: {folder.parent / 'al'}: no such file or folder; name a folder of runs, a run or a log\n"
    )
    gputel(code=2)
    assert len(runs(str(folder))) == 3
    folder.rename(folder.parent / "away")
    assert len(runs(str(folder))) == 3


def test_run_of_a_database_is_asked_about_by_its_address(folder: Path) -> None:
    base = mlflow(folder / "mlflow.db")
    assert [row["run"] for row in runs(f"{base}#second")] == ["second"]


def test_table_csv_parquet_and_page_have_the_same_rows(folder: Path, tmp_path: Path) -> None:
    words = (str(folder), "--sort", "run", "--columns", "run,loss")
    assert "tb" in gputel(*words).stdout
    gputel(*words, "--csv", "--parquet", "--html", "--out", str(tmp_path / "out"))
    with (tmp_path / "out" / "gputel-runs.csv").open() as file:
        assert [row["run"] for row in csv.DictReader(file)] == ["a", "b", "tb"]
    assert pl.read_parquet(tmp_path / "out" / "gputel-runs.parquet")["run"].to_list() == ["a", "b", "tb"]
    assert "<html" in (tmp_path / "out" / "gputel-runs.html").read_text()


def test_column_that_is_asked_for_is_shown_without_any_value(folder: Path) -> None:
    def heads(*words: str) -> list[str]:
        return gputel(str(folder), *words).stdout.splitlines()[2].split()

    assert heads("--columns", "run,mfu,loss") == ["run", "mfu", "loss"]
    assert heads("--sql", "SELECT run, mfu FROM runs") == ["run", "mfu"]
    assert "energy" not in heads()
    assert "mfu" not in heads("--columns", "all")


def test_runs_of_one_name_are_distinguished_by_their_folders_where_people_read_them(folder: Path) -> None:
    (folder / "old").mkdir()
    text = (folder / "a.log").read_text() + "step 5 | loss 3.5 | lr 0.1\n"
    (folder / "old" / "a.log").write_text(text)
    gputel("all", "--columns", "run,steps", "--html", "--out", "page")
    table = gputel("all", "--columns", "run,steps").stdout
    page = (folder.parent / "page" / "gputel-runs.html").read_text()
    assert all(name in text for name in ("all/a", "old/a") for text in (table, page))
    assert sorted(str(row["run"]) for row in runs("all", "--columns", "run")) == ["a", "a", "b", "tb"]


def test_groups_have_counts(folder: Path) -> None:
    rows = runs(str(folder), "--by", "kept_by", "--columns", "loss")
    assert {(row["kept_by"], row["runs"]) for row in rows} == {("log", 2), ("tensorboard", 1)}


def test_groups_are_in_the_order_of_their_names_unless_asked_otherwise(folder: Path) -> None:
    def rates(*words: str) -> list[object]:
        return [row["lr"] for row in runs(str(folder), "--by", "lr", "--columns", "loss", *words)]

    (folder / "0.log").write_text((folder / "b.log").read_text().replace("0.2", "0.03"))
    assert rates() == [0.03, 0.1, 0.2, None]
    assert rates("--sort", "-lr") == [0.2, 0.1, 0.03, None]


def test_runs_that_cannot_be_read_are_counted_and_named_if_asked_for(folder: Path) -> None:
    for number in range(5):
        (folder / f"bad{number}.log.gz").write_bytes(b"\x1f\x8bno gzip")
    *named, last = gputel(str(folder)).stderr.splitlines()
    assert [line.startswith(f"left out: {folder}/bad{n}.log.gz: cannot") for n, line in enumerate(named)] == [
        True
    ] * 3
    assert last == "left out: 2 more; -v names them"
    assert gputel(str(folder), "-v").stderr.count("left out: ") == 5


def test_sql_asks_the_tables(folder: Path) -> None:
    gputel(str(folder))
    assert runs("--no-update", "--sql", "SELECT count(*) AS n FROM runs") == [{"n": 3}]
    assert "may only read" in gputel("--sql", "DROP TABLE runs", code=2).stderr
    assert "leave out --where" in gputel("--sql", "SELECT 1", "--where", "1", code=2).stderr


def test_unknown_name_is_wrong_usage(folder: Path) -> None:
    assert "did you mean loss" in gputel(str(folder), "--where", "los > 1", code=2).stderr


def test_compare_takes_the_runs_that_meet_a_condition(folder: Path) -> None:
    done = gputel(str(folder), "--where", "kept_by = 'log'", "--json", command="compare")
    assert json.loads(done.stdout)["runs"] == ["a", "b"]
    assert "name runs" in gputel(command="compare", code=2).stderr


def test_compare_of_more_than_50_runs_gives_totals_and_says_that_no_curves_are_drawn(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(51):
        (folder / f"more{number}.log").write_text(
            "".join(f"step {n} | loss {number + n}.5\n" for n in range(4))
        )
    done = gputel(str(folder), command="compare")
    assert "54 runs: totals, by their facts; curves are drawn of at most 50" in done.stderr
    assert "more50" in done.stdout
    assert (
        "--target needs the curves"
        in gputel(str(folder), "--target", "loss=2", command="compare", code=2).stderr
    )
    here = folder / "runs"
    here.mkdir()
    (folder / "more10.log").rename(here / "run10.log")
    (folder / "more2.log").rename(here / "run2.log")
    monkeypatch.chdir(here.parent)
    # compare adds no place to those that are known
    assert [row["run"] for row in runs()] == [
        "run2",
        "run10",
    ]


def test_engine_ray_without_ray_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    done = gputel(str(folder), "--engine", "ray", code=2)
    assert done.stderr.startswith("error: --engine ray: needs Ray; pip install 'gputel[ray]'")


def test_address_of_a_cluster_needs_the_engine(folder: Path) -> None:
    assert "add --engine ray" in gputel(str(folder), "--address", "auto", code=2).stderr


def test_engine_is_not_started_where_all_runs_are_known(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = runs(str(folder))
    monkeypatch.setitem(sys.modules, "ray", None)
    assert runs(str(folder), "--engine", "ray") == known


def test_question_that_no_run_answers_has_no_table(folder: Path) -> None:
    gputel(str(folder))
    assert gputel("--where", "steps > 1e9").stdout.strip() == "no run"
