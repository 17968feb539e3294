"""The Python API: paths and addresses go in; runs, logs, comparisons, plans and gate results come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from gputel.analysis import runs, stores
from gputel.analysis.runs import paths, read_run, recording
from gputel.results import Compared, ParsedLog, Planned
from gputel.run import Run
from gputel.telemetry.errors import GputelError
from gputel.telemetry.remote.storage import is_address

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.compare.gate import GateResult
    from gputel.analysis.logs.log import Log
    from gputel.analysis.runs import RunData
    from gputel.analysis.runs.recording import Recording

Source: TypeAlias = "str | Path | Run | ParsedLog | RunData | Recording | Log"


def open_run(path: str | Path, *, gpu: str | Path | None = None, offset_s: float = 0.0) -> Run:
    """Opens a run folder or a log. `gpu` is a table of readings beside a log; `offset_s` is added to its clock."""
    source = _path(path)
    if gpu is not None:
        return Run(runs.from_table_and_log(Path(gpu), source, offset_s))
    is_recording = source.is_dir() and not stores.kind(source)
    return Run(recording.open_recording(source) if is_recording else read_run(source))


def parse(path: str | Path, *, format: str | Path | None = None) -> ParsedLog:  # noqa: A002
    """Reads one run from a log file or a run folder."""
    return ParsedLog(paths.parse(_path(path), format=format))


def parse_all(path: str | Path, *, format: str | Path | None = None) -> list[ParsedLog]:  # noqa: A002
    """Reads every run in a folder, in the order of the paths. Files in which nothing was found are left out."""
    return [ParsedLog(log) for log in paths.parse_all(_path(path), format=format)]


def scan(
    runs: str | Path | Sequence[str | Path], table: str = "gpu", *, seconds: bool = False
) -> pl.LazyFrame:
    """Scans the ticks of many recordings, or with `seconds` their whole seconds, as one lazy table.

    `runs` is a path, a pattern such as `runs/*`, or several; a column `run` says which recording a row is of.
    """
    from gputel.analysis.runs import scan as scanning

    several = [runs] if isinstance(runs, (str, Path)) else list(runs)
    return scanning.scan(several, table, seconds=seconds)


def compare(
    runs: Source | Sequence[Source],
    *,
    by: str = "step",
    metric: str | None = None,
    phase: str | None = None,
    price: float | None = None,
    kwh: float | None = None,
    smooth: float | None = None,
    target: Mapping[str, float] | None = None,
    group: str | None = None,
    lower: Sequence[str] = (),
    higher: Sequence[str] = (),
) -> Compared:
    """Compares runs; a path may be a folder of runs. Runs with nothing in common raise a GputelError.

    `price` is dollars per GPU hour, `kwh` dollars per kWh, `smooth` a window in steps, `group` a setting that seeds
    share. `lower` and `higher` name metrics whose names do not say which direction is better.
    """
    asked = dict(locals())
    from gputel.analysis import compare as comparing

    asked.pop("runs")
    several = runs if isinstance(runs, Sequence) and not isinstance(runs, str) else [runs]
    return Compared(comparing.compare([_data(run) for run in several], **asked))


def plan(
    *,
    depth: int | Sequence[int] = (),
    params: float | Sequence[float] = (),
    layers: int | None = None,
    dim: int | None = None,
    heads: int | None = None,
    tied: bool = False,
    vocab: int | None = None,
    seq: int | None = None,
    on: str | None = None,
    nodes: int = 1,
    link: float | None = None,
    device_batch_size: int | None = None,
    total_batch_size: int | None = None,
    ratio: float = 20.0,
    tokens: float | None = None,
    hours: float | None = None,
    budget: float | None = None,
    price: float | None = None,
    data_tokens: float | None = None,
    optimizer: str | None = None,
    dtype: str | None = None,
    shard: str | None = None,
    loss: Literal["full", "chunked"] | None = None,
    recompute: bool = False,
    eager: bool = False,
    plain_attention: bool = False,
    save_every: int = 1000,
    keep: int | None = None,
    target_tok_s: float | None = None,
    target_steps_h: float | None = None,
    like: Source | None = None,
) -> Planned:
    """Estimates memory, time, money and energy before a run. Keywords are the options of `gputel plan`.

    `on` is such as `8xH100`; `link` is in bytes per second. `like` is a past run that corrects the estimates.
    """
    asked = dict(locals())
    from gputel.analysis.plan import request

    asked |= {
        "depth": _whole_numbers(depth),
        "params": _whole_numbers(params),
        "tokens": None if tokens is None else round(tokens),
        "data_tokens": None if data_tokens is None else round(data_tokens),
        "like": None if like is None else _one(like),
    }
    return Planned(request.plan(request.PlanRequest(**asked)))


def gate(
    run: Source,
    baseline: Source | None = None,
    max_regress: Mapping[str, str | float] | None = None,
    *,
    target: Mapping[str, float] | None = None,
    phase: str | None = None,
    warmup: int = 10,
    lower: Sequence[str] = (),
    higher: Sequence[str] = (),
) -> list[GateResult]:
    """Returns a result per limit. `max_regress`: how much worse than `baseline` a metric may be, `"1%"` or 0.01.

    `target` is what the run must reach; the first `warmup` steps do not count.
    `lower` and `higher` name metrics whose names do not say which direction is better.
    """
    from gputel.analysis.compare import gate as gating

    shares = {
        name: gating.share(limit) if isinstance(limit, str) else limit
        for name, limit in (max_regress or {}).items()
    }
    if shares and baseline is None:
        raise GputelError("max_regress", "needs a baseline", "name the run to compare with", exit_code=2)
    if not shares and not target:
        raise GputelError(
            "gate", "nothing to judge was named", 'give {"loss": "1%"}, or a target', exit_code=2
        )
    other = None if baseline is None else _one(baseline).log
    return gating.judge(
        _one(run).log, other, shares, target or {}, warmup=warmup, phase=phase, lower=lower, higher=higher
    )


def _data(source: Source) -> Path | RunData | Recording | Log:
    """Takes the data out of what the API returns, and the path of what is named; other sources pass unchanged."""
    if isinstance(source, Run):
        return source.data
    if isinstance(source, (str, Path)):
        return _path(source)
    return source.log if isinstance(source, ParsedLog) else source


def _path(path: str | Path) -> Path:
    """The path itself; for an address, such as `s3://bucket/runs/d16`, that of a local copy of what is there."""
    if not (isinstance(path, str) and is_address(path)):
        return Path(path)
    from gputel.telemetry.remote.local_copy import local_copy

    return local_copy(path).path


def _one(source: Source) -> RunData:
    return runs.as_run(_data(source))


def _whole_numbers(numbers: float | Sequence[float]) -> tuple[int, ...]:
    several = numbers if isinstance(numbers, Sequence) else [numbers]
    return tuple(round(number) for number in several)
