"""Runs with the settings in which they differ, and which of these matter for a figure: for the page of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gputel.analysis.catalogue import groups, questions
from gputel.analysis.catalogue.answer import RunsQuestion, columns_of
from gputel.analysis.catalogue.importance import LEAST_RUNS, Importance, importance
from gputel.analysis.catalogue.questions import RunRows

MOST_SETTINGS = 10
TARGETS = ("val_loss_min", "val_bpb_min", "loss")
NO_FIGURES = ("started", "ended", "run", "path")


@dataclass(frozen=True)
class Sweep:
    """`found` begins with the run's name and its settings; `target` is the figure that they matter for, if any.

    `why_not` says why no setting is known to matter.
    """

    found: RunRows
    paths: Sequence[Path]
    target: str
    matter: Sequence[Importance]

    @property
    def why_not(self) -> str:
        if self.matter:
            return ""
        if len(self.paths) < LEAST_RUNS:
            return (
                f"{len(self.paths)} runs are too few: {LEAST_RUNS} are needed to tell a setting from chance"
            )
        return f"no setting differs between {LEAST_RUNS} runs that have {self.target}"


def sweep(question: RunsQuestion, file: Path) -> Sweep:
    """The runs of a question with the settings in which they differ; sorting by a figure makes it the target."""
    columns = columns_of(question)
    asked = [name for word in question.sort if (name := word.lstrip("-")) not in NO_FIGURES]
    with questions.reading(file) as connection:
        names = ["path", *columns, *asked[:1], *TARGETS]
        found = questions.rows_of(
            connection, names, question.where, question.sort, question.places, question.limit
        )
        by_path = questions.settings(connection)
    paths = [row[0] for row in found.rows]
    figures = {name: [row[at] for row in found.rows] for at, name in enumerate(names)}
    target = next((name for name in (*asked[:1], *TARGETS) if _is_figure(figures[name])), "")
    settings = _differing([by_path.get(path, {}) for path in paths])
    matter = importance(figures[target], settings) if target else []
    order = [*(each.setting for each in matter), *settings]
    repeated = {name for name, cells in settings.items() if figures.get(name.partition(".")[2]) == cells}
    shown = [name for name in dict.fromkeys(order) if name not in repeated and _is_short(settings[name])][
        :MOST_SETTINGS
    ]
    heads = _heads(shown, columns)
    more = [target] if target and target not in columns else []
    first, rest = columns[:1], [*columns[1:], *more]
    if not question.columns:
        rest = [name for name in rest if any(cell is not None for cell in figures[name])]
    cells = [
        *(figures[name] for name in first),
        *(settings[name] for name in shown),
        *(figures[n] for n in rest),
    ]
    rows = RunRows([*first, *heads, *rest], list(zip(*cells, strict=True)))
    return Sweep(rows, [Path(path) for path in paths], target, matter)


def _is_figure(cells: Sequence[Any]) -> bool:
    """Whether at least half of the runs have a number."""
    return 0 < len(cells) <= 2 * sum(isinstance(cell, (int, float)) for cell in cells)


def _differing(settings: Sequence[Mapping[str, float | str]]) -> dict[str, list[float | str | None]]:
    """The settings with at least two values, but for those that name a run."""
    names = dict.fromkeys(name for each in settings for name in each if not groups.SEEDS.search(name))
    values = {name: [each.get(name) for each in settings] for name in names}
    return {
        name: cells for name, cells in values.items() if len({cell for cell in cells if cell is not None}) > 1
    }


def _is_short(cells: Sequence[float | str | None]) -> bool:
    return all(len(cell) <= 40 for cell in cells if isinstance(cell, str))


def _heads(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """`lr` of `config.lr`, unless a fact or another setting is called so, too."""
    bare = [name.partition(".")[2] for name in names]
    return [
        short if bare.count(short) == 1 and short not in taken else name
        for name, short in zip(names, bare, strict=True)
    ]
