"""A log -> whether the run overfits (validation rises while training loss falls), and its best checkpoint.

Only the steps that led to the final model count: steps that a restart discarded are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from gputel.analysis.columns import VALIDATION
from gputel.analysis.logs.attempts import retained
from gputel.analysis.logs.saved_steps import has_weights, named_numbers, saved_path
from gputel.analysis.report.verdicts import UNKNOWN, Case, Verdict

if TYPE_CHECKING:
    from gputel.analysis.align.windows import Numbers
    from gputel.analysis.logs.log import Log

QUESTION = "overfitting"
FEWEST = 4  # validation losses; with fewer there is no verdict
RISEN = 0.005  # share of the best value: a smaller rise does not count
SAME = 1  # step: a save that names none stands behind the record of the step before
NOISES = 3  # times the noise of the validation loss: a smaller rise does not count


def overfitting_verdict(case: Case) -> Verdict:
    log = case.subject.log
    validation = _validation(log)
    if validation is None:
        anew = " since its last restart" if _had_enough(log) else ""
        few = f"fewer than {FEWEST} validation losses of one phase were printed{anew}"
        return Verdict(QUESTION, UNKNOWN, (few,))
    name, phase, curve = validation
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
        "saves": log.events.filter(pl.col("kind") == "checkpoint").height,
        "gap_best": None,
        "gap_last": None,
    }
    if name == "val_loss":  # there is no training loss in bits per byte
        facts |= {"gap_best": _gap(values[best], training[best]), "gap_last": _gap(values[-1], training[-1])}
    answer, why = _judged(values, training, best)
    if answer == "no" and (since := _since_resumed(log, phase, curve)) < FEWEST:
        answer, why = UNKNOWN, (f"only {since} validation losses were printed since the last resume",)
    if answer == "yes":
        facts["rises_from_step"] = facts["best_step"]
    return Verdict(QUESTION, answer, (*_evidence(facts), *why), facts)


def _validation(log: Log) -> tuple[str, str, pl.DataFrame] | None:
    """Returns name, phase and curve of the validation metric that was printed most often."""
    curves = {
        (str(name), str(phase)): rows.unique("step", keep="last", maintain_order=True).sort("step")
        for (name, phase), rows in retained(_known(log), log).group_by("name", "phase", maintain_order=True)
    }
    order = sorted(curves, key=lambda key: (-len(curves[key]), VALIDATION.index(key[0])))
    if not order or len(curves[order[0]]) < FEWEST:
        return None
    return (*order[0], curves[order[0]])


def _known(log: Log) -> pl.DataFrame:
    return log.evals.filter(
        pl.col("name").is_in(VALIDATION) & pl.col("value").is_finite() & pl.col("step").is_not_null()
    )


def _had_enough(log: Log) -> bool:
    """Returns whether there would be enough evaluations if discarded ones counted."""
    counts = _known(log).group_by("name", "phase").agg(pl.col("step").n_unique())
    return bool((counts["step"] >= FEWEST).any())


def _since_resumed(log: Log, phase: str, curve: pl.DataFrame) -> int:
    """Counts the evaluations of the last attempt; all of them if there is only one attempt."""
    attempts = [attempt for name, attempt in log.places if name == phase]
    return len(curve.filter(pl.col("attempt") == max(attempts))) if len(attempts) > 1 else len(curve)


def _training(log: Log, phase: str, curve: pl.DataFrame) -> Numbers:
    """Returns the mean training loss since the previous validation; NaN if none was printed."""
    nothing = np.full(len(curve), np.nan)
    if "loss" not in log.records.columns:
        return nothing
    rows = retained(log.steps, log).filter(
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
        return "no", (f"it has risen by {risen:.4f} since, which is within its noise",)
    falls = _gap(training[best], training[-1])
    if falls is None:
        return UNKNOWN, ("validation rises, but no training loss was printed to compare with",)
    if falls <= 0:
        return "no", ("validation and training loss rise together: that is instability, not overfitting",)
    return "yes", (f"validation rose by {risen:.4f} since, while the training loss fell by {falls:.4f}",)


def _noise(values: Numbers) -> float:
    """Estimates the noise: deviations from the mean of both neighbors, as a standard deviation."""
    off = values[1:-1] - (values[:-2] + values[2:]) / 2
    return float(1.4826 * np.median(np.abs(off)) / np.sqrt(1.5))


def _evidence(facts: dict[str, Any]) -> list[str]:
    improves = facts["best_step"] == facts["last_step"]
    best, last = f"{facts['best']:.4f}", f"{facts['last_step']:,}"
    if improves:
        evidence = [f"{facts['metric']} is best at its last, step {last}: {best}"]
    else:
        evidence = [
            f"{facts['metric']} is best at step {facts['best_step']:,} with {best}; "
            f"at the last, step {last}, it is {facts['last']:.4f}"
        ]
    if facts["gap_last"] is not None and facts["gap_best"] is not None:
        then = "" if improves else f", and {_above(facts['gap_best'])} at its best"
        evidence.append(f"it is {_above(facts['gap_last'])} the training loss at the last{then}")
    saved = facts["checkpoint"]
    if saved and abs(saved["step"] - facts["best_step"]) <= SAME:
        evidence.append(f"checkpoint of the best step: {saved['path']}")
    elif saved and saved["overwritten"]:
        evidence.append(
            f"the checkpoint of that step was overwritten at step {saved['step']:,}: {saved['path']}"
        )
    elif saved:
        evidence.append(
            f"no checkpoint of that step was printed; the nearest before it is of step {saved['step']:,}: "
            f"{saved['path']}"
        )
    elif facts["saves"]:
        evidence.append("no checkpoint with a path was printed up to that step")
    else:
        evidence.append("no checkpoint was printed")
    return evidence


def _above(gap: float) -> str:
    return f"{abs(gap):.4f} {'below' if gap < 0 else 'above'}"


def _checkpoint(log: Log, best: int) -> dict[str, Any] | None:
    """Returns the checkpoint of the best step, else the last one before it; a later one is of other weights.

    A path that several steps were saved to holds the last of them.
    """
    named = [(saved_path(text), step) for text, step in _saves(log)]
    kept = {path: int(step) for path, step in named if path}
    kept = {path: step for path, step in kept.items() if has_weights(path)} or kept
    there = [(step, path) for path, step in kept.items() if step <= best + SAME]
    lost = [(kept[path], path) for path, step in named if path in kept and abs(step - best) <= SAME]
    if not (there or lost):
        return None
    step, path = max(there) if there else lost[-1]
    overwritten = abs(step - best) > SAME and (step, path) in lost
    return {"step": step, "path": path, "overwritten": overwritten}


def _saves(log: Log) -> list[tuple[str, int]]:
    """Returns line and step of each save; one without a number has the step of an evaluation right above it.

    Loops that print every tenth step evaluate, save if it is the best, and go on: the last record is older.
    """
    saved = log.events.filter((pl.col("kind") == "checkpoint") & pl.col("step").is_not_null()).sort("line")
    evals = (
        log.evals.filter(pl.col("step").is_not_null()).select(above="line", evaluated="step").sort("above")
    )
    placed = saved.join_asof(evals, left_on="line", right_on="above").join_asof(
        log.records.select(record="line").sort("record"), left_on="line", right_on="record"
    )
    rows = placed.select("text", "step", "evaluated", pl.col("above") > pl.col("record").fill_null(0))
    return [
        (text, max(step, evaluated) if right_above and not named_numbers(text) else step)
        for text, step, evaluated, right_above in rows.iter_rows()
    ]
