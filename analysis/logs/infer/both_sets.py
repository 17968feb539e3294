"""Lines that give one measure of the training and of a held-out set: `[3] train-auc:0.81 test-auc:0.78`.

Such a line is of no loop of evaluation: where a log has no loss, it is a record of the training that evaluates. So
is a line that gives the measures of another one, `Train - CE: 0.2, KL: 1.5` beside `Val - CE: 0.3, KL: 1.6`.
"""

from __future__ import annotations

import re

from gputel.analysis.logs.infer.candidates import Candidate
from gputel.analysis.logs.names import HELD_OUT, TRAINING

_HELD_OUT, _TRAINED = (
    re.compile(rf"(?i)(?:cv_agg's )?(?:{of})(?:_\d)?(?:'s)?(?:[ _-]|$)")
    for of in (HELD_OUT, rf"{TRAINING}|learn")
)
_TRAINS = re.compile(rf"(?i)(?<![a-z])(?:{TRAINING})(?![a-z])".encode())


def measures_both(line: Candidate) -> bool:
    """Whether it gives one measure of both; `acc: 0.8 val_acc: 0.7` leaves out the name of the training."""
    sources = [cell.source.lower() for cell in line.metrics]
    held_out = {_HELD_OUT.sub("", source, 1) for source in sources if _HELD_OUT.match(source)}
    return any(_TRAINED.sub("", s, 1) in held_out for s in sources if not _HELD_OUT.match(s))


def mirrors(line: Candidate, evaluation: Candidate) -> bool:
    """Whether it speaks of the training, gives the measures of an evaluation, and comes as often."""
    trains = _TRAINS.search(line.shape.spoken) is not None
    is_paired = abs(line.shape.count - evaluation.shape.count) <= 1
    return trains and is_paired and _measures(line, _TRAINED) == _measures(evaluation, _HELD_OUT)


def _measures(line: Candidate, of: re.Pattern[str]) -> list[str]:
    return [of.sub("", cell.source.lower(), 1) for cell in line.metrics]
