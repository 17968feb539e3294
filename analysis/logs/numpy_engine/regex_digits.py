"""How much of the digits of a line a regex sees: the fast engine reads lines alike that differ in digits only.

A regex is blind if it reads a line as it reads the same line with every digit made a 0. `\\d+`, `[\\d.]+` and
`\\w` are blind; `[1-5]`, `\\1` and a literal `8` are not. A literal digit right after a literal letter (`rank0`)
or an `@` is between the two: blind to all digits but those that follow one.

Most lines are of no regex that sees digits. `relaxed` proves it: a line that the relaxed regex does not match is
not matched by the regex either, whatever its digits are.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal

_DIGIT = re.compile(rb"\d")

Sight = Literal["blind", "after letters", "sees"]

_ORDER: list[Sight] = ["blind", "after letters", "sees"]
_parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
_compiler: Any = importlib.import_module("re._compiler" if sys.version_info >= (3, 11) else "sre_compile")
_COUNT = re.compile(rb"\{\d*,?\d*\}|\(\?P<\w+>")
_REFERENCE = re.compile(rb"\(\?(?:P=|\()")
_BRACE = re.compile(rb"\\\{|\[[^\]]*\{")
_DIGITS = frozenset(b"0123456789")
_LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_@")
_CLASSES = {"CATEGORY_DIGIT": _DIGITS, "CATEGORY_WORD": _DIGITS, "CATEGORY_NOT_SPACE": _DIGITS}
_ANY_DIGIT = [(_parser.CATEGORY, _parser.CATEGORY_DIGIT)]
_NO_DIGITS = frozenset({"CATEGORY_NOT_DIGIT", "CATEGORY_NOT_WORD", "CATEGORY_SPACE"})


def sight(*regexes: re.Pattern[bytes]) -> Sight:
    """How much of digits the regexes see, taken together."""
    return worst(sight_of(r.pattern, r.flags) for r in regexes if not names_no_digit(r.pattern))


def sight_of(source: bytes, flags: int = 0) -> Sight:
    return _sequence(_parser.parse(source, flags))


def names_no_digit(source: bytes) -> bool:
    """Whether digits stand only in names of groups and in counts such as `{1,3}`: it is blind without being parsed.

    Leaves references to groups, and braces that may not be counts, to the parser.
    """
    if _REFERENCE.search(source) or _BRACE.search(source):
        return False
    return not _DIGIT.search(_COUNT.sub(b"", source))


def worst(seen: Iterable[Sight]) -> Sight:
    return max(seen, key=_ORDER.index, default="blind")


@lru_cache(maxsize=256)
def relaxed(regex: re.Pattern[bytes]) -> re.Pattern[bytes] | None:
    """A blind regex that matches every line of this one; None where it cannot be written."""
    tree = _parser.parse(regex.pattern, regex.flags)
    try:
        compiled: re.Pattern[bytes] = _compiler.compile(_relaxed(tree), regex.flags)
    except re.error:  # a look-behind whose width varies
        return None
    return compiled


def _relaxed(tree: Any) -> Any:
    items = [each for item in tree for each in _relaxed_item(tree.state, *item)]
    return _parser.SubPattern(tree.state, items)


def _relaxed_item(state: Any, op: Any, argument: Any) -> Iterator[tuple[Any, Any]]:
    """What stands for an item; no atomic group stays one, since it might then take too much."""
    match str(op):
        case "BRANCH":
            yield op, (argument[0], [_relaxed(branch) for branch in argument[1]])
        case "SUBPATTERN" | "ASSERT":
            yield op, (*argument[:-1], _relaxed(argument[-1]))
        case "MAX_REPEAT" | "MIN_REPEAT":
            yield op, (*argument[:2], _relaxed(argument[2]))
        case "POSSESSIVE_REPEAT":
            yield _parser.MAX_REPEAT, (*argument[:2], _relaxed(argument[2]))
        case "ATOMIC_GROUP":
            yield _parser.SUBPATTERN, (None, 0, 0, _relaxed(argument))
        case "GROUPREF_EXISTS":
            ways = [_relaxed(way) if way else _parser.SubPattern(state, []) for way in argument[1:]]
            yield _parser.BRANCH, (None, ways)
        case name if _item(name, argument) == "blind":
            yield op, argument
        case name:
            yield from _relaxed_digits(state, name, argument)


def _relaxed_digits(state: Any, op: str, argument: Any) -> Iterator[tuple[Any, Any]]:
    """What stands for an item that sees digits: any digit for a digit, and nothing for what must not follow."""
    if op in ("IN", "NOT_LITERAL") and (op == "NOT_LITERAL" or str(argument[0][0]) == "NEGATE"):
        yield _parser.ANY, None
    elif op in ("IN", "LITERAL"):
        yield _parser.IN, [*(argument if op == "IN" else ()), *_ANY_DIGIT]
    elif op != "ASSERT_NOT":
        yield _parser.MAX_REPEAT, (0, _parser.MAXREPEAT, _parser.SubPattern(state, [(_parser.ANY, None)]))


def _sequence(items: Sequence[tuple[Any, Any]]) -> Sight:
    so_far: Sight = "blind"
    named = False  # the item before is a literal letter, or a digit of a literal name
    for op, argument in items:
        seen = _item(str(op), argument)
        if seen == "sees" and named and str(op) in ("LITERAL", "IN"):
            seen = "after letters"
        named = str(op) == "LITERAL" and (argument in _LETTERS or (named and argument in _DIGITS))
        so_far = worst((so_far, seen))
    return so_far


def _item(op: str, argument: Any) -> Sight:
    match op:
        case "LITERAL" | "NOT_LITERAL":
            return "sees" if argument in _DIGITS else "blind"
        case "ANY" | "AT" | "FAILURE":
            return "blind"
        case "IN":
            return "blind" if len(_members(argument)) in (0, 10) else "sees"
        case "BRANCH":
            return worst(_sequence(branch) for branch in argument[1])
        case "SUBPATTERN" | "ASSERT" | "ASSERT_NOT":
            return _sequence(argument[-1])
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return _sequence(argument[2])
        case "GROUPREF_EXISTS":
            return worst(_sequence(branch or ()) for branch in argument[1:])
        case "ATOMIC_GROUP":
            return _sequence(argument)
        case _:
            return "sees"  # back references, and operations of later Pythons


def _members(items: Sequence[tuple[Any, Any]]) -> frozenset[int]:
    """The digits in a bracketed set."""
    members: frozenset[int] = frozenset()
    for op, argument in items:
        if str(op) == "LITERAL":
            members |= {argument} & _DIGITS
        elif str(op) == "RANGE":
            members |= _DIGITS & frozenset(range(argument[0], argument[1] + 1))
        elif str(op) == "CATEGORY":
            members |= _category(str(argument))
    return _DIGITS - members if items and str(items[0][0]) == "NEGATE" else members


def _category(name: str) -> frozenset[int]:
    if name in _NO_DIGITS:
        return frozenset()
    return _CLASSES.get(name, frozenset(b"0"))  # an unknown class counts as seeing
