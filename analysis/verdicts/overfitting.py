"""Overfitting: validation rises for good while the training loss goes on falling; and the best checkpoint."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from gputel.analysis.verdicts.verdict import UNKNOWN, Case, Verdict

if TYPE_CHECKING:
    from gputel.analysis.align.held import Numbers
    from gputel.analysis.parse.log import Log

QUESTION = "overfitting"
METRICS = ("val_loss", "val_bpb")
FEWEST = 4  # validations, below which nothing is said
RISEN = 0.005  # of the best value: less is no rise
NOISES = 3  # times the validation's own noise: less is none either
PATH = re.compile(
    r"""[^\s'"=,;()]*/[^\s'"=,;()]+|[^\s'"=,;()]+\.(?:pt|pth|ckpt|safetensors|bin|h5|keras|npz)"""
)


def of(case: Case) -> Verdict:
    log = case.subject.log
    found = _validation(log)
    if found is None:
        return Verdict(QUESTION, UNKNOWN, (f"fewer than {FEWEST} validations of one phase were printed",))
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
    if answer == "yes":
        facts["rises_from_step"] = facts["best_step"]
    return Verdict(QUESTION, answer, (*_evidence(facts), *why), facts)


def _validation(log: Log) -> tuple[str, str, pl.DataFrame] | None:
    """Name, phase and curve of the validation that was printed most often; of repeated steps the last attempt."""
    known = log.evals.filter(
        pl.col("name").is_in(METRICS) & pl.col("value").is_finite() & pl.col("step").is_not_null()
    )
    curves = {
        (str(name), str(phase)): own.unique("step", keep="last").sort("step")
        for (name, phase), own in known.group_by("name", "phase", maintain_order=True)
    }
    order = sorted(curves, key=lambda key: (-len(curves[key]), METRICS.index(key[0])))
    if not order or len(curves[order[0]]) < FEWEST:
        return None
    return (*order[0], curves[order[0]])


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
        return "no", (f"since its best it has moved by {risen:+.4f}, which is within its noise",)
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
    said = [f"{facts['metric']} is best at step {facts['best_step']:,} with {facts['best']:.4f}"]
    improves = facts["best_step"] == facts["last_step"]
    said[0] += ", its last" if improves else f", and {facts['last']:.4f} at the last, {facts['last_step']:,}"
    if facts["gap_last"] is not None and facts["gap_best"] is not None:
        last, best = facts["gap_last"], facts["gap_best"]
        then = "" if improves else f", {best:+.4f} at the best"
        said.append(f"it lies {last:+.4f} from the training loss at the last{then}")
    saved = facts["checkpoint"]
    if saved and saved["step"] == facts["best_step"]:
        said.append(f"checkpoint of the best step: {saved['path']}")
    elif saved:
        said.append(f"no checkpoint of that step; the nearest is of step {saved['step']:,}: {saved['path']}")
    else:
        said.append("no checkpoint was printed")
    return said


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
