"""A run -> doubts: figures of it that cannot both be right. A run whose figures agree has none.

To those of its log it adds what was measured: FLOPs against the peak, power against its limit, the number of GPUs,
log and readings that share no time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis.doubts import Doubt
from gputel.analysis.report.verdicts import MFU_QUESTION, Verdict
from gputel.analysis.runs.log_doubts import log_doubts

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData

OVER_LIMIT = 1.1  # of the power limit, as a mean over the training
BUSY = 20.0  # % utilization of a GPU that takes part


@dataclass(frozen=True)
class Findings:
    """What a report found of a run: the overlap of log and readings, sums by kind of span, GPUs, and verdicts."""

    shared: Mapping[str, Any] | None
    totals: pl.DataFrame
    gpus: pl.DataFrame
    verdicts: Sequence[Verdict]


def report_doubts(subject: RunData, findings: Findings) -> tuple[Doubt, ...]:
    """Returns the doubts about a run, most severe first: files that do not belong together, then its figures."""
    mfu = next((verdict for verdict in findings.verdicts if verdict.question == MFU_QUESTION), None)
    doubt = mfu_doubt(mfu) if mfu else None
    return (
        *_apart(subject, findings.shared),
        *log_doubts(subject),
        *_power(subject, findings.totals),
        *_gpus(subject, findings.gpus),
        *([doubt] if doubt else []),
    )


def mfu_doubt(mfu: Verdict) -> Doubt | None:
    """Returns the doubt about an MFU that is impossible, or printed and computed differently."""
    printed, computed = mfu.facts.get("printed"), mfu.facts.get("computed")
    figures = {"printed": printed, "computed": computed}
    if mfu.answer.startswith("impossible"):
        evidence = (
            f"MFU would be {mfu.answer.removeprefix('impossible: ')}, and 100 % is the peak of the GPUs"
        )
        return Doubt(
            "run", "mfu", evidence, "tokens, parameters, throughput or the number of GPUs are wrong", figures
        )
    reason = mfu.facts.get("disagreement")
    if reason is None or printed is None or computed is None:
        return None
    return Doubt(
        "run",
        "mfu",
        f"the log prints an MFU of {printed:.3g} %, computed it is {computed:.3g} %",
        reason,
        figures,
    )


def _apart(subject: RunData, shared: Mapping[str, Any] | None) -> Iterator[Doubt]:
    if shared is None or shared["shared_s"] or subject.recording is not None:
        return
    offset_s = shared["offset_s"]
    likely = "one of them is of another run" if offset_s is None else "one of them is in another time zone"
    hint = "name the shift by --offset" if offset_s is None else f"add --offset={offset_s / 3600:g}h"
    yield Doubt(
        "run",
        "overlap",
        f"the log is of {from_to(shared['log'])}, the readings of {from_to(shared['gpu'])}: they share no time",
        f"{likely}; {hint}",
        {"shared_s": 0.0, "offset_s": offset_s},
    )


def from_to(edges: Sequence[object]) -> str:
    """Begin and end to the second, without their day's zone."""
    return " to ".join(str(edge)[:19].replace("T", " ") for edge in edges)


def _power(subject: RunData, totals: pl.DataFrame) -> Iterator[Doubt]:
    """Compares the mean power of the training with what the limit allows."""
    limit = subject.facts.power_limit_w
    train = totals.filter(pl.col("kind") == "train")
    mean = train["power_mean_w"][0] if train.height and "power_mean_w" in train.columns else None
    if limit is None or mean is None or mean <= OVER_LIMIT * float(limit.value):
        return
    yield Doubt(
        "run",
        "power",
        f"the GPUs drew {mean:,.0f} W on average, and their limit is {float(limit.value):,.0f} W",
        "the readings are in another unit, or of more GPUs than the limit",
        {"power_mean_w": mean, "power_limit_w": float(limit.value)},
    )


def _gpus(subject: RunData, gpus: pl.DataFrame) -> Iterator[Doubt]:
    """Compares the printed number of ranks with the GPUs that were measured, and that were busy."""
    ranks = subject.log.config.get("world_size")
    if not isinstance(ranks, (int, float)) or gpus.is_empty():
        return
    measured, busy = gpus.height, None
    if "util" in gpus.columns and not gpus["util"].null_count():
        busy = gpus.filter(pl.col("util") > BUSY).height
    if measured < ranks:
        words, likely = (
            f"the readings are of {measured}",
            "other nodes were not recorded: energy is that of a part",
        )
    elif busy is not None and busy > ranks:
        words, likely = f"{busy} GPUs were busy", "other jobs ran beside it: energy is not its own"
    else:
        return
    yield Doubt("run", "gpus", f"the log prints {ranks:,.0f} ranks, and {words}", likely,
                {"ranks": float(ranks), "measured": float(measured)})  # fmt: skip
