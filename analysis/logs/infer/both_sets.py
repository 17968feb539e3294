"""Lines that give one measure of the training and of a held-out set: `[3] train-auc:0.81 test-auc:0.78`.

Such a line is of no loop of evaluation: where a log has no loss, it is a record of the training that evaluates.
"""

from __future__ import annotations

import re

from gputel.analysis.logs.infer.candidates import Candidate
from gputel.analysis.logs.names import HELD_OUT, TRAINING

_HELD_OUT, _TRAINED = (re.compile(rf"(?i)(?:{of})[ _-]") for of in (HELD_OUT, TRAINING))


def measures_both(line: Candidate) -> bool:
    """Whether it gives one measure of both; `acc: 0.8 val_acc: 0.7` leaves out the name of the training."""
    sources = [cell.source.lower() for cell in line.metrics]
    held_out = {_HELD_OUT.sub("", source, 1) for source in sources if _HELD_OUT.match(source)}
    return any(_TRAINED.sub("", s, 1) in held_out for s in sources if not _HELD_OUT.match(s))
