"""Who keeps the others waiting: a rank or node by its steps, a GPU by its clock or by throttling."""

from __future__ import annotations

from typing import Any

import polars as pl

from gputel.analysis.align import clocks
from gputel.analysis.verdicts.verdict import UNKNOWN, Case, Verdict

QUESTION = "stragglers"
SLOWER = 0.95  # of the median clock of the other GPUs
THROTTLED = 0.05  # of the training
TOLD = {"sm_mhz": "the clocks", "throttled_s": "the throttling"}


def of(case: Case) -> Verdict:
    found = clocks.offsets(case.subject.log.records)
    one_clock = case.subject.recording is not None and "node" not in case.subject.log.records.columns
    said = [f"{one.source}: {one.evidence}" for one in clocks.stragglers(found, one_clock=one_clock)]
    said += _by_clock(case.gpus) + _by_throttling(case.gpus)
    if said:
        return Verdict(QUESTION, "yes", tuple(said), {"sources": len(found), "gpus": len(case.gpus)})
    seen = [f"the steps of {len(found)} ranks or nodes"] if len(found) > 1 else []
    told = [said for name, said in TOLD.items() if name in case.gpus.columns and case.gpus[name].count() > 1]
    seen += [f"{' and '.join(told)} of {len(case.gpus)} GPUs"] if told else []
    if not seen:
        return Verdict(QUESTION, UNKNOWN, ("neither two ranks' steps nor two GPUs' clocks are known",))
    return Verdict(QUESTION, "none", (f"nothing stands out in {', and '.join(seen)}",))


def _name(row: dict[str, object]) -> str:
    return f"GPU {row['gpu']}" if row.get("node") is None else f"node {row['node']} GPU {row['gpu']}"


def _by_clock(gpus: pl.DataFrame) -> list[str]:
    known = gpus.filter(pl.col("sm_mhz").is_not_null()) if "sm_mhz" in gpus.columns else gpus.clear()
    said = []
    for place, row in enumerate(known.iter_rows(named=True)):
        others = [mhz for other, mhz in enumerate(known["sm_mhz"]) if other != place]
        usual: Any = pl.Series(others, dtype=pl.Float64).median()
        if usual and row["sm_mhz"] < SLOWER * usual:
            said.append(
                f"{_name(row)}: its clock was {row['sm_mhz']:,.0f} MHz, that of the others {usual:,.0f} MHz"
            )
    return said


def _by_throttling(gpus: pl.DataFrame) -> list[str]:
    """Those that were slowed down while another was not."""
    if "throttled_s" not in gpus.columns or gpus["throttled_s"].null_count() == len(gpus) or len(gpus) < 2:
        return []
    shares = gpus.with_columns(share=pl.col("throttled_s") / pl.col("duration_s")).filter(
        pl.col("share") > THROTTLED
    )
    if len(shares) == len(gpus):
        return []
    return [
        f"{_name(row)}: slowed down in {100 * row['share']:.0f} % of the time"
        for row in shares.iter_rows(named=True)
    ]
