"""Candidates that are no lines of the training: printed settings, and the figures of the best model once more."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gputel.analysis.logs import setting_lines
from gputel.analysis.logs.infer.candidates import OFTEN, Candidate
from gputel.analysis.logs.infer.headings import heading
from gputel.analysis.logs.infer.named import PLACES

_SEVERAL = 3  # hyperparameters on one line
_MEASURED = frozenset({"grad_norm", "dt_ms", "tok_per_sec", "mfu"})
_THRESHOLD = re.compile(r"(?i)(?:^|[\W_])thr(?:esh(?:old)?)?s?(?:$|[\W_])")  # measures nothing
_RESULT = re.compile(rb"(?:^|[\s=:<\[])\w*(?:Result|Output)\(|^\s*metrics ?= ?\{")
_BEST_OF_ALL = re.compile(rb"(?i)best .{0,40}:")


def without_settings(candidates: Sequence[Candidate], lines: Sequence[bytes]) -> list[Candidate]:
    """The candidates but those that look like evaluations and are printed settings or the best ones once more."""
    begins = min(
        (c.shape.first for c in candidates if c.role == "train" and c.place and c.evidence), default=0
    )
    kept = [
        line
        for line in candidates
        if not (_is_setting(line, lines, begins) or _is_of_best(line, lines) or _is_result(line))
    ]
    return [line for line in kept if not _is_led(line, kept)]


def is_printed(line: Candidate) -> bool:
    """Whether it is a printed configuration: many names in brackets, with values that never change."""
    printed = setting_lines.is_printed(line.shape.example)
    return printed and (not line.changing or (not line.loses and setting_lines.is_wordy(line.shape.example)))


def _is_led(line: Candidate, candidates: Sequence[Candidate]) -> bool:
    """Whether it is `Config: step=10 | loss=1.0` above all records, as often as other settings are tried."""
    moving = {cell.column for cell in line.named if len({*line.shape.column(cell.at)}) > 1}
    if setting_lines.sets(line.shape.example) != "led" or not moving.isdisjoint({"loss", *PLACES}):
        return False
    return any(c.shape.first > line.shape.first for c in candidates if c.role == "train" and c.evidence)


def _is_result(line: Candidate) -> bool:
    """Whether it is the printed result of a run: `Result(metrics={'loss': 0.5}, path='run')`."""
    first = min((cell.at for cell in line.metrics), default=None)
    return first is not None and _RESULT.search(b" ".join(line.shape.words[: first + 1])) is not None


def _is_of_best(line: Candidate, lines: Sequence[bytes]) -> bool:
    """Whether it repeats figures of the best model, below a line such as `Best model at step 46000:`."""
    above = (heading(lines, number, through=True) for number in line.shape.lines)
    return line.shape.count < OFTEN and bool(line.metrics) and all(map(_BEST_OF_ALL.fullmatch, above))


def _is_setting(line: Candidate, lines: Sequence[bytes], begins: int) -> bool:
    """Whether it is one; the same setting of several parts differs, all above the line where records begin."""
    if (is_printed(line) and not line.loses) or _sets_only(line):
        return True
    if line.metrics and all(_THRESHOLD.search(cell.source) for cell in line.metrics):
        return True
    if line.role not in ("eval", "mixed") or (line.changing and line.shape.lines[-1] > begins):
        return False
    in_blocks = (setting_lines.in_block(lines, number) for number in line.shape.lines[:20])
    return is_printed(line) or (line.place is None and all(in_blocks))


def _sets_only(line: Candidate) -> bool:
    """Whether all of its names are of hyperparameters, as in `{'lr': 0.001, 'wd': 0.01, 'epochs': 10}`.

    Three are enough, `run=2/9 batch_size=32 lr=0.001 epochs=10 steps=500`, where nothing is measured or timed.
    """
    names = [cell.source for cell in line.named if cell.column]
    known = [name for name in names if setting_lines.is_hyperparameter(name)]
    trains = line.loses or line.is_measured or not _MEASURED.isdisjoint(line.columns)
    return (len(known) >= _SEVERAL and not trains) or (1 < len(names) == len(known) and not line.changing)
