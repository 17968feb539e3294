"""The unit behind a value, and words there that look like one and name the next value."""

from __future__ import annotations

from collections.abc import Sequence

from gputel.analysis.logs.infer.shapes import SUFFIX, UNIT, LineShape
from gputel.analysis.logs.patterns import lazy_regex

PLACE = r"(?:global[ _])?(?:step|iter(?:ation)?|epoch|round|(?:mini-?)?batch|update)(?:e?s)?"
PLACES = lazy_regex(rf"(?i){PLACE}")
_LETTERED = lazy_regex(rb"[ ,;|]+(?P<letter>[A-Z])[ _-]?(?P<word>[A-Za-z]+)")
_MINIMUM = lazy_regex(rb"(?i) min[ _](?:\w+[ _])?(?:loss|err|error|mse|mae)\b")  # `epoch 3 min loss 0.2`
_MILLIONS = lazy_regex(rb"m (?:tokens?|toks?|params|parameters|samples|frames)\b")
_RATE = lazy_regex(rb" +[A-Za-z]{1,10}/[A-Za-z]{1,5} *(?P<colon>[:=]?) *")
_LEAST = lazy_regex(rb"[ ,;|]+min *[:=]? *")  # `avg 0.5 min 0.1 max 0.9`
_MOST = lazy_regex(rb"\bmax *[:=]? *$")
_KELVIN, _ERROR = lazy_regex(rb" K(?!\w)"), lazy_regex(r"(?i)(?:rms|m[as])e\b|error|bias")
_ONE_LETTER = lazy_regex(rb"[ ,;|]+[a-z] ?[:=] *")  # `e: 3 s: 640`


def is_none(printed: str | None, shape: LineShape, at: int) -> bool:
    """Whether what looks like the unit of a value, named as printed, is none."""
    right, named = shape.english[at + 1], printed or ""
    return (
        _names_one_of_several(right, shape.english)
        or (PLACES.fullmatch(named) is not None and _MINIMUM.match(right) is not None)
        or _names_the_next(shape.english[at + 1 :], named=printed is not None)
        or (_KELVIN.match(right) is not None and _ERROR.search(named) is not None)
    )


def behind(right: bytes) -> tuple[str | None, str, bytes]:
    """The unit, the letter that shortens the number before it, and what stands behind them."""
    scale = SUFFIX.match(right)
    rest = right[scale.end() :] if scale else right
    unit = UNIT.match(rest)
    short = scale["suffix"].decode() if scale else ""
    if not unit:
        return None, short, rest
    if unit["unit"] == b"m" and _MILLIONS.match(rest):
        return "M", short, rest[unit.end() :]
    return unit["unit"].decode(errors="replace"), short, rest[unit.end() :]


def _names_one_of_several(right: bytes, literals: Sequence[bytes]) -> bool:
    """Whether the letter behind a value begins a name: `D loss: 1.4 G loss: 0.7` has no giga."""
    name = _LETTERED.match(right)
    if name is None:
        return False
    others = (other for literal in literals for other in _LETTERED.finditer(b" " + literal))
    return any(other["word"] == name["word"] and other["letter"] != name["letter"] for other in others)


def _names_the_next(literals: Sequence[bytes], *, named: bool) -> bool:
    """Whether a rate behind a value is the name of the next one: `loss 6.1 tok/s: 431`, `loss 6.1 tok/s 431`.

    Without a colon both must fit: the value is `named`, and nothing but the rate tells what the next one is.
    A `min` between two values is none of minutes if a `max` follows.
    """
    if _LEAST.fullmatch(literals[0]) and any(map(_MOST.search, literals[1:-1])):
        return True
    if named and len(literals) > 1 and _ONE_LETTER.fullmatch(literals[0]):
        return True
    rate = _RATE.fullmatch(literals[0]) if len(literals) > 1 else None
    return rate is not None and (bool(rate["colon"]) or (named and not literals[1][:1].strip(b",;|)]")))
