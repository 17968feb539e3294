"""The Python API: paths in; runs, logs, comparisons, plans and gates out, the first three with their figures.

Data come from `gputel.analysis`. What a notebook shows of them is made here, so that data know nothing of pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from gputel.analysis import runs
from gputel.analysis.runs import paths, read_run, recording
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.compare import Comparison
    from gputel.analysis.compare.gate import GateResult
    from gputel.analysis.logs.log import Log
    from gputel.analysis.plan import Plan
    from gputel.analysis.render.notebook import Figures
    from gputel.analysis.report import Report
    from gputel.analysis.runs import RunData
    from gputel.analysis.runs.facts import Facts
    from gputel.analysis.runs.recording import Recording

Source: TypeAlias = "str | Path | Run | ParsedLog | RunData | Recording | Log"


class Run:
    """One run: `log` is what it printed, `recording` what gputel sampled (None of a bare log), `facts` what it is.

    `steps`, `evals`, `events`: frames of the log. `gpu`: a row per tick and GPU, `gpu_1s`: whole seconds, `scan()`:
    lazy. `per_step()`: what each step cost. What only a recording has is a GputelError of any other run.
    """

    def __init__(self, source: Recording | RunData) -> None:
        self._source = source

    def __repr__(self) -> str:
        return repr(self.recording) if self.recording else f"<run {self.name!r}: {self.log!r}>"

    def _repr_html_(self) -> str:
        return self.figures._repr_html_()

    @cached_property
    def data(self) -> RunData:
        """The run as commands take it; a recording's log is parsed when this is first asked for."""
        if isinstance(self._source, recording.Recording):
            return runs.RunData(self._source.log, self._source)
        return self._source

    @property
    def recording(self) -> Recording | None:
        return self._source if isinstance(self._source, recording.Recording) else self._source.recording

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def path(self) -> Path:
        """The run folder, or the log."""
        return self.recording.path if self.recording else Path(self.log.source)

    @property
    def log(self) -> Log:
        return self.data.log

    @property
    def facts(self) -> Facts:
        return self.data.facts

    @property
    def caution(self) -> str | None:
        """What every table and picture of this run says of it: that it was simulated, or composed."""
        return self.data.caution

    @property
    def steps(self) -> pl.DataFrame:
        """A row per step of each phase."""
        return self.log.steps

    @property
    def evals(self) -> pl.DataFrame:
        return self.log.evals

    @property
    def events(self) -> pl.DataFrame:
        """Events in the log; those that the recorder saw are `recording.events`."""
        return self.log.events

    @property
    def gpu(self) -> pl.DataFrame:
        """A row per tick and GPU, as recorded or as the table beside the log has them."""
        if self.recording:
            return self.recording.gpu
        if self.data.gpu is None:
            raise GputelError(
                self.name,
                "has no GPU readings",
                "open a run folder, or name a table: open_run(log, gpu=TABLE)",
            )
        return self.data.gpu

    @property
    def gpu_1s(self) -> pl.DataFrame:
        """Whole seconds: mean, minimum and maximum of each reading."""
        return self._recorded.gpu_1s

    def scan(self) -> pl.LazyFrame:
        """The rows of `gpu`, for what does not fit in memory."""
        return self._recorded.scan()

    @property
    def segments(self) -> pl.DataFrame:
        """An attempt a row: node, number, start, end, exit code, and the downtime before it on its node."""
        return self._recorded.segments

    @property
    def descriptions(self) -> list[dict[str, Any]]:
        """The `run.json` of each segment."""
        return self._recorded.descriptions

    @property
    def simulated(self) -> str | None:
        """What was simulated; None where nothing was, and of a run that was not recorded."""
        return self.recording.simulated if self.recording else None

    @property
    def duration_s(self) -> float | None:
        """Of all segments that have an end."""
        return self._recorded.duration_s

    @property
    def downtime_s(self) -> float | None:
        return self._recorded.downtime_s

    def per_step(self) -> pl.DataFrame:
        """What each step took and cost: a row per record, divided by the steps that it stands for."""
        from gputel.analysis import align

        return align.per_step(self.data)

    def report(self, *, keep_idle: bool = False) -> Report:
        """What `gputel report` prints. `keep_idle`: with what was recorded before and after the work."""
        from gputel.analysis.report import make_report

        return make_report(self.data, keep_idle=keep_idle)

    @cached_property
    def figures(self) -> Figures:
        """The panels of `gputel report --html` by name; a notebook shows the page, or each as a picture."""
        from gputel.analysis.documents.report import report_document
        from gputel.analysis.render.notebook import Figures

        return Figures(report_document(self.report()))

    @property
    def _recorded(self) -> Recording:
        if self.recording is None:
            raise GputelError(self.name, "was not recorded by gputel", "open the folder of a recorded run")
        return self.recording


@dataclass(frozen=True, repr=False, eq=False)
class ParsedLog:
    """A log and its figures. All else is the log's: `steps`, `records`, `evals`, `events`, `config`, `status`."""

    log: Log

    def __getattr__(self, name: str) -> Any:
        return _own(self, "log", name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_names(self.log)]

    def __repr__(self) -> str:
        return repr(self.log)

    def _repr_html_(self) -> str:
        return self.figures._repr_html_()

    @cached_property
    def figures(self) -> Figures:
        """The panels of `gputel parse --html` by name; a notebook shows the page, or each as a picture."""
        from gputel.analysis.documents.parse import parse_document
        from gputel.analysis.render.notebook import Figures

        return Figures(parse_document([self.log]))


@dataclass(frozen=True, repr=False, eq=False)
class Compared:
    """A comparison and its figures. All else is the comparison's: `milestones`, `summary`, `curves`, `scaling`."""

    comparison: Comparison

    def __getattr__(self, name: str) -> Any:
        return _own(self, "comparison", name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_names(self.comparison)]

    def __repr__(self) -> str:
        return f"<{self.comparison.metric} of {', '.join(self.comparison.runs)} by {self.comparison.by}>"

    def _repr_html_(self) -> str:
        return self.figures._repr_html_()

    @cached_property
    def figures(self) -> Figures:
        """The panels of `gputel compare --html` by name; a notebook shows the page, or each as a picture."""
        from gputel.analysis.documents.compare import comparison_document
        from gputel.analysis.render.notebook import Figures

        return Figures(comparison_document(self.comparison))


def open_run(path: str | Path, *, gpu: str | Path | None = None, offset_s: float = 0.0) -> Run:
    """A run folder, or a log; with `gpu` a log beside a table of readings, whose clock `offset_s` is added to."""
    source = Path(path)
    if gpu is not None:
        return Run(runs.from_table_and_log(Path(gpu), source, offset_s))
    return Run(recording.open_recording(source) if source.is_dir() else read_run(source))


def parse(path: str | Path, *, format: str | Path | None = None) -> ParsedLog:  # noqa: A002
    """One run from a log file or a run folder."""
    return ParsedLog(paths.parse(path, format=format))


def parse_all(path: str | Path, *, format: str | Path | None = None) -> list[ParsedLog]:  # noqa: A002
    """Every run in a folder in which something was found, in the order of the paths; of one file, a list of one."""
    return [ParsedLog(log) for log in paths.parse_all(path, format=format)]


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
    """`price`: dollars for a GPU hour; `kwh`: for a kWh; `smooth`: a window in steps; `group`: what seeds share.
    `lower`, `higher`: metrics whose names do not say which way is better.

    A path may be a folder of runs. Two runs with nothing in common are a GputelError.
    """
    from gputel.analysis import compare as comparing

    several = runs if isinstance(runs, Sequence) and not isinstance(runs, str) else [runs]
    return Compared(
        comparing.compare(
            [_data(run) for run in several],
            by=by,
            metric=metric,
            phase=phase,
            price=price,
            kwh=kwh,
            smooth=smooth,
            target=target,
            group=group,
            lower=lower,
            higher=higher,
        )
    )


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
) -> Plan:
    """What a run will take: memory, time, money, energy. Keywords are the options of `gputel plan`.

    `on` is `8xH100`; `link` is in bytes a second. `like` is a run by whose figures the plan is corrected.
    """
    from gputel.analysis.plan import request

    return request.plan(
        request.Request(
            depth=_several(depth),
            params=_several(params),
            layers=layers,
            dim=dim,
            heads=heads,
            tied=tied,
            vocab=vocab,
            seq=seq,
            on=on,
            nodes=nodes,
            link=link,
            device_batch_size=device_batch_size,
            total_batch_size=total_batch_size,
            ratio=ratio,
            tokens=None if tokens is None else round(tokens),
            hours=hours,
            budget=budget,
            price=price,
            data_tokens=None if data_tokens is None else round(data_tokens),
            optimizer=optimizer,
            dtype=dtype,
            shard=shard,
            loss=loss,
            recompute=recompute,
            eager=eager,
            plain_attention=plain_attention,
            save_every=save_every,
            keep=keep,
            target_tok_s=target_tok_s,
            target_steps_h=target_steps_h,
            like=None if like is None else _one(like),
        )
    )


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
    """A result for each limit: `max_regress` is how much worse than `baseline` the run may be, as `"1%"` or 0.01.

    `target` is what the run must reach; `warmup` how many steps at the start do not count.
    `lower` and `higher` name metrics whose names do not say which way is better.
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
    limits, targets = shares, target or {}
    return gating.judge(
        _one(run).log, other, limits, targets, warmup=warmup, phase=phase, lower=lower, higher=higher
    )


def _data(source: Source) -> str | Path | RunData | Recording | Log:
    """Without its figures."""
    if isinstance(source, Run):
        return source.data
    return source.log if isinstance(source, ParsedLog) else source


def _one(source: Source) -> RunData:
    data = _data(source)
    if isinstance(data, runs.RunData):
        return data
    if isinstance(data, (str, Path)):
        return read_run(Path(data))
    return runs.RunData(data.log, data) if isinstance(data, recording.Recording) else runs.RunData(data)


def _several(numbers: float | Sequence[float]) -> tuple[int, ...]:
    several = numbers if isinstance(numbers, Sequence) else [numbers]
    return tuple(round(number) for number in several)


def _own(shell: object, field: str, name: str) -> Any:
    """An attribute of the data; no private one, which copying asks for before the data are there."""
    if name.startswith("_"):
        raise AttributeError(f"{type(shell).__name__!r} object has no attribute {name!r}")
    return getattr(getattr(shell, field), name)


def _names(data: object) -> Iterator[str]:
    return (name for name in dir(data) if not name.startswith("_"))
