"""`result.json` of Ray Tune, which RLlib uses -> one stored run: a JSON object a line for each report of a trial.

It also has the metrics that came after the first row, which the table beside it leaves out; the settings
are in every row, and in `params.json` beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gputel.analysis.logs.patterns import Reject
from gputel.analysis.stores.points import DEEPEST, StoredRun, from_rows, moment_ns, number, settings, whole
from gputel.telemetry.characters import parse_json
from gputel.telemetry.own_files import read_own

FORMAT = "ray-tune"
STEP, MOMENT, CONFIG = "training_iteration", "timestamp", "config"
COLUMNS = frozenset({STEP, "time_total_s"})  # of every trial
OWN = frozenset({STEP, MOMENT, "pid", "trial_id", "experiment_id"})  # are not metrics
RESULTS, SETTINGS = "result.json", "params.json"
TAGS = "ray/tune/"  # begins every tag of the event file of a trial, which repeats the reports
STATE = re.compile(r"experiment_state-.*\.json")  # of all trials, for Tune itself
STATE_MARK = b'{"trial_data"'
KEYS = tuple(re.compile(rb'"%s"\s*:\s*[0-9]' % name.encode()) for name in sorted(COLUMNS))
LARGEST = 1 << 20


def is_results(head: bytes) -> bool:
    """Whether bytes begin the reports of a trial."""
    return all(key.search(head) for key in KEYS)


def read(path: Path, data: bytes) -> StoredRun:
    """Reads the reports of one trial; a last line that is torn is left for the next look."""
    rejects: list[Reject] = []
    config = settings_beside(path.parent)
    values = from_rows(_rows(data, rejects, config))
    return StoredRun(path.resolve().parent.name, str(path), FORMAT, values, config, rejects=rejects)


def settings_beside(folder: Path) -> dict[str, float | str]:
    """Reads the settings of a trial from `params.json`; nothing without it."""
    try:
        given = parse_json(read_own(folder / SETTINGS, LARGEST))
    except (OSError, ValueError):
        return {}
    return _settings(given)


def _settings(given: object) -> dict[str, float | str]:
    """Flattens the settings; a list is kept as its text, as the table has it."""
    return settings(_with_lists_as_text(given)) if isinstance(given, dict) else {}


def _with_lists_as_text(given: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, dict) and depth < DEEPEST:
            plain[name] = _with_lists_as_text(value, depth + 1)
        else:
            plain[name] = json.dumps(value) if isinstance(value, list) else value
    return plain


def _rows(
    data: bytes, rejects: list[Reject], config: dict[str, float | str]
) -> Iterator[tuple[int, int, dict[str, float]]]:
    """Yields the step, the time and the numbers of each report; adds the settings in the first to `config`."""
    lines = data.split(b"\n")
    is_first = True
    for at, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
        except ValueError:
            if at < len(lines):
                rejects.append(Reject(at, FORMAT, "a line is no JSON object"))
            continue
        step = whole(row.get(STEP)) if isinstance(row, dict) else None
        if step is None or abs(step) > 2**62:
            rejects.append(Reject(at, FORMAT, f"a row has no whole {STEP}"))
            continue
        if is_first:
            config |= _settings(row.get(CONFIG))
            is_first = False
        metrics = {name: value for name, value in row.items() if name not in OWN and name != CONFIG}
        yield step, moment_ns(number(row.get(MOMENT))), dict(_numbers(metrics))


def _numbers(row: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, float]]:
    """The numbers in a row, under joined names as in the table; texts and lists are left out."""
    for name, value in row.items():
        if isinstance(value, dict):
            if depth < DEEPEST:
                yield from _numbers(value, f"{prefix}{name}/", depth + 1)
        elif not isinstance(value, bool) and (cell := number(value)) is not None:
            yield f"{prefix}{name}", cell
