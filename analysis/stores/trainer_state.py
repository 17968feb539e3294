"""`trainer_state.json` of Hugging Face's Trainer -> one stored run.

Each entry of `log_history` is a step; the one with `train_runtime` is the summary of the run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gputel.analysis.logs.outcome import LogEvent, Status
from gputel.analysis.logs.patterns import Reject
from gputel.analysis.stores.points import StoredRun, from_rows, number, settings, whole

FORMAT, NAME = "hf-trainer", "trainer_state.json"
MARKS = (b'"log_history"', b'"global_step"')
CHECKPOINT = re.compile(r"checkpoint-(\d+)$")
PLANNED = {"max_steps": "total_steps", "num_train_epochs": "epochs", "train_batch_size": "train_batch_size"}


def is_trainer_state(head: bytes) -> bool:
    return head.lstrip()[:1] == b"{" and MARKS[0] in head and MARKS[1] in head


def newest(folder: Path) -> tuple[Path | None, list[Path]]:
    """The state that has the whole course of the run, and those of checkpoints, which repeat a part of it."""
    states = sorted(
        (path for path in folder.glob(f"checkpoint-*/{NAME}") if CHECKPOINT.search(path.parent.name)),
        key=lambda path: int(CHECKPOINT.search(path.parent.name)[1]),  # type: ignore[index]
    )
    top = folder / NAME
    if top.is_file():
        return top, states
    return (states[-1], states[:-1]) if states else (None, [])


def read(path: Path, data: bytes) -> StoredRun:
    """Reads a state; a file that is cut off, as while it is being written, has no values yet."""
    name = path.resolve().parent.name or path.stem
    try:
        state = json.loads(data)
    except (ValueError, RecursionError) as error:
        return StoredRun(
            name, str(path), FORMAT, from_rows([]), fault=f"is not a complete JSON document: {error}"
        )
    state = state if isinstance(state, dict) else {}
    history = state.get("log_history")
    rejects: list[Reject] = []
    values = from_rows(_rows(history if isinstance(history, list) else [], rejects))
    planned = {column: number(state.get(name)) for name, column in PLANNED.items()}
    config = {column: count for column, count in planned.items() if count is not None and count > 0}
    status, cause = _ending(state)
    best = state.get("best_metric")
    summary = settings({"best_metric": best}) if best is not None else {}
    return StoredRun(
        name, str(path), FORMAT, values, settings(config), summary, rejects, status=status, cause=cause
    )  # fmt: skip


def _rows(entries: list[Any], rejects: list[Reject]) -> Iterator[tuple[int, int, dict[str, float]]]:
    for place, entry in enumerate(entries, start=1):
        step = whole(entry.get("step")) if isinstance(entry, Mapping) else None
        if step is None:
            rejects.append(Reject(place, FORMAT, "an entry of log_history has no step"))
            continue
        cells = {str(key): number(cell) for key, cell in entry.items() if key != "step"}
        yield step, 0, {key: cell for key, cell in cells.items() if cell is not None}


def _ending(state: Mapping[str, Any]) -> tuple[Status, LogEvent | None]:
    reached, total = number(state.get("global_step")), number(state.get("max_steps"))
    if reached is None or total is None or total <= 0:
        return "unknown", None
    if reached >= total:
        return "completed", None
    return "unknown", LogEvent("", 0, f"log ends at step {reached:,.0f} of {total:,.0f}")
