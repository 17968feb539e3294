"""A run and its measured steps -> verdicts with evidence; without evidence the answer is `unknown`.

MFU          the printed one, or computed factor by factor; over 100 % is impossible
headroom     whether a larger batch or model would fit, by the fullest GPU's memory
stragglers   a rank or node by its steps, a GPU by its clock or throttling
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis import text
from gputel.analysis.align import offsets
from gputel.analysis.align.offsets import NodeDelay
from gputel.analysis.report.nodes import node_clocks
from gputel.analysis.runs.mfu import OF_ONE_GPU, MfuFigures, mfu_error, mfu_figures
from gputel.trainer.gpus import find_gpu

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData

UNKNOWN = "unknown"

MFU_QUESTION = "mfu"
SHOWN = 0.05  # %: a smaller error is not shown

HEADROOM_QUESTION = "headroom"
RESERVE = 0.95  # share of the memory; the rest is for fragmentation and other processes
WORTH = 1.1  # least factor that is worth trying

STRAGGLER_QUESTION = "stragglers"
SLOWER = 0.95  # share of the median clock of the other GPUs
THROTTLED = 0.05  # share of the training
COMPARED = {"sm_mhz": "the clocks", "throttled_s": "the throttling"}


@dataclass(frozen=True)
class Verdict:
    """The answer to a question, with evidence as sentences; `facts` are its figures, for programs."""

    question: str
    answer: str
    evidence: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "question": self.question,
            "answer": self.answer,
            "evidence": list(self.evidence),
            "facts": self.facts,
        }


@dataclass(frozen=True)
class Case:
    """The input of a verdict: a run, its measured steps, each GPU over the training, and the error of its clock."""

    subject: RunData
    steps: pl.DataFrame
    gpus: pl.DataFrame
    clock_error_s: float = 0.0

    @cached_property
    def mfu(self) -> MfuFigures:
        """Printed and computed; a log without a printed throughput has it by timestamps."""
        tokens = self.subject.facts.tokens_per_step
        seconds: Any = self.steps["duration_s"].median() if len(self.steps) else None
        return mfu_figures(self.subject, float(tokens.value) / seconds if tokens and seconds else None)


def mfu_verdict(case: Case) -> Verdict:
    """Returns the MFU as printed, else as computed; the two may differ."""
    mfu, error = case.mfu, mfu_error(case.subject.log.records, case.mfu)
    figures: dict[str, Any] = {
        "printed": mfu.printed,
        "computed": mfu.computed,
        "tok_per_sec": mfu.tok_per_sec,
        "error": error,
    }
    as_printed = () if mfu.printed is None else (f"the log prints {mfu.printed:.1f} % (median)",)
    evidence = (*as_printed, *mfu.formula)
    if mfu.highest is None:
        missing = f"not known: {', '.join(mfu.lacking)}"
        return Verdict(MFU_QUESTION, UNKNOWN, (missing, *_no_peak(case)), figures)
    if mfu.highest > 100:
        why = "more than the peak is impossible: the number of tokens, steps, parameters or GPUs is wrong"
        return Verdict(MFU_QUESTION, f"impossible: {mfu.highest:,.0f} %", (*evidence, why), figures)
    if mfu.disagreement == OF_ONE_GPU:
        evidence = (*evidence, f"they agree if {OF_ONE_GPU}")
    elif mfu.disagreement:
        figures["disagreement"] = mfu.disagreement
        answer = f"{mfu.printed:.3g} % printed, {mfu.computed:.3g} % computed"
        return Verdict(MFU_QUESTION, answer, (*evidence, f"they differ: {mfu.disagreement}"), figures)
    share = mfu.highest if mfu.printed is None else mfu.printed
    shown = error is not None and error >= SHOWN
    stated = text.with_error(share, error, 1) if shown else f"{share:.3g}"
    return Verdict(MFU_QUESTION, f"{stated} %", evidence, figures)


def undoubted_mfu(case: Case) -> float | None:
    """Returns the printed MFU; None if the run's own figures contradict it."""
    mfu = case.mfu
    contradicted = mfu.disagreement not in (None, OF_ONE_GPU) or (mfu.computed or 0) > 100
    return None if contradicted else mfu.printed


def headroom_verdict(case: Case) -> Verdict:
    """Returns how much larger a batch or model would fit."""
    peaks = case.gpus["mem_peak_mib"].drop_nulls() if "mem_peak_mib" in case.gpus.columns else pl.Series()
    total = _total_mib(case)
    if peaks.is_empty() or total is None:
        usage = (
            "memory use was not recorded" if peaks.is_empty() else "the size of the GPUs' memory is not known"
        )
        return Verdict(HEADROOM_QUESTION, UNKNOWN, (usage,))
    peak = float(peaks.max())  # type: ignore[arg-type]
    fits = RESERVE * total / peak if peak else None
    facts = {"mem_peak_mib": peak, "mem_total_mib": total, "fits": fits}
    usage = f"the fullest GPU used {text.mebibytes(peak)} of {text.mebibytes(total)} at its peak"
    if fits is None or fits < WORTH:
        return Verdict(HEADROOM_QUESTION, "no", (usage,), facts)
    caveat = "assumes memory scales with batch or model size; memory that PyTorch caches counts as used"
    return Verdict(
        HEADROOM_QUESTION, f"yes: a batch or model {fits:.1f} times as large", (usage, caveat), facts
    )


def straggler_verdict(case: Case) -> Verdict:
    """Names the ranks, nodes and GPUs that the others wait for."""
    records = case.subject.log.records
    sources, has_nodes = offsets.offsets(records), "node" in records.columns
    one_clock = case.subject.recording is not None and not has_nodes
    delays = offsets.delays(records, node_clocks(case.subject)) if has_nodes else []
    evidence = [
        f"{straggler.source}: {straggler.evidence}"
        for straggler in offsets.stragglers(sources, one_clock=one_clock)
    ]
    evidence += [f"{delay.node}: {delay}" for delay in delays if delay.is_sure()]
    evidence += _by_clock(case.gpus) + _by_throttling(case.gpus)
    if evidence:
        return Verdict(
            STRAGGLER_QUESTION, "yes", tuple(evidence), {"sources": len(sources), "gpus": len(case.gpus)}
        )
    seen = [f"the steps of {len(sources)} ranks or nodes"] if len(sources) > 1 else []
    compared = [
        words for name, words in COMPARED.items() if name in case.gpus.columns and case.gpus[name].count() > 1
    ]
    seen += [f"{' and '.join(compared)} of {len(case.gpus)} GPUs"] if compared else []
    if not seen:
        return Verdict(STRAGGLER_QUESTION, UNKNOWN, ("steps of two ranks or clocks of two GPUs are needed",))
    alike = f"nothing stands out in {', and '.join(seen)}"
    clocks = _limit_of_clocks(delays) if has_nodes and len(sources) > 1 else []
    return Verdict(STRAGGLER_QUESTION, "none", (alike, *clocks))


def _limit_of_clocks(delays: Sequence[NodeDelay]) -> list[str]:
    """Says which delays of a whole node would not be seen."""
    if not delays:
        return [
            "a node that prints each step equally late would not be seen: its clock was compared with no other"
        ]
    least = 1000 * offsets.SURE * max(delay.error_s for delay in delays)
    return [
        f"a node that prints each step less than {least:,.0f} ms late is within the uncertainty of the clocks"
    ]


def _no_peak(case: Case) -> list[str]:
    """Says why a run on simulated GPUs has no MFU."""
    recording = case.subject.recording
    machine = recording.simulated if recording else None
    return [f"the GPUs are simulated ({machine}): the training did not run on them"] if machine else []


def _total_mib(case: Case) -> float | None:
    """Returns the memory of the smallest GPU: recorded, else from the table of GPU models."""
    recording = case.subject.recording
    described = (
        [gpu for facts in recording.descriptions for gpu in facts.get("gpus") or []] if recording else []
    )
    sizes = [float(gpu["memory_total_mib"]) for gpu in described if gpu.get("memory_total_mib")]
    if sizes:
        return min(sizes)
    readings = case.subject.readings
    if readings is not None and "mem_total_mib" in readings.columns:
        lowest = readings["mem_total_mib"].min()
        if lowest is not None:
            return float(lowest)  # type: ignore[arg-type]
    name = case.subject.facts.gpu
    gpu = find_gpu(str(name.value)) if name else None
    return gpu.memory_gib * text.MIB_PER_GIB if gpu else None


def _name(row: dict[str, object]) -> str:
    return f"GPU {row['gpu']}" if row.get("node") is None else f"node {row['node']} GPU {row['gpu']}"


def _by_clock(gpus: pl.DataFrame) -> list[str]:
    clocked = gpus.filter(pl.col("sm_mhz").is_not_null()) if "sm_mhz" in gpus.columns else gpus.clear()
    slow = []
    for place, row in enumerate(clocked.iter_rows(named=True)):
        others = [mhz for other, mhz in enumerate(clocked["sm_mhz"]) if other != place]
        usual: Any = pl.Series(others, dtype=pl.Float64).median()
        if usual and row["sm_mhz"] < SLOWER * usual:
            slow.append(f"{_name(row)}: its clock was {row['sm_mhz']:,.0f} MHz, the others' {usual:,.0f} MHz")
    return slow


def _by_throttling(gpus: pl.DataFrame) -> list[str]:
    """Names GPUs that were throttled while another was not."""
    if "throttled_s" not in gpus.columns or gpus["throttled_s"].null_count() == len(gpus) or len(gpus) < 2:
        return []
    shares = gpus.with_columns(share=pl.col("throttled_s") / pl.col("duration_s")).filter(
        pl.col("share") > THROTTLED
    )
    if len(shares) == len(gpus):
        return []
    return [
        f"{_name(row)}: throttled for {100 * row['share']:.0f} % of the time"
        for row in shares.iter_rows(named=True)
    ]
