"""The lines around figures: the heading above a block of them, and the best so far below them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from gputel.analysis.logs import values
from gputel.analysis.logs.infer.shapes import LineShape

EVALUATION = re.compile(  # but for `val_loss_best`
    rb"(?i)(?<![a-z_-])(?:vali?|valid|validat\w*|eva?l\w*|test\w*|dev|held[-_ ]?out)"
    rb"(?![a-z]|[\w/-]*[_-](?:best|min|max)\b)|^\W*(?-i:[A-Z]+_(?:EVAL|VAL|TEST))(?!\w)"  # `MILESTONE_EVAL step 5`
)
# bounded, as a long run of blanks may be divided between its parts in too many ways
_ONE = rb"[\w /-]{1,100}(?:[:=]|\s\||\s\s)\s{0,100}(?:%b)%%?(?: \([+-]?[\d.]+\))?" % values.GRAMMAR
_FIGURE = re.compile(rb"(?:# )?%b(?:[,;] +%b)*" % (_ONE, _ONE))
_SCORES = re.compile(rb"(?i)(?:scores?|results?)(?: on \w+)?:?")
_LOSES = re.compile(rb"(?i)loss|\blr\b|learning|grad")
_DRAWN = b" \t=-*#_|>"
_BLOCK = 40  # lines between a heading and a figure of its block
_PLACE = rb"(?:epoch|step|iter(?:ation)?)[ :#]*\d+(?: ?/ ?\d+)?"
# the place in `[Epoch 3] Validation:` and in `Validation results after epoch 3`
_PLACED = re.compile(
    rb"(?i)^\[?%b\W+(?=[a-z])|\W+(?:(?:after|at|for|of|in) )?%b[ .\])]*(?=:?$)" % (_PLACE, _PLACE)
)
_BEGINS = re.compile(rb"(?i)^(?:running|starting|performing|begin(?:ning)?) ")  # `Running Validation...`
_HEADING = re.compile(rb"[A-Za-z]+(?:[ :][A-Za-z]+){0,2}(?:[:/]|\.{3})?")
_CURRENT = re.compile(r"(?i)^current[_ ]")
_BEST = re.compile(rb"\W*best(?![a-z])")
_EVALUATES = re.compile(rb"(?i)\W*eval(?:uat\w*)?(?![a-z]).*[=:] *[-+]?\d")
_SHOWN = 20  # lines of a shape that are looked at
_LONGEST = 120  # of a heading


def say_evaluation(shape: LineShape, lines: Sequence[bytes], *, in_block: bool) -> bool:
    """Whether a line such as `Test Error:` stands above, with nothing but other figures in between.

    A line that says its place is in no block of figures. `Scores:` is such a line where no loss stands below it.
    """
    shown = shape.lines[:_SHOWN]
    above = [heading(lines, number, through=in_block) for number in shown]
    if any(len(line) > _LONGEST for line in above):
        return False
    above = [_BEGINS.sub(b"", _PLACED.sub(b"", line)) for line in above]
    if not all(_HEADING.fullmatch(line) for line in above):
        return False
    scored = in_block and all(_SCORES.fullmatch(line) for line in above)
    return all(EVALUATION.match(line) for line in above) or (
        scored and not any(_loses_below(lines, number) for number in shown)
    )


def is_below_evaluation(shape: LineShape, lines: Sequence[bytes]) -> bool:
    """Whether a line of figures that begins with `Eval` stands right above: `Eval steps=500, reward=9.5`."""
    above = [lines[number - 1] for number in shape.lines[:_SHOWN] if number]
    return len(above) > 1 and all(map(_EVALUATES.match, above))


def is_above_best(named: Sequence[str], shape: LineShape, lines: Sequence[bytes]) -> bool:
    """Whether the best of the same measures stand right below: `Current_acc: 0.5`, then `Best_acc: 0.75`."""
    names = [_CURRENT.sub("", name).lower().encode() for name in named]
    below = [lines[number + 1].lower() for number in shape.lines[:_SHOWN] if number + 1 < len(lines)]
    repeats = (_BEST.match(line) and all(name in line for name in names) for line in below)
    return bool(names and below) and all(repeats)


def heading(lines: Sequence[bytes], number: int, *, through: bool) -> bytes:
    """The nearest line above with text, without the signs drawn around it; `through` passes over figures."""
    above = (line.strip(_DRAWN) for line in reversed(lines[max(0, number - _BLOCK) : number]))
    return next((text for text in above if text and not (through and _FIGURE.fullmatch(text))), b"")


def _loses_below(lines: Sequence[bytes], number: int) -> bool:
    """Whether this figure or one below it in the block is a loss or a rate of the training."""
    block = (line.strip(_DRAWN) for line in lines[number : number + _BLOCK])
    return any(_LOSES.search(line) for line in takewhile(_FIGURE.fullmatch, block))
