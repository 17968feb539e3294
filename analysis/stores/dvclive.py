"""A folder of DVCLive -> one stored run: a table per metric below plots/metrics, settings in params.yaml."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gputel.analysis.logs.patterns import Reject
from gputel.analysis.stores.plain_yaml import plain_settings
from gputel.analysis.stores.points import StoredRun, from_series, whole

FORMAT = "dvclive"
METRICS = Path("plots", "metrics")
OWN = ("metrics.json", "params.yaml", "report.html", "report.md", "plots")
HEAD = 256


def is_folder(folder: Path) -> bool:
    """Whether a folder has a table of DVCLive: a header that begins with the step."""
    return any(_is_series(path) for path in list_tables(folder)[:3])


def list_tables(folder: Path) -> list[Path]:
    below = folder / METRICS
    return sorted(below.rglob("*.tsv")) if below.is_dir() else []


def _is_series(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError:
        return False
    return head.startswith((b"step\t", b"timestamp\t"))


def read(folder: Path) -> StoredRun:
    rejects: list[Reject] = []
    series: dict[str, list[tuple[int, int, float]]] = {}
    for path in list_tables(folder):
        tag = path.relative_to(folder / METRICS).with_suffix("").as_posix()
        series[tag] = list(_rows(path, rejects))
    params = folder / "params.yaml"
    config = plain_settings(params.read_text(errors="replace")) if params.is_file() else {}
    name = folder.resolve().name
    name = folder.resolve().parent.name if name == FORMAT else name
    return StoredRun(name, str(folder), FORMAT, from_series(series), config, rejects=rejects)


def _rows(path: Path, rejects: list[Reject]) -> Iterator[tuple[int, int, float]]:
    """Yields step, time and value; the time is there if DVCLive was asked to keep it, in milliseconds."""
    lines = path.read_text(errors="replace").split("\n")
    header = lines[0].rstrip("\r").split("\t")
    if "step" not in header:
        return
    at, stamp = header.index("step"), header.index("timestamp") if "timestamp" in header else None
    for number, line in enumerate(lines[1:], start=2):
        cells = line.rstrip("\r").split("\t")
        if cells == [""]:
            continue
        try:
            step, value = whole(float(cells[at])), float(cells[-1])
            moment = int(float(cells[stamp]) * 1e6) if stamp is not None else 0
        except (ValueError, IndexError, OverflowError):
            step = None
        if step is None:
            rejects.append(Reject(number, FORMAT, f"a row of {path.name} is not a step and a number"))
            continue
        yield step, moment, value
