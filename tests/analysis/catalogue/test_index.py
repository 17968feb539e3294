"""The index is true of folders that grow, move and vanish, and may vanish itself."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gputel.analysis.catalogue import answer, index
from gputel.analysis.catalogue.index import Changes
from gputel.telemetry.errors import GputelError
from tests.analysis.stores.compose_events import losses, version
from tests.analysis.stores.test_tensorboard import write

LOG = "".join(f"step {n} | loss {9 - n}.0\n" for n in range(5))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "all" / "tb", version() + losses(range(20)))
    (tmp_path / "all" / "logs").mkdir()
    (tmp_path / "all" / "logs" / "a.log").write_text(LOG)
    (tmp_path / "all" / "README.md").write_text("nothing of a run\n")
    return tmp_path / "all"


def update(folder: Path, *roots: Path) -> Changes:
    with index.opened(folder.parent / "cache" / "catalogue.db") as base:
        return index.update(base, roots or (folder,))


def paths(folder: Path, column: str = "path") -> list[object]:
    with index.opened(folder.parent / "cache" / "catalogue.db") as base:
        return [row[0] for row in base.execute(f"SELECT {column} FROM runs ORDER BY path")]


def test_each_run_is_computed_once(folder: Path) -> None:
    assert update(folder).computed == 2
    again = update(folder)
    assert (again.computed, again.unchanged) == (0, 3)
    assert paths(folder) == [str(folder / "logs" / "a.log"), str(folder / "tb")]
    assert paths(folder, "steps") == [5, 20]


def test_run_that_grew_is_computed_anew(folder: Path) -> None:
    update(folder)
    write(folder / "tb", version() + losses(range(30)))
    assert update(folder).computed == 1
    assert paths(folder, "steps") == [5, 30]


def test_run_that_vanished_leaves_the_table(folder: Path) -> None:
    update(folder)
    shutil.rmtree(folder / "tb")
    assert update(folder).left == 1
    assert paths(folder) == [str(folder / "logs" / "a.log")]


def test_runs_of_a_place_that_is_away_stay_and_are_marked(folder: Path) -> None:
    update(folder)
    folder.rename(folder.parent / "unmounted")
    assert update(folder).away == 2
    assert paths(folder, "away") == [1, 1]
    (folder.parent / "unmounted").rename(folder)
    update(folder)
    assert paths(folder, "steps") == [5, 20]


@pytest.mark.parametrize("damage", [b"", b"no database at all" * 100])
def test_index_that_vanished_or_is_damaged_is_made_anew(folder: Path, damage: bytes) -> None:
    update(folder)
    (folder.parent / "cache" / "catalogue.db").write_bytes(damage)
    assert update(folder).computed == 2


def test_index_whose_damage_is_quoted_in_no_encoding_is_made_anew(folder: Path) -> None:
    """SQLite names the damaged table in its message, which Python then cannot decode."""
    update(folder)
    file = folder.parent / "cache" / "catalogue.db"
    file.write_bytes(file.read_bytes().replace(b"TABLE others", b"TABL\xe9 others"))
    assert update(folder).computed == 2


@pytest.mark.parametrize("table", ["others", "settings_by_key"])
def test_index_in_which_damage_is_met_later_is_deleted_and_made_anew(folder: Path, table: str) -> None:
    """Its first pages are whole, so that it opens as it should."""
    update(folder)
    file = folder.parent / "cache" / "catalogue.db"
    with closing(sqlite3.connect(file)) as base:
        (size,) = base.execute("PRAGMA page_size").fetchone()
        (page,) = base.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    data = bytearray(file.read_bytes())
    data[size * (page - 1) : size * page] = b"\xff" * size
    file.write_bytes(data)
    question = answer.RunsQuestion((folder,), columns=("rate",), updates=table == "others")
    with pytest.raises(GputelError, match=r"was damaged .* and is deleted"):
        answer.answer(answer.refreshed(question, file)[0], file)
    assert update(folder).computed == 2


def test_index_of_another_layout_is_made_anew(folder: Path) -> None:
    update(folder)
    base = sqlite3.connect(folder.parent / "cache" / "catalogue.db")
    base.execute("PRAGMA user_version = 7")
    base.close()
    assert update(folder).computed == 2


def test_unreadable_run_does_not_stop_the_others(folder: Path) -> None:
    base = sqlite3.connect(folder / "mlflow.db")
    for table in (
        "runs (run_uuid, name, lifecycle_stage, start_time)",
        "metrics (a)",
        "params (a)",
        "tags (a)",
    ):
        base.execute(f"CREATE TABLE {table}")
    base.execute("INSERT INTO runs VALUES ('x', 'y', 'active', 1)")
    base.commit()
    base.close()
    assert update(folder).computed == 2


def test_settings_kept_as_text_have_their_number(folder: Path) -> None:
    assert [index.numeric(value) for value in ("1e-3", "auto", 4, "nan", "1_000")] == [
        0.001,
        None,
        4.0,
        None,
        1000.0,
    ]


@pytest.mark.filterwarnings("ignore::gputel.telemetry.errors.DamagedFile")
def test_recording_that_goes_on_after_its_end_is_read_again(recording: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(recording, runs / "run")
    (runs / "run" / "facts.json").unlink()
    update(runs)
    assert update(runs).unchanged == update(runs, runs / "run").unchanged == 1
    second = runs / "run" / "segments" / "2"
    second.mkdir(parents=True)
    (second / "run.json").write_bytes((recording / "run.json").read_bytes())
    assert update(runs).computed == 1
    for count in (1, 2):
        (second / "output.log").write_text("step 7 | loss 0.5\n" * count)
        assert update(runs).computed == 1
        assert update(runs).unchanged == 1


@pytest.mark.parametrize("change", ["touched", "replaced", "removed"])
def test_ended_recording_is_looked_at_again_once_its_folder_changes(
    recording: Path, tmp_path: Path, change: str
) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(recording, runs / "run")
    update(runs)
    description = runs / "run" / "run.json"
    if change == "touched":
        description.write_bytes(description.read_bytes() + b"\n")
    elif change == "replaced":
        (runs / "run" / "draft").write_bytes(description.read_bytes())
        (runs / "run" / "draft").rename(description)
    else:
        shutil.rmtree(runs / "run")
    changes = update(runs)
    assert (changes.computed, changes.left) == ((0, 1) if change == "removed" else (1, 0))


def test_full_disk_is_no_damage_and_costs_no_row(folder: Path) -> None:
    update(folder)
    for number in range(30):
        (folder / "logs" / f"{number}.log").write_text(LOG)
    file = folder.parent / "cache" / "catalogue.db"
    with pytest.raises(GputelError, match=r"disk is full.*XDG_CACHE_HOME"):
        update_on_a_full_disk(file, folder)
    assert {str(folder / "logs" / "a.log"), str(folder / "tb")} <= {*paths(folder)}


def update_on_a_full_disk(file: Path, folder: Path) -> None:
    """Updates an index that may not grow."""
    with index.opened(file) as base:
        base.execute("PRAGMA max_page_count = 1")
        index.update(base, [folder])


def test_place_that_cannot_be_written_is_named_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GputelError, match=r"Not a directory.*XDG_CACHE_HOME"):
        update_on_a_full_disk(tmp_path / "file" / "cache" / "catalogue.db", tmp_path)


def test_link_to_a_known_recording_is_no_second_run(recording: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(recording, runs / "run")
    update(runs)
    (runs / "again").symlink_to("run")
    update(runs)
    assert paths(runs) == [str(runs / "run")]


WRITER = """
import sys
from pathlib import Path
from gputel.analysis.catalogue import answer, index
from gputel.analysis.catalogue.facts import FACTS, CatalogueRow
file, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with index.opened(file) as base:
    for number in range(count):
        path = Path(f"/runs/{number % 50 if name == 'shared' else name}{number}")
        facts = dict.fromkeys(FACTS) | {"path": str(path), "run": path.name, "loss": 1.0}
        index.put(base, [index.IndexedRow(path, "s", CatalogueRow(facts, {"config.lr": 0.1}, {}))])
        print(number, flush=True)
"""


def writer(file: Path, name: str, count: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", WRITER, str(file), name, str(count)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


@pytest.mark.long
@pytest.mark.parametrize("names", [("a", "b"), ("shared", "shared")])
def test_two_writers_at_once_lose_no_row(tmp_path: Path, names: tuple[str, str]) -> None:
    file = tmp_path / "catalogue.db"
    both = [writer(file, name, 200) for name in names]
    for process in both:
        process.communicate()
        assert process.returncode == 0
    with index.opened(file) as base:
        counts = base.execute("SELECT count(*), count(DISTINCT path) FROM runs").fetchone()
        settings = base.execute("SELECT count(*) FROM settings").fetchone()
    assert counts == ((400, 400) if names == ("a", "b") else (200, 200))
    assert settings == counts[:1]


@pytest.mark.long
def test_index_is_whole_after_a_kill_of_its_writer(tmp_path: Path) -> None:
    file = tmp_path / "catalogue.db"
    process = writer(file, "a", 1_000_000)
    assert process.stdout
    written = [int(process.stdout.readline()) for _ in range(100)]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with index.opened(file) as base:
        assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        runs, settings = (
            base.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("runs", "settings")
        )
    assert runs == settings >= len(written)
