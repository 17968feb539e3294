"""A question reads the table and can do nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from sqlite3 import Connection

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gputel.analysis.catalogue import index, questions
from gputel.analysis.catalogue.facts import FACTS, CatalogueRow
from gputel.telemetry.errors import GputelError


def row(name: str, lr: float | str, loss: float | None, **facts: object) -> CatalogueRow:
    whole = {**dict.fromkeys(FACTS), "run": name, "loss": loss, "status": "completed", **facts}
    reward = {"count": 3, "first": 1.0, "last": 2.0, "min": 0.5, "min_step": 1, "max": 3.0, "max_step": 2}
    return CatalogueRow(whole, {"config.rate": lr, "config.layers": 4}, {"reward": reward})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "catalogue.db"
    with index.opened(path) as base:
        index.put(base, [index.IndexedRow(Path("/runs/a"), "s", row("a", "1e-3", 2.5))])
        index.put(base, [index.IndexedRow(Path("/runs/b"), "s", row("b", 0.01, 2.0))])
        index.put(base, [index.IndexedRow(Path("/runs/c"), "s", row("c", "auto", None))])
    return path


@pytest.fixture
def base(file: Path) -> Iterator[Connection]:
    with questions.reading(file) as connection:
        yield connection


def runs(base: Connection, where: str | None = None, sort: tuple[str, ...] = ()) -> list[str]:
    return [cells[0] for cells in questions.rows_of(base, ["run"], where, sort).rows]


def test_number_kept_as_text_is_compared_as_a_number(base: Connection) -> None:
    """SQLite alone would take each of the three for more than 0.005."""
    assert runs(base, "rate > 0.005") == ["b"]
    assert runs(base, "rate < 0.005") == ["a"]
    assert runs(base, "rate = 'auto'") == ["c"]


def test_facts_settings_and_metrics_stand_in_one_condition(base: Connection) -> None:
    assert runs(base, "loss < 3 and layers = 4 and reward.max > 2", ("loss",)) == ["b", "a"]


def test_unknown_values_come_last_in_both_directions(base: Connection) -> None:
    assert runs(base, None, ("loss",)) == ["b", "a", "c"]
    assert runs(base, None, ("-loss",)) == ["a", "b", "c"]


def test_only_runs_below_the_places_are_asked_about(base: Connection) -> None:
    assert questions.rows_of(base, ["run"], None, (), [Path("/runs/b")]).rows == [("b",)]
    assert questions.rows_of(base, ["run"], None, (), [Path("/run")]).rows == []


ATTACKS = {
    "attach": "ATTACH '{file}' AS other",
    "extension": "SELECT load_extension('evil')",
    "write": "DELETE FROM runs",
    "two": "SELECT 1; DROP TABLE runs",
    "pragma": "PRAGMA writable_schema = ON",
    "vacuum": "VACUUM INTO '{file}.copy'",
    "schema": "SELECT sql FROM sqlite_master",
    "roots": "SELECT * FROM roots",
    "pragma function": "SELECT * FROM pragma_database_list",
    "temporary": "CREATE TEMP TABLE t AS SELECT 1",
    "bytes": "SELECT length(zeroblob(1000000000))",
    "print": "SELECT printf('%1000000000d', 1)",
    "not a question": "SELEC",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_attack_is_refused(base: Connection, file: Path, attack: str) -> None:
    with pytest.raises(GputelError) as error:
        questions.ask(base, ATTACKS[attack].format(file=file))
    assert error.value.exit_code == 2
    assert sorted(path.name for path in file.parent.iterdir()) == ["catalogue.db"]
    assert runs(base) == ["a", "b", "c"]


def test_question_that_never_ends_is_ended(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "LONGEST_S", 0.05)
    with questions.reading(file) as base, pytest.raises(GputelError):
        questions.ask(
            base, "WITH RECURSIVE a(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a) SELECT max(x) FROM a"
        )


def test_answer_that_is_too_large_is_refused_and_never_cut(
    base: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "MOST_CELLS", 27)
    assert len(questions.ask(base, "SELECT a.run FROM runs a, runs b, runs c").rows) == 27
    with pytest.raises(GputelError, match="more than 27 cells"):
        questions.ask(base, "SELECT a.run, b.run FROM runs a, runs b, runs c")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="recursion is refused there")
def test_text_that_doubles_at_each_step_ends_at_a_megabyte(base: Connection) -> None:
    grow = "WITH RECURSIVE a(x) AS (SELECT 'aa' UNION ALL SELECT x || x FROM a) SELECT max(length(x)) FROM a"
    with pytest.raises(GputelError, match="too big"):
        questions.ask(base, grow)


@pytest.mark.parametrize(
    "where", ["1) UNION SELECT sql FROM sqlite_master --", "1; DROP TABLE runs", "load_extension('x')"]
)
def test_condition_cannot_leave_its_place(base: Connection, where: str) -> None:
    with pytest.raises(GputelError):
        runs(base, where)


WORDS = """loss rate reward.max 'x' '' "a" [x] `y` 1e9 1e-3 ( ) ((((( and or not in like glob between is null case
    when end ; -- /* */ union select from sqlite_master attach load_extension('x') randomblob(9e9) zeroblob(1e10)
    || % / 0 - + printf('%999999999d',1) group_concat(loss) abs(-9223372036854775808) readfile('/etc/passwd')
    (select 1) r.id runs.path exists(select json('{') \x00 \ud800 \\""".split()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=14))
def test_any_words_are_answered_or_refused_and_change_nothing(file: Path, words: list[str]) -> None:
    before = file.read_bytes()
    with questions.reading(file) as base, suppress(GputelError):
        runs(base, " ".join(words))
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["catalogue.db"]


def test_question_loads_neither_polars_nor_numpy() -> None:
    """They would take longer than the question."""
    script = "import sys, gputel.analysis.catalogue.answer; print({'polars', 'numpy'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
