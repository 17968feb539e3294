"""A run in a `mlruns/` folder of MLflow -> one stored run: a text file for each metric, parameter and tag."""

from __future__ import annotations

from pathlib import Path

from gputel.analysis.stores.databases import mlflow_run
from gputel.analysis.stores.plain_yaml import plain_settings
from gputel.analysis.stores.points import StoredRun, number, setting, whole

META = "meta.yaml"
STATUSES = {1.0: "RUNNING", 2.0: "SCHEDULED", 3.0: "FINISHED", 4.0: "FAILED", 5.0: "KILLED"}
LONGEST = 4096  # bytes of a parameter


def is_folder(folder: Path) -> bool:
    """Whether a folder is one run of MLflow that was not deleted."""
    if not ((folder / META).is_file() and (folder / "metrics").is_dir()):
        return False
    meta = _meta(folder)
    return ("run_id" in meta or "run_uuid" in meta) and meta.get("lifecycle_stage") != "deleted"


def is_deleted(folder: Path) -> bool:
    return (folder / META).is_file() and _meta(folder).get("lifecycle_stage") == "deleted"


def metric_files(folder: Path) -> list[Path]:
    return sorted(
        path for path in (folder / "metrics").rglob("*") if path.is_file() and not path.is_symlink()
    )


def read(folder: Path) -> StoredRun:
    meta = _meta(folder)
    series = {path.relative_to(folder / "metrics").as_posix(): _values(path) for path in metric_files(folder)}
    params = (folder / "params").rglob("*") if (folder / "params").is_dir() else []
    config = {
        path.relative_to(folder / "params").as_posix(): setting(path.read_text(errors="replace")[:LONGEST])
        for path in params
        if path.is_file() and not path.is_symlink()
    }
    name = str(meta.get("run_name") or folder.name)
    status = meta.get("status")
    status_text = STATUSES.get(status, "") if isinstance(status, float) else str(status)
    return mlflow_run(
        name,
        str(folder),
        series,
        config,
        status_text,
        _moment(meta.get("start_time")),
        _moment(meta.get("end_time")),
    )


def _meta(folder: Path) -> dict[str, float | str]:
    try:
        return plain_settings((folder / META).read_text(errors="replace"))
    except OSError:
        return {}


def _values(path: Path) -> list[tuple[int, int, float]]:
    """Reads lines of `milliseconds value step`; some have more words after these."""
    rows = []
    for line in path.read_text(errors="replace").splitlines():
        words = line.split()
        try:
            stamp, value = whole(float(words[0])), float(words[1])
            step = whole(float(words[2])) if len(words) > 2 else 0
        except (ValueError, IndexError, OverflowError):
            continue
        if step is not None:
            rows.append((step, (stamp or 0) * 10**6, value))
    return sorted(rows, key=lambda row: (row[0], row[1]))


def _moment(milliseconds: object) -> int | None:
    moment = number(milliseconds)
    return int(moment) * 10**6 if moment and 0 < moment < 1e13 else None
