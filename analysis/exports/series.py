"""A run -> series for trackers: a value at a step and a moment under a tag, such as `train/loss` or `gpu0/power_w`.

Metrics, evaluations and energy are by training step, readings of GPUs by whole second of the run. A value that is
unknown is left out, and a moment that is unknown is NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.analysis.align import join, per_step
from gputel.analysis.align.samples import gpu_samples
from gputel.analysis.align.spans import cut_spans
from gputel.analysis.catalogue import facts
from gputel.telemetry.errors import GputelError
from gputel.telemetry.file_names import file_name

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData

READINGS = ("power_w", "temp_c", "util", "mem_used_mib", "sm_mhz")
SIMULATED = "SIMULATED"
SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class TagSeries:
    """The values of one tag. `axis` says what `steps` count; `times` are seconds since 1970."""

    tag: str
    axis: Literal["step", "second"]
    steps: npt.NDArray[np.int64]
    times: npt.NDArray[np.float64]
    values: npt.NDArray[np.float64]


@dataclass(frozen=True)
class ExportedRun:
    """A run as trackers take it. `key` is the same for the same run, whenever it is exported."""

    name: str
    key: str
    started_s: float
    settings: Mapping[str, float | str]
    status: str
    exit_code: int | None
    series: tuple[TagSeries, ...]

    @property
    def values(self) -> int:
        return sum(len(each.values) for each in self.series)


def exported(subject: RunData) -> ExportedRun:
    """Makes the series of a run; raises GputelError where it has none."""
    series = [each for each in _series(subject) if len(each.values)]
    if not series:
        raise GputelError(subject.log.source, "holds no value at a step", "see what it holds: gputel parse")
    simulated = subject.recording.simulated if subject.recording else None
    started = subject.log.started or subject.log.began or 0
    name = file_name(subject.name)
    first = "" if started else _first_values(series)
    identity = blake2b(f"{name} {started}{first}".encode(), digest_size=8).hexdigest()
    codes = subject.recording.segments["exit_code"].to_list() if subject.recording else []
    return ExportedRun(
        f"{name}-{SIMULATED}" if simulated else name,
        identity,
        started / SECOND_NS,
        _settings(subject, simulated),
        subject.log.status,
        codes[-1] if codes else None,
        tuple(series),
    )


def _first_values(series: Sequence[TagSeries]) -> str:
    """The values at the first step, by which runs of one name are told apart where none has a time."""
    firsts = [(int(each.steps[0]), each.tag, float(each.values[0])) for each in series if each.axis == "step"]
    begin = min((step for step, _, _ in firsts), default=0)
    return f" {sorted(first for first in firsts if first[0] == begin)}" if firsts else ""


def _settings(subject: RunData, simulated: str | None) -> dict[str, float | str]:
    """Printed settings under their own names, tags and versions under `tag.` and `package.`; secrets are masked."""
    found = {name.removeprefix(f"{facts.CONFIG}."): value for name, value in facts.settings(subject).items()}
    about = {"gputel.status": subject.log.status, "gputel.simulated": simulated}
    return found | {name: value for name, value in about.items() if value}


def _series(subject: RunData) -> Iterator[TagSeries]:
    log = subject.log
    several = len({phase for phase, _ in log.places}) > 1
    for phase in dict.fromkeys(phase for phase, _ in log.places):
        prefix = f"{phase}/" if several else ""
        rows = log.steps.filter(pl.col("phase") == phase)
        for name in log.metrics():
            yield _by_step(f"{prefix or 'train/'}{name}", rows.select("step", "time", value=name))
        evals = log.evals.filter(pl.col("phase") == phase)
        for name in dict.fromkeys(evals["name"].to_list()):
            chosen = evals.filter(pl.col("name") == name)
            last = chosen.filter(pl.col("attempt") == pl.col("attempt").max().over("step"))
            yield _by_step(prefix + _tag(name), last.select("step", "time", "value"))
    if subject.gpu is not None:
        yield from _energy(subject, several)
        yield from _readings(subject)


def _tag(evaluation: str) -> str:
    """`val/loss` of val_loss; `eval/hellaswag` of hellaswag."""
    bare = evaluation.removeprefix("val_")
    return f"eval/{evaluation}" if bare == evaluation else f"val/{bare}"


def _by_step(tag: str, rows: pl.DataFrame, axis: Literal["step", "second"] = "step") -> TagSeries:
    known = rows.drop_nulls(["step", "value"])
    moments = known["time"].dt.epoch("ns").cast(pl.Float64) / SECOND_NS
    return TagSeries(
        tag,
        axis,
        known["step"].cast(pl.Int64).to_numpy(),
        moments.fill_null(np.nan).to_numpy(),
        known["value"].cast(pl.Float64).to_numpy(),
    )


def _energy(subject: RunData, several: bool) -> Iterator[TagSeries]:
    """The energy of each step that was measured as a whole; of one node, also all measured until its end."""
    spans = join.measured(cut_spans(subject), gpu_samples(subject))
    steps = per_step.one_by_one(subject, per_step.of_spans(spans)).filter(pl.col("measured") >= join.WHOLE)
    sums = spans.with_columns(total=join.JOULES.fill_null(0).cum_sum()).filter(pl.col("steps") > 0)
    for phase in steps["phase"].unique(maintain_order=True):
        prefix, of_phase = f"{phase}/" if several else "", pl.col("phase") == phase
        for name, rows, value in (("step_j", steps, join.JOULES), ("total_j", sums, pl.col("total"))):
            if name == "step_j" or "node" not in spans.columns:
                chosen = rows.filter(of_phase).select("step", time="end", value=value)
                yield _by_step(f"{prefix}energy/{name}", chosen)


def _readings(subject: RunData) -> Iterator[TagSeries]:
    """The mean of each reading in each whole second; seconds count from the start of the run."""
    recording, table = subject.recording, subject.gpu
    frame = recording.gpu_1s if recording else table
    if frame is None:
        return
    dated = frame.filter(pl.col("time").is_not_null())
    keys = [name for name in ("node", "gpu") if name in dated.columns]
    names = {name: found for name in READINGS if (found := _column(dated, name))}
    second = pl.col("time").dt.truncate("1s")
    means = [pl.col(column).mean().alias(name) for name, column in names.items()]
    by_second = (
        dated.group_by(*keys, second, maintain_order=True).agg(means).sort("time", maintain_order=True)
    )
    first = (subject.log.started or dated["time"].dt.epoch("ns").min() or 0) // SECOND_NS  # type: ignore[operator]
    for key, rows in by_second.partition_by(keys, as_dict=True, maintain_order=True).items():
        place = "/".join(str(part) for part in (*key[:-1], f"gpu{key[-1]}"))
        for name in names:
            chosen = rows.select((pl.col("time").dt.epoch("s") - first).alias("step"), "time", value=name)
            yield _by_step(f"{place}/{name}", chosen, "second")


def _column(frame: pl.DataFrame, reading: str) -> str | None:
    """A recording has the mean of each second, a table the reading itself."""
    return next((name for name in (f"{reading}_mean", reading) if name in frame.columns), None)


def library(name: str) -> Any:
    """Imports a library; raises GputelError with the command that installs it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise GputelError(f"--to {name}", f"needs {name}: {error}", f"pip install {name}") from None
    except Exception as error:  # an old version may not go with newer packages around it
        fault = f"{name} cannot be imported: {type(error).__name__}: {error}"
        raise GputelError(f"--to {name}", fault, f"pip install --upgrade {name}") from None
