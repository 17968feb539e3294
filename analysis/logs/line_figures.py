"""Lines that differ in numbers alone -> their figures, by the words beside them.

A figure has a decimal point, or is a measure in whole percent. Times, memory, rates, settings, clocks and versions
are none, nor are the numbers of a vector and those that no word names, as in the rows of a table.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

from gputel.analysis.logs.languages import english
from gputel.analysis.logs.line_prefixes import strip_prefixes
from gputel.analysis.logs.patterns import lazy_regex
from gputel.analysis.logs.training_words import names_measure


class _HasLine(Protocol):
    @property
    def line(self) -> bytes: ...


Printed = TypeVar("Printed", bound=_HasLine)
VECTOR = 10  # numbers of one name
_LONGEST = 40  # of a name
_NUMBER = r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+(?![,\d])(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
_NUMBERS, _TEXT_NUMBERS = lazy_regex(_NUMBER.encode()), lazy_regex(_NUMBER, re.ASCII)
_CLOCK = lazy_regex(rb"(?<![\d.:])\d{1,2}:\d\d(?:[:.]\d\d(?:[.,]\d+)?)?(?![.:]?\d)")
_DRAWN = lazy_regex(rb"%\|[^|\w]{1,400}\|")
_FRACTION = lazy_regex(rb"\d\.\d")
_PERCENT = lazy_regex(rb" ?%(?![|\w]| *\d+/\d)")
_LETTER = lazy_regex(r"[^\W\d_]")
# between two values of one name, `recall=[0.1, 0.2]`, or between a number of the name and its value, `rank-1: 0.5`
_LISTED = lazy_regex(r"\W*[,/(\[+=:]\W*|\s*(?:to|->|\+/-)\s*")
_BETWEEN_NAMES = lazy_regex(r"[,;|\]}]|\s-\s|\t")
_WRAPPERS = lazy_regex(r"(?:[\w.]*(?:tensor|array|float\d+)\(|[\s:=(\[{'\"])+$", re.IGNORECASE)
_SIGNS = lazy_regex(r"^[^\w(%]+|[^\w)%]+$")  # around a name
_GLUED = lazy_regex(r"[^\W_][-/@]$")  # before a number of the word, `BLEU-1`, `mAP@.5`
_SETTING = lazy_regex(r"\)\s?[:=]")  # behind a number in brackets behind a name: `accuracy (IoU=0.7): 0.21`
_SHARE = lazy_regex(r"\d/\d+ ?[(:]? ?$")  # before per cent of a count
# behind a number: the rest of a version or a clock, a word that is glued to it, a unit
_OTHER = lazy_regex(
    r"(?i)\.\d|:\d|[^\W\d]\w*\d"
    r"|[ _]?(?:s|secs?|seconds?|ms|us|m|mins?|minutes?|h|hours?|[kmgt]i?b|[kmg]?it|fps|x)\b"
    r"|\s?[a-z]{0,12}\s?/\s?s(?:ec(?:ond)?)?\b"
)
# names of times, progress, memory, rates and settings
ASIDE = lazy_regex(
    r"(?i)time|took|takes|elapsed|progress|mem|speed|fps|flops|/ ?s(?:ec)?\b|per sec|\beta\b|duration|hour|second"
    r"|setup|size|param|version|\blr\b|learning|weight(?!ed)|ratio\b|temperature|threshold|scale|clip|dropout|momentum|epsilon"
    r"|\b(?:eps|beta|gamma|alpha)\b|\bepochs?\W*$|\bts\b|stamp|\brange\b"
)


def shape(line: bytes) -> bytes:
    """The line without its numbers, and without what a bar is drawn with."""
    return _NUMBERS.sub(b"#", _DRAWN.sub(b"%|", line))


def alike(lines: Iterable[Printed]) -> list[list[Printed]]:
    """Lines that differ in numbers alone, together."""
    kinds: defaultdict[bytes, list[Printed]] = defaultdict(list)
    for each in lines:
        kinds[shape(each.line)].append(each)
    return [*kinds.values()]


def head(line: bytes) -> bytes:
    """What stands before the first figure, without what a carrier or a logger put before the line."""
    (bare,) = strip_prefixes([line])
    figure = _FRACTION.search(bare)
    return bare[: figure.start()] if figure else bare


def figures(lines: Sequence[bytes]) -> dict[str, frozenset[float]]:
    """The figures of lines of one shape, by their names."""
    found: defaultdict[str, set[float]] = defaultdict(set)
    some = [_CLOCK.sub(b"", line) for line in lines]
    names = _names(some[0].decode(errors="replace"))
    for line in some if names else ():
        for slot, number in enumerate(_NUMBERS.finditer(line)):
            digits = number[0].replace(b",", b"")
            is_whole = digits.lstrip(b"+-").isdigit()
            if slot in names and (not is_whole or _is_score(names[slot], line[number.end() :])):
                found[names[slot]].add(float(digits))
    return {name: frozenset(values) for name, values in found.items()}


def _is_score(name: str, behind: bytes) -> bool:
    """Whether it is a measure in percent: `Accuracy: 54 %`."""
    is_named_before = not name.startswith("%")
    return is_named_before and _PERCENT.match(behind) is not None and names_measure(name.lower().encode())


def _names(line: str) -> dict[int, str]:
    """The names of the numbers of a line, by their places in its row of numbers."""
    ends, begins = [0], list[int]()
    for number in _TEXT_NUMBERS.finditer(line):
        begins.append(number.start())
        ends.append(number.end())
    between = [line[end:begin] for end, begin in zip(ends, [*begins, len(line)], strict=True)]
    slots: defaultdict[str, list[int]] = defaultdict(list)
    name, is_glued = "", False
    for slot, (before, after) in enumerate(pairwise(between)):
        if not (name and (_LISTED.fullmatch(before) or (is_glued and before.isspace()))):
            name = _right_before(before) or _right_behind(after) or _before(before)
        is_glued = _GLUED.search(before) is not None
        is_other = name and before.strip() == "("  # an average or a change: `0.25 (0.27)`
        is_share = after.startswith("%") and _SHARE.search(line[: begins[slot]]) is not None
        is_setting = "(" in before and _SETTING.match(after) is not None
        if name and not (
            is_glued or is_other or is_share or is_setting or _OTHER.match(after) or ASIDE.search(name)
        ):
            slots[name].append(slot)
    return {slot: name for name, some in slots.items() if len(some) <= VECTOR for slot in some}


def _before(text: str) -> str:
    """The last words before a number, across signs between names: `| loss | 0.25 |`."""
    *_, words = ("", *(part for part in _BETWEEN_NAMES.split(text) if _LETTER.search(part)))
    return _english(_WRAPPERS.sub("", words)[-_LONGEST:])


def _right_before(text: str) -> str:
    return _before(_BETWEEN_NAMES.split(text)[-1])


def _right_behind(text: str) -> str:
    """The words right behind a number: `0.25 train loss`."""
    words = "" if text[:1].isalpha() else _BETWEEN_NAMES.split(text)[0]
    return _english(words[:_LONGEST]) if _LETTER.search(words) else ""


def _english(words: str) -> str:
    return _SIGNS.sub("", english(words.encode()).decode())
