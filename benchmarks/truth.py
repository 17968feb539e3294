"""Runs whose truth is known -> how many figures of report, compare, plan --check and tail are right, or wrong.

A figure is right within its tolerance, or within the error that the answer states. A stated error is a 90 % range,
so one true value in ten lies outside: a figure is `outside` up to twice its error (999 in 1000), and wrong beyond.
`python benchmarks/truth.py --seed 1 --runs 40 --out benchmarks/results/truth.md`
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from truth_layouts import FIRST, FIRST_LINE, NAME, last_dt
from truth_runs import LIMIT_W, WATTS, Case, cases, joules, source, write, write_half

from gputel.analysis import compare, runs
from gputel.analysis.align.windows import longest_silence_ns
from gputel.analysis.compare.answer import comparison_json
from gputel.analysis.live.follower import Follower
from gputel.analysis.live.view import Terms, View
from gputel.analysis.plan import check, request
from gputel.analysis.report import run_report
from gputel.telemetry.clock import SECOND
from gputel.telemetry.errors import GputelError

TIME, ENERGY, RATE, LEFT = 0.01, 0.02, 0.015, 0.1  # tolerances where nothing is stated
PRICE = 4.0  # of a GPU for an hour
KINDS = ("right", "absent", "outside", "wrong")


@dataclass
class Figure:
    """A true value with a relative tolerance `error`; `value` and its `stated` error are the answer's."""

    command: str
    name: str
    true: Any
    value: Any = None
    error: float = 0.0
    stated: float | None = None

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "absent"
        if isinstance(self.true, str):
            return "right" if self.value == self.true else "wrong"
        off, stated = abs(self.value - self.true), self.stated or 0.0
        if off <= max(self.error * abs(self.true), stated) + 1e-9:
            return "right"
        return "outside" if off <= 2 * stated else "wrong"


@dataclass
class Result:
    case: Case
    folder: Path
    figures: list[Figure] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


def judge(case: Case, folder: Path) -> Result:
    """Asks report, compare and plan --check, each on its own: one that raises has no figures."""
    result = Result(case, folder)
    subject = write(case, folder)
    for ask in (_report, _compare, _plan, _tail):
        try:
            result.figures += ask(case, subject, result)
        except GputelError as error:
            result.faults.append(f"{ask.__name__[1:]}: {error.fault}")
            result.figures += ask(case, None, result)
    return result


def _report(case: Case, subject: runs.RunData | None, result: Result) -> list[Figure]:
    answer: dict[str, Any] = run_report.answer(run_report.make_report(subject)) if subject else {}
    result.doubts += [doubt["text"] for doubt in answer.get("doubts", [])]
    time = {row["kind"]: row for row in answer.get("time", [])}
    phase = (answer.get("phases") or [{}])[0]
    facts = {name: fact["value"] for name, fact in answer.get("facts", {}).items()}
    batch_error = answer.get("facts", {}).get("tokens_per_step", {}).get("error")
    verdicts = {row["question"]: row for row in answer.get("verdicts", [])}
    clock = (answer.get("clock") or {}).get("uncertainty_s")
    each = case.seconds("train") / case.done
    watts = joules_of(case, "train") * case.gpus
    known_gpus = case.readings is not None
    timed = case.stamps is not None or case.readings == "recording"

    def seconds(kind: str) -> Figure:
        row, true = time.get(kind, {}), case.seconds(kind)
        true += case.seconds("idle") * (kind == "start")  # nothing is printed between a crash and the restart
        true += sum(case.seconds(other) for other in (row.get("contains") or "").split(", "))
        unseen = FIRST_LINE * (kind == "start" and case.readings != "recording")
        value = row.get("duration_s")
        if not row and time and (timed or not true) and kind not in (time["train"].get("contains") or ""):
            value = 0.0
        return Figure(
            "report", f"{kind} time", true - unseen, value, TIME, row.get("duration_error_s") or clock
        )

    figures = [
        Figure("report", "tokens a step", case.tokens, facts.get("tokens_per_step"), 0.0, batch_error),
        Figure("report", "step time", each, phase.get("step_s"), TIME, phase.get("step_error_s")),
        Figure(
            "report",
            "tok/s",
            case.tokens / each,
            phase.get("tok_per_sec"),
            RATE,
            phase.get("tok_per_sec_error"),
        ),
        Figure("report", "steps", case.done, phase.get("steps")),
        *(seconds(kind) for kind in ("train", "eval", "checkpoint")),
        Figure("report", "GPU", NAME, facts.get("gpu")),
        Figure("report", "GPUs", case.gpus, facts.get("gpus")),
        Figure("report", "status", _ended(case), answer.get("status")),
    ]
    if timed:
        figures.append(seconds("start"))
    if known_gpus:
        covered = {kind: row.get("energy_j") if row.get("energy_counter_j") is None else row["energy_counter_j"]
                   for kind, row in time.items()}  # fmt: skip
        train = time.get("train", {})
        figures += [
            Figure(
                "report",
                "training energy",
                _measurable(case, "train"),
                covered.get("train"),
                ENERGY,
                train.get("energy_error_j"),
            ),
            Figure(
                "report",
                "training power",
                watts / case.seconds("train"),
                train.get("power_mean_w"),
                ENERGY,
                train.get("power_error_w"),
            ),
            Figure(
                "report",
                "J a token",
                watts / case.tokens / case.done,
                phase.get("j_per_token"),
                ENERGY,
                phase.get("j_per_token_error"),
            ),
            Figure("report", "peak memory", 60000.0 * case.gpus, train.get("mem_peak_mib")),
            Figure(
                "report", "bottleneck", "unknown", _no_waiting(verdicts.get("bottleneck", {}).get("answer"))
            ),
        ]
        if case.readings in ("smi", "recording"):
            figures.append(
                Figure("report", "power limit", float(LIMIT_W * case.gpus), facts.get("power_limit_w"))
            )
    return figures


def _ended(case: Case) -> str:
    """A log without a total does not say that it is complete, a recording's exit code does."""
    return "completed" if case.layout.total or case.readings == "recording" else "unknown"


def _at_rest(status: str) -> str:
    """A log that no line ends is `unknown` to tail while it is fresh, and `ended` later."""
    return "unknown" if status == "ended" else status


def _no_waiting(answer: str | None) -> str | None:
    """The planted steps are even: a verdict of waiting is wrong, any other is not judged."""
    return answer if answer and "waiting" in answer else None if answer is None else "unknown"


def joules_of(case: Case, kind: str) -> float:
    return sum(joules(case, begin, end) for this, begin, end, _ in case.spans if this == kind)


def _measurable(case: Case, kind: str) -> float:
    """What the GPUs used while they were sampled: a gap and a lost GPU cost what was not measured."""
    total = joules_of(case, kind) * case.gpus
    if case.lost is not None:
        total -= sum(joules(case, max(begin, case.lost * case.end), max(end, case.lost * case.end))
                     for this, begin, end, _ in case.spans if this == kind)  # fmt: skip
    held = longest_silence_ns(SECOND / case.hz) / SECOND  # a shorter silence is no gap: the last value holds
    if case.gap and (case.gap[1] - case.gap[0]) * case.end > held:
        low, high = (share * case.end for share in case.gap)
        total -= case.gpus * sum(joules(case, min(max(begin, low), high), max(min(end, high), low))
                                 for this, begin, end, _ in case.spans if this == kind)  # fmt: skip
    return total


def _compare(case: Case, subject: runs.RunData | None, _result: Result) -> list[Figure]:
    row: dict[str, Any] = {}
    if subject:
        answer = comparison_json(compare.compare([subject, subject]))
        row = next(iter(answer["summary"].values()))
    clock = 1.0 if case.stamps == "s" else 0.0
    first = case.spans[1][1]
    timed = case.stamps is not None or case.readings == "recording"
    inside = case.inside * case.seconds("eval") + case.layout.inside * case.seconds("checkpoint")
    whole = case.end - first if timed else case.seconds("train") + inside
    spent = case.seconds("train") / case.done * case.steps if case.layout.rated else whole
    return [
        Figure("compare", "tokens", case.tokens * case.steps, row.get("tokens"), 0.0, row.get("tokens_error")),
        Figure("compare", "time", whole, row.get("time_s"),
               TIME + (clock / whole if timed else FIRST / case.steps)),
        Figure("compare", "tok/s", case.tokens * case.steps / spent, row.get("tok_per_sec"), RATE,
               row.get("tok_per_sec_error")),
        *([Figure("compare", "energy", joules(case, first, case.end) * case.gpus, row.get("energy_j"), ENERGY,
                  row.get("energy_error_j"))]
          if case.readings == "recording" and not case.lost else []),
        Figure("compare", "final loss", case.loss(case.steps - 1),
               subject and subject.log.records["loss"].drop_nulls().to_list()[-1]),
    ]  # fmt: skip


def _plan(case: Case, subject: runs.RunData | None, _result: Result) -> list[Figure]:
    happened: dict[str, Any] = {}
    errors: dict[str, Any] = {}
    if subject:
        asked = request.PlanRequest(params=(50_000_000,), on=f"{case.gpus}xH100")
        figures = check.answer(request.check(subject, asked))["figures"]
        happened = {row["name"]: row["happened"] for row in figures}
        errors = {row["name"]: row["happened_error"] for row in figures}
    each = case.seconds("train") / case.done
    return [
        Figure("plan --check", "step time", 1000 * each, happened.get("dt_ms"), RATE, errors.get("dt_ms")),
        Figure(
            "plan --check",
            "tok/s",
            case.tokens / each,
            happened.get("tok_per_sec"),
            RATE,
            errors.get("tok_per_sec"),
        ),
        Figure(
            "plan --check",
            "training hours",
            each * (case.steps - case.first) / 3600,
            happened.get("train_hours"),
            2 * TIME,
            errors.get("train_hours"),
        ),
    ]


def _tail(case: Case, subject: runs.RunData | None, result: Result) -> list[Figure]:
    """The last state of a followed run, and the time left at half of a log that is written now."""
    view = follow(source(case, result.folder)) if subject else None
    last, cost = (view.last, view.cost) if view else ({}, None)
    recorded = case.readings == "recording"
    elapsed = case.end + 1 if recorded else case.spans[-1][2] - FIRST_LINE
    rate = case.tokens / last_dt(case)
    figures = [
        Figure("tail", "step", case.steps - 1 + case.layout.counted, view and view.step),
        Figure("tail", "loss", case.loss(case.steps - 1), last.get("loss")),
        *([Figure("tail", "tok/s", rate, last.get("tok_per_sec"), RATE)] if case.layout.rated else []),
        Figure("tail", "status", _ended(case), view and _at_rest(view.status)),
    ]
    if recorded or case.stamps:
        clock = 1.0 if case.stamps == "s" else 0.0
        spent = elapsed * case.gpus * PRICE / 3600
        figures += [
            Figure("tail", "elapsed", elapsed, view and view.elapsed_s, TIME + clock / elapsed),
            Figure("tail", "cost", spent, cost and cost.spent, TIME + clock / elapsed),
        ]
    if recorded:
        power = [gpu.last.get("power_w_mean") for gpu in view.gpus] if view else []
        whole = sum(value for value in power if value is not None) if power else None
        left = case.gpus - (case.lost is not None)
        figures.append(Figure("tail", "power", WATTS["idle"] * left, whole, ENERGY))
    half = case.spans[len(case.spans) // 2][2]
    if case.stamps and case.crash is None and _foreseeable(case, half) and case.layout.total:
        now = follow(write_half(case, result.folder, half)) if subject else None
        looks = case.eval_s * (3 if case.second_every else 1)
        remaining, pause = case.end - half, max(looks, case.save_s)  # nothing announces the last pause
        figures.append(Figure("tail", "time left", remaining, now and now.eta_s, LEFT + pause / remaining))
    return figures


def _foreseeable(case: Case, half: float) -> bool:
    """Whether everything that pauses the run after its half has paused it before."""
    kinds = [{kind for kind, _, end, _ in case.spans if (end <= half) is before} for before in (True, False)]
    return kinds[1] <= kinds[0]


def follow(path: Path) -> View:
    with contextlib.closing(Follower([str(path)])) as follower:
        while follower.read():
            pass
        return follower.runs[0].state.view(Terms(PRICE))


def page(results: list[Result], seed: int) -> Iterator[str]:
    figures = [figure for result in results for figure in result.figures]
    counts = Counter(figure.verdict for figure in figures)
    yield from (f"# Figures of runs whose truth is known, {date.today()}", "")
    yield (
        f"{len(results)} runs, seed {seed}, {len(figures)} figures: "
        + ", ".join(f"{counts[k]} {k}" for k in KINDS)
        + f"; stated ranges hold in {_held(figures)}"
    )
    yield from (
        "",
        "| command | figure | right | absent | outside | wrong | farthest | stated ranges hold |",
        "|---|---|---|---|---|---|---|---|",
    )
    for key in dict.fromkeys((figure.command, figure.name) for figure in figures):
        mine = [figure for figure in figures if (figure.command, figure.name) == key]
        count = Counter(figure.verdict for figure in mine)
        cells = [
            *key,
            *(str(count[kind]) for kind in KINDS),
            _farthest(mine),
            _held(mine),
        ]
        yield f"| {' | '.join(cells)} |"
    yield from _exceptions(results)
    yield from ("", "## Doubts and refusals", "")
    yield from (
        f"- {result.case.name}: {words}" for result in results for words in (*result.doubts, *result.faults)
    )


def _exceptions(results: list[Result]) -> Iterator[str]:
    """The figures that are not right: wrong ones first."""
    for kind in reversed(KINDS[1:]):
        yield from (
            "",
            f"## {kind.capitalize()}",
            "",
            "| run | command | figure | answered | stated ± | true |",
            "|---|---|---|---|---|---|",
        )
        for result in results:
            for figure in result.figures:
                if figure.verdict == kind:
                    cells = (figure.value, figure.stated, figure.true)
                    shown = " | ".join("" if cell is None else _cell(cell) for cell in cells)
                    yield f"| {result.case.name} | {figure.command} | {figure.name} | {shown} |"


def _farthest(figures: list[Figure]) -> str:
    errors = [
        abs(f.value / f.true - 1)
        for f in figures
        if isinstance(f.value, (int, float)) and isinstance(f.true, (int, float)) and f.true
    ]
    return f"{100 * max(errors):.2g} %" if errors else ""


def _held(figures: list[Figure]) -> str:
    held = [abs(f.value - f.true) <= f.stated + 1e-9 for f in figures if f.stated and f.value is not None]
    return f"{sum(held)} of {len(held)}" if held else ""


def _cell(value: object) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        chosen = [case for case in cases(options.seed, options.runs) if options.only in case.name]
        results = [judge(case, Path(folder)) for case in chosen]
    text = "\n".join(page(results, options.seed)) + "\n"
    if options.out:
        options.out.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
