"""The answer of `gputel runs`: columns and rows of the runs that a question names."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gputel.analysis.catalogue import groups, index, questions
from gputel.analysis.catalogue.compute import Engine, compute_where_it_pays
from gputel.analysis.catalogue.facts import FACTS
from gputel.analysis.catalogue.questions import RunRows
from gputel.telemetry.errors import GputelError

DEFAULT = (
    "run", "simulated", "status", "started", "duration_s", "gpu", "gpus", "steps", "loss", "val_loss_min", "lr",
    "tok_per_sec", "energy_j", "kept_by",
)  # fmt: skip
FIGURES = ("loss", "val_loss_min", "tok_per_sec", "energy_j", "duration_s")
TOTALS = (
    "run", "simulated", "status", "depth", "gpus", "steps", "tokens", "duration_s", "loss", "val_loss_min",
    "tok_per_sec", "mfu", "energy_j", "j_per_token", "power_mean_w", "mem_max_mib",
)  # fmt: skip
ALL, SETTINGS = "all", "settings"
STALE = "a run that was computed while it went on is shown as of then"


@dataclass(frozen=True)
class RunsQuestion:
    """The question; without `columns` the usual ones are shown."""

    places: tuple[Path, ...] = ()
    where: str | None = None
    sql: str | None = None
    sort: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    limit: int | None = None
    updates: bool = True


def refreshed(
    question: RunsQuestion,
    file: Path,
    show: Callable[[list[Path]], Iterable[Path]] = lambda stale: stale,
    *,
    remember: bool = True,
    engine: Engine = compute_where_it_pays,
) -> tuple[RunsQuestion, index.Changes]:
    """Makes the index true of the places that are asked about; the question comes back with their names."""
    with index.opened(file) as connection:
        places = _places(question, connection)
        if not places:
            hint = "name a folder once: gputel runs FOLDER"
            raise GputelError(
                "gputel runs", "no runs are known, and there is no runs/ here", hint, exit_code=2
            )
        changes = index.Changes()
        if question.updates:
            changes = index.update(connection, places, show, remember=remember, engine=engine)
        return replace(question, places=tuple(places)), changes


def _places(question: RunsQuestion, connection: Any) -> list[Path]:
    """The places that are named, else all that ever were, and ./runs; refuses a named one that was never there."""
    for place in question.places:
        if not index.is_there(place) and not _knows(connection, place):
            raise GputelError(str(place), "no such file or folder", "name a folder of runs, a run or a log")
    places = list(question.places) or index.known_roots(connection)
    here = Path("runs").resolve()
    return [*places, here] if not question.places and here.is_dir() and here not in places else places


def _knows(connection: Any, place: Path) -> bool:
    """Whether any run at or below a place is known."""
    below = f"{place}{os.sep}"
    query = "SELECT 1 FROM runs WHERE path = ? OR substr(path, 1, ?) = ? LIMIT 1"
    return connection.execute(query, (str(place), len(below), below)).fetchone() is not None


def chosen_paths(where: str, places: Sequence[Path], file: Path) -> list[Path]:
    """The runs that meet a condition, the oldest first; all that are known if no places are named."""
    question, _ = refreshed(RunsQuestion(tuple(places), where=where, columns=("path",)), file)
    return [Path(path) for (path,) in answer(question, file).rows]


def totals(
    chosen: Sequence[Path], file: Path, show: Callable[[list[Path]], Iterable[Path]] = lambda stale: stale
) -> RunRows:
    """The totals of many runs by their facts, in the order given; each is computed once and kept in the index."""
    resolved = [path.resolve() for path in chosen]
    with index.opened(file) as connection:
        index.update(connection, resolved, show, remember=False)
    with questions.reading(file) as connection:
        found = questions.rows_of(connection, ["path", *TOTALS], None, ())
    by_path = {row[0]: row[1:] for row in found.rows}
    known = [str(path) for path in resolved if str(path) in by_path]
    return RunRows(list(TOTALS), [by_path[path] for path in known], known)


def answer(question: RunsQuestion, file: Path) -> RunRows:
    """Answers a question, as `refreshed` gave it back, from the index."""
    with questions.reading(file) as connection:
        if question.sql:
            return questions.ask(connection, question.sql)
        columns = columns_of(question)
        by = () if question.by == (SETTINGS,) else question.by
        found = questions.rows_of(
            connection,
            ["path", *by, *columns],
            question.where,
            question.sort or by,
            question.places,
            None if question.by else question.limit,
        )
        paths = [str(row[0]) for row in found.rows]
        if not question.by:
            return RunRows(list(columns), [row[1:] for row in found.rows], paths)
        rows = [row[1:] for row in found.rows]
        if not by:
            experiments = _experiments(connection)
            rows = [
                (experiments.get(path, "no settings"), *row) for path, row in zip(paths, rows, strict=True)
            ]
        heads, cells = groups.grouped(question.by, columns, rows)
        return RunRows(heads, cells[: question.limit])


def as_json(found: RunRows) -> dict[str, Any]:
    return {"schema": 1, "runs": [dict(zip(found.columns, row, strict=True)) for row in found.rows]}


def as_table(found: RunRows) -> Any:
    """The rows as a frame; a column whose rows have different types is text."""
    import polars as pl

    columns = []
    for at, name in enumerate(_distinct(found.columns)):
        cells = [row[at] for row in found.rows]
        kinds = {type(cell) for cell in cells if cell is not None}
        if kinds <= {int, float}:
            columns.append(pl.Series(name, cells, dtype=pl.Float64 if float in kinds else pl.Int64))
        else:
            texts = [cell if cell is None or isinstance(cell, str) else json.dumps(cell) for cell in cells]
            columns.append(pl.Series(name, texts, dtype=pl.String))
    return pl.DataFrame(columns)


def _distinct(names: Sequence[str]) -> list[str]:
    """Numbers names that stand twice, as a join may give them."""
    seen: dict[str, int] = {}
    answer = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        answer.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return answer


def columns_of(question: RunsQuestion) -> tuple[str, ...]:
    """The columns that are asked for, else the usual ones."""
    if question.by:
        return question.columns or FIGURES
    if question.columns == (ALL,):
        return tuple(FACTS)
    return question.columns or DEFAULT


def _experiments(connection: Any) -> dict[str, str]:
    """The settings that seeds of one experiment share, by path."""
    return {path: groups.experiment(each) for path, each in questions.settings(connection).items()}
