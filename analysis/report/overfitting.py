"""Overfitting: validation rises for good while the training loss goes on falling; and the best checkpoint.

Judged is one training: what a restart from the beginning, or from a checkpoint, threw away does not count.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from gputel.analysis.report.verdicts import UNKNOWN, Case, Verdict

if TYPE_CHECKING:
    from gputel.analysis.align.windows import Numbers
    from gputel.analysis.logs.log import Log

QUESTION = "overfitting"
METRICS = ("val_loss", "val_bpb")
FEWEST = 4  # validation losses, below which nothing is said
RISEN = 0.005  # of the best value: less is no rise
NOISES = 3  # times the validation's own noise: less is none either
PATH = re.compile(
    r"""[^\s'"=,;()]*/[^\s'"=,;()]+|[^\s'"=,;()]+\.(?:pt|pth|ckpt|safetensors|bin|h5|keras|npz)"""
)


def overfitting_verdict(case: Case) -> Verdict:
    log = case.subject.log
    found = _validation(log)
    if found is None:
        anew = " since it last began anew" if _had_enough(log) else ""
        few = f"fewer than {FEWEST} validation losses of one phase were printed{anew}"
        return Verdict(QUESTION, UNKNOWN, (few,))
    name, phase, curve = found
    values = curve["value"].to_numpy()
    best = int(np.argmin(values))
    training = _training(log, phase, curve)
    facts: dict[str, Any] = {
        "metric": name,
        "best_step": curve["step"][best],
        "best": float(values[best]),
        "last_step": curve["step"][-1],
        "last": float(values[-1]),
        "checkpoint": _checkpoint(log, curve["step"][best]),
        "gap_best": None,
        "gap_last": None,
    }
    if name == "val_loss":  # bits a byte have no training loss beside them
        facts |= {"gap_best": _gap(values[best], training[best]), "gap_last": _gap(values[-1], training[-1])}
    answer, why = _judged(values, training, best)
    if answer == "no" and (since := _since_resumed(log, phase, curve)) < FEWEST:
        answer, why = UNKNOWN, (f"only {since} validation losses were printed since it was last resumed",)
    if answer == "yes":
        facts["rises_from_step"] = facts["best_step"]
    return Verdict(QUESTION, answer, (*_evidence(facts), *why), facts)


def _validation(log: Log) -> tuple[str, str, pl.DataFrame] | None:
    """Name, phase and curve of the validation that was printed most often."""
    curves = {
        (str(name), str(phase)): _of_one_training(own, _begins(log, str(phase)))
        for (name, phase), own in _known(log).group_by("name", "phase", maintain_order=True)
    }
    order = sorted(curves, key=lambda key: (-len(curves[key]), METRICS.index(key[0])))
    if not order or len(curves[order[0]]) < FEWEST:
        return None
    return (*order[0], curves[order[0]])


def _known(log: Log) -> pl.DataFrame:
    return log.evals.filter(
        pl.col("name").is_in(METRICS) & pl.col("value").is_finite() & pl.col("step").is_not_null()
    )


def _begins(log: Log, phase: str) -> dict[int, int]:
    """The first step of each attempt, the last attempt first."""
    parts = [frame.select("phase", "attempt", "step") for frame in (log.records, log.evals)]
    steps = pl.concat(parts).filter((pl.col("phase") == phase) & pl.col("step").is_not_null())
    return dict(
        steps.group_by("attempt").agg(pl.col("step").min()).sort("attempt", descending=True).iter_rows()
    )


def _of_one_training(evals: pl.DataFrame, begins: dict[int, int]) -> pl.DataFrame:
    """Back from the last attempt to the one that began at the beginning; of each as far as the next took it up."""
    kept, end = [], max(evals["step"].to_list())
    for attempt, first in begins.items():
        kept.append(evals.filter((pl.col("attempt") == attempt) & (pl.col("step") <= end)))
        if first <= min(begins.values()):
            break
        end = min(end, first)
    return pl.concat(reversed(kept)).unique("step", keep="last", maintain_order=True).sort("step")


def _had_enough(log: Log) -> bool:
    """Had nothing been thrown away."""
    counts = _known(log).group_by("name", "phase").agg(pl.col("step").n_unique())
    return bool((counts["step"] >= FEWEST).any())


def _since_resumed(log: Log, phase: str, curve: pl.DataFrame) -> int:
    """How many are of the last attempt; all, where there is no other."""
    attempts = [attempt for own, attempt in log.places if own == phase]
    return len(curve.filter(pl.col("attempt") == max(attempts))) if len(attempts) > 1 else len(curve)


def _training(log: Log, phase: str, curve: pl.DataFrame) -> Numbers:
    """The mean training loss since the validation before; NaN where none was printed."""
    nothing = np.full(len(curve), np.nan)
    if "loss" not in log.records.columns:
        return nothing
    rows = log.steps.filter(
        (pl.col("phase") == phase) & pl.col("loss").is_finite() & pl.col("step").is_not_null()
    )
    steps, losses = rows["step"].to_numpy(), rows["loss"].to_numpy()
    edges = np.searchsorted(steps, curve["step"].to_numpy(), side="right")
    means = [float(losses[a:b].mean()) if b > a else np.nan for a, b in zip([0, *edges], edges, strict=False)]
    return np.array(means)


def _gap(validation: float, training: float) -> float | None:
    return None if np.isnan(training) else float(validation - training)


def _judged(values: Numbers, training: Numbers, best: int) -> tuple[str, tuple[str, ...]]:
    after = values[best + 1 :]
    if len(after) < 2:
        return "no", ()
    noise = _noise(values)
    risen = float(np.median(after[-3:])) - values[best]
    if risen < max(RISEN * abs(values[best]), NOISES * noise):
        return "no", (f"since then it has risen by {risen:.4f}, which is within its noise",)
    falls = _gap(training[best], training[-1])
    if falls is None:
        return UNKNOWN, ("validation rises, and no training loss was printed to set beside it",)
    if falls <= 0:
        return "no", ("validation and training loss rise together: that is instability, not overfitting",)
    return "yes", (f"validation rose by {risen:.4f} since then, while the training loss fell by {falls:.4f}",)


def _noise(values: Numbers) -> float:
    """How far a validation lies from the middle of its neighbours, as a standard deviation."""
    off = values[1:-1] - (values[:-2] + values[2:]) / 2
    return float(1.4826 * np.median(np.abs(off)) / np.sqrt(1.5))


def _evidence(facts: dict[str, Any]) -> list[str]:
    improves = facts["best_step"] == facts["last_step"]
    best, last = f"{facts['best']:.4f}", f"{facts['last_step']:,}"
    if improves:
        said = [f"{facts['metric']} is best at its last, step {last}: {best}"]
    else:
        said = [
            f"{facts['metric']} is best at step {facts['best_step']:,} with {best}; "
            f"at the last, step {last}, it is {facts['last']:.4f}"
        ]
    if facts["gap_last"] is not None and facts["gap_best"] is not None:
        then = "" if improves else f", and {_above(facts['gap_best'])} at its best"
        said.append(f"it is {_above(facts['gap_last'])} the training loss at the last{then}")
    saved = facts["checkpoint"]
    if saved and saved["step"] == facts["best_step"]:
        said.append(f"checkpoint of the best step: {saved['path']}")
    elif saved:
        said.append(
            f"no checkpoint of that step was printed; the nearest is of step {saved['step']:,}: {saved['path']}"
        )
    else:
        said.append("no checkpoint was printed")
    return said


def _above(gap: float) -> str:
    return f"{abs(gap):.4f} {'below' if gap < 0 else 'above'}"


def _checkpoint(log: Log, best: int) -> dict[str, Any] | None:
    """The one whose step is nearest to the best; of those equally near, the earlier."""
    found: list[tuple[int, str]] = []
    for text, step in log.events.filter(pl.col("kind") == "checkpoint").select("text", "step").iter_rows():
        path = PATH.search(text)
        of_step = _step(path.group(), step) if path else None
        if path and of_step is not None:
            found.append((of_step, path.group().rstrip(".:")))
    if not found:
        return None
    nearest, where = min(found, key=lambda one: (abs(one[0] - best), one[0]))
    return {"step": nearest, "path": where}


def _step(path: str, printed: int | None) -> int | None:
    """The number in its name that lies next to the last step printed before it, else that step."""
    numbers = [int(digits) for digits in re.findall(r"\d+", path)]
    near = [
        number for number in numbers if printed is not None and abs(number - printed) <= max(2, printed // 50)
    ]
    return near[-1] if near else printed
