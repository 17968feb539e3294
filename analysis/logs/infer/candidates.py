"""Lines of one shape with names for their values and a role: a record, an evaluation, a place or a part."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from gputel.analysis.logs.infer import rewards
from gputel.analysis.logs.infer.counters import integers
from gputel.analysis.logs.infer.dialects import HELD_OUT_SCORE, MEASURE, NAMED_BY_SET, OF_LOSS, PARTS
from gputel.analysis.logs.infer.named import PLACES, Named, is_place
from gputel.analysis.logs.infer.shapes import LineShape
from gputel.analysis.logs.line_kinds import CIRCUMSTANCES

_PLACES = [*PLACES, "index", "count"]
_RECURS = 20  # lines; with two losses each they are of a training, however long
OFTEN = 3  # lines; a rarer shape must have a value with a known name
# `best_of_4` and `best@4` are measures of their own; `error of best model` is measured when it is printed
_BEST = re.compile(
    r"(?<!of[ _])(?<!at[ _])(?<!for[ _])(?<!with[ _])(?<!from[ _])(?<!of the )"
    r"(?:(?<![A-Za-z])best|Best|BEST|\b[Hh]ighest|\b[Ll]owest|\b[Mm]inimum(?= \w+[ _]loss))"
    r"(?![a-z]|[\W_]*(?:\d|of(?![a-z])))|(?i:\bso[_ ]far$)"
)
_LOSS = re.compile(r"(?i)loss|grad_norm")
_LEARNS = re.compile(r"(?i)\blr\b|learn")
_ACCURACY = re.compile(
    r"(?i)\b(?:train(?:ing)?[ _])?(?:acc|accuracy|error[ _]rate|f1|auc|m?iou|dice|psnr|bleu)\b"
)
_LEARNED = re.compile(r"(?i)(?:^|[\W_])(?:recon\w*|kld?|pi)(?:$|[\W_])")  # by an autoencoder, or an actor
_SAVES = re.compile(
    rb"(?i)\W*(?:(?:best )?(?:model|weights|checkpoint) (?:(?:was|is|has been) )?)?"
    rb"(?:sav(?:ed|ing)|load(?:ed|ing)|restor(?:ed|ing))\b"
)
_OVER = re.compile(rb"(?i)\b(?:finish\w*|done|end(?:s|ed)?|complet\w*|over|took|elapsed)\b")
_ERROR = re.compile(r"(?i)\b(?:err|error)\b")


@dataclass(frozen=True, eq=False)
class Candidate:
    shape: LineShape
    named: tuple[Named, ...]
    role: str
    evidence: bool  # docs/parse.md, rule 4
    is_result: bool = False  # whether it is the result of an evaluation that other lines announce or judge
    ends: int | None = None  # the first epoch, where it stands below the records of the epoch that it names
    is_of_above: bool = False  # whether it evaluates, right below every record

    @property
    def columns(self) -> list[str]:
        return [cell.column for cell in self.named if cell.column]

    @property
    def metrics(self) -> list[Named]:
        return [cell for cell in self.named if cell.column and not is_place(cell)]

    @property
    def place(self) -> Named | None:
        places = [cell for cell in self.named if cell.column in _PLACES]
        return min(places, key=lambda cell: _PLACES.index(cell.column or "")) if places else None

    def renamed(self, names: Mapping[str, str | None]) -> Candidate:
        """The same lines with other names for some columns; None drops one."""
        cells = (replace(n, column=names.get(n.column, n.column)) if n.column else n for n in self.named)
        return replace(self, named=tuple(cells))

    @property
    def place_rank(self) -> int:
        """docs/parse.md, rule 10: an update goes before an iteration, and that before a batch.

        `Total steps: 384`, which an agent has done so far, stands behind them.
        """
        rank = _PLACES.index(self.place.column or "") if self.place else len(_PLACES)
        return rank + len(_PLACES) * bool(self.place and self.place.source.lower().startswith("total"))

    @property
    def is_fine(self) -> bool:
        """Whether it names a place within the epoch."""
        return not {"step", "iteration", "batch", "index", "count"}.isdisjoint(self.columns)

    @property
    def times_epochs(self) -> bool:
        """Whether it gives no more than an epoch and how long or how fast it was: `Epoch 3 took 12.3s`."""
        return {*self.columns} <= {"epoch", "epochs", *CIRCUMSTANCES}

    @property
    def loses(self) -> bool:
        """Whether it gives a loss or an average loss."""
        return "loss" in self.columns or "loss_avg" in self.columns

    @property
    def is_over(self) -> bool:
        """Whether it says that what it names is over: `Epoch 3 done`."""
        return _OVER.search(self.shape.spoken) is not None

    @property
    def saves(self) -> bool:
        """Whether it begins with what was done to a checkpoint: `Saved step 100`."""
        return _SAVES.match(self.shape.words[0]) is not None

    @property
    def falls(self) -> int:
        """How often its counter falls, as an index within epochs does."""
        return self._falls_of(self.place)

    @property
    def trainings(self) -> int:
        """How often its epochs begin, or its steps where it names none; 1 where it has but an index."""
        counters = {cell.column: cell for cell in self.named}
        return 1 + self._falls_of(counters.get("epoch", counters.get("step")))

    def _falls_of(self, cell: Named | None) -> int:
        counts = integers(self.shape.column(cell.at)) if cell else None
        return sum(b < a for a, b in pairwise(counts or ()))

    @property
    def names_training(self) -> bool:
        """Whether the name of a figure says that it is of the training."""
        return any("train" in cell.source.lower() for cell in self.metrics)

    @property
    def counts_each_step(self) -> bool:
        """Whether its step rises by one from line to line: what stands between two of them is of one step."""
        if self.place is None or self.place.column not in ("step", "iteration"):
            return False
        steps = integers(self.shape.column(self.place.at)) or []
        by_one = sum(b - a == 1 for a, b in pairwise(steps))
        return len(steps) >= OFTEN and by_one >= 0.9 * (len(steps) - 1)

    @property
    def changing(self) -> list[str]:
        """The columns whose values differ between lines, as those of settings do not."""
        return [n.column for n in self.metrics if n.column and len(set(self.shape.column(n.at))) > 1]

    @property
    def is_measured(self) -> bool:
        """Whether it gives a measure as a fraction or in percent: other whole numbers may be sizes.

        Prose may quote a figure, `4. Tests` is a heading, and the best so far was measured before. In a box of
        results any number counts.
        """
        if self.is_result and self.shape.is_boxed:
            return True
        metrics = [n for n in self.metrics if not is_best(n.source)]
        fractions = [n for n in metrics if self._is_fraction(n)]
        measures = any(MEASURE.search(n.column or "") or MEASURE.search(n.source) for n in fractions)
        measures = measures or any(self._is_named_by_set(n) for n in fractions)
        return (measures or (self.is_result and bool(fractions))) and (self.shape.count > 1 or self.is_terse)

    def _is_fraction(self, named: Named) -> bool:
        in_percent = named.unit == "%" and not self.shape.is_bar
        return in_percent or any(b"." in v[:-1] or b"n" in v for v in self.shape.column(named.at))

    def _is_named_by_set(self, named: Named) -> bool:
        """Whether it is the score `eval_anls: 61.2`, whatever that is: a figure with a place that changes."""
        alone = self.place is not None or "epoch" in self.columns
        return alone and named.column in self.changing and NAMED_BY_SET.fullmatch(named.source) is not None

    @property
    def scores_held_out(self) -> bool:
        """Whether it gives a measure that is computed on held-out data, and nothing of the training."""
        sources = [cell.source for cell in self.metrics]
        trains = self.evidence or self.names_training
        return not trains and self.is_measured and any(map(HELD_OUT_SCORE.search, sources))

    @property
    def is_terse(self) -> bool:
        """Whether it has few words for its values, unlike prose; signs between them are none."""
        words = [
            word for word in b"".join(self.shape.words).split() if word.strip(string.punctuation.encode())
        ]
        return len(words) <= 6 + 2 * self.shape.slots

    @property
    def names_reward(self) -> bool:
        """Whether it gives a reward that changes."""
        moving = [cell.source for cell in self.metrics if cell.column in self.changing]
        return rewards.are_named(moving, [cell.source for cell in self.named])

    @property
    def rewards(self) -> bool:
        """Whether it gives a reward for each step or episode, and so a record where a log has no loss at all."""
        sources = [cell.source for cell in self.named]
        counted = self.shape.is_boxed or rewards.are_of_episodes(sources, self.shape.spoken)
        counts = counted or (self.place is not None and not self.place.guessed)
        return self.shape.count > 2 and self.is_terse and counts and self.names_reward

    @property
    def gives_parts(self) -> bool:
        """Whether several fractions that change are parts of a loss, and one is of an autoencoder or an actor."""
        moving = [n for n in self.metrics if n.column in self.changing]
        named = [n.source for n in moving if any(b"." in value for value in self.shape.column(n.at))]
        return sum(PARTS.search(name) is not None for name in named) > 1 and any(map(_LEARNED.search, named))

    @property
    def tells_training(self) -> bool:
        """Whether it gives rewards, or a measure at epochs from the first on, or an accuracy at steps.

        So do the parts of a loss without a total, `Epoch 3: Recon 30.5, KL 2.1`. Solvers count iterations, too, and
        clocks and block chains have epochs with large numbers.
        """
        place = self.place if self.place and not self.place.guessed else None
        if self.place and self.is_terse and self.shape.count > 2 and self.gives_parts:
            return True
        counts = (integers(self.shape.column(place.at)) if place else None) or []
        begun = counts[:1] if place and place.column == "epoch" else []  # where another training begins
        rises = len(counts) >= OFTEN and all(b > a or b in begun for a, b in pairwise(counts))
        if place is None or not (rises and self.is_terse and self.is_measured and self.changing):
            return self.rewards
        in_epochs = place.column == "epoch" and counts[0] in (0, 1)
        learns = any(_ACCURACY.search(cell.source) for cell in self.metrics if cell.column in self.changing)
        return self.rewards or in_epochs or (learns and place.column in ("step", "iteration"))

    @property
    def errs(self) -> bool:
        """Whether it gives an error at an iteration, as solvers do, too: the rest of the log must tell."""
        counts = (integers(self.shape.column(self.place.at)) if self.place else None) or []
        falls = sum(b <= a for a, b in pairwise(counts))
        rises = len(counts) >= OFTEN and 4 * falls <= len(counts)  # a second network begins anew
        errs = any(_ERROR.search(cell.source) for cell in self.metrics if cell.column in self.changing)
        return rises and errs and self.is_terse and self.is_measured

    @property
    def is_quoted(self) -> bool:
        """Whether it is an example in a text, or in a program's comments."""
        return b"`" in self.shape.example or self.shape.example.startswith((b"# ", b"//"))

    @property
    def speaks(self) -> bool:
        """Whether only a training would print it: web servers have rates and counters too."""
        parts = [
            n
            for n in self.metrics
            if "?" not in n.source and _LOSS.search(n.column or "") and not OF_LOSS.search(n.column or "")
        ]
        parts = [] if self.columns == ["grad_norm"] else parts
        place = self.place if self.place and not self.place.guessed else None
        moves = self.shape.count < OFTEN or (place and len({*self.shape.column(place.at)}) > 1)
        named = place is not None and bool(moves)
        recurs = self.shape.count >= _RECURS and len(parts) > 1
        learns = any(n.column == "lr" and _LEARNS.search(n.source) for n in self.metrics)
        several = sum(PARTS.search(n.column or "") is not None for n in self.metrics) > 1
        learns = learns and self.place is not None and ("tok_per_sec" in self.columns or several)
        return self.loses or named or recurs or (self.is_terse and (bool(parts) or learns))


def is_best(source: str) -> bool:
    """Whether a name says that the value is the best so far, and not the current one."""
    return _BEST.search(source) is not None
