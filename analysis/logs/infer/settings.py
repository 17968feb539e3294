"""Printed settings of a program: `Namespace(...)`, dicts, blocks of `key: value`. None of them is measured.

A run prints its settings once, or once per rank, with values that never change. A weight of a loss or a threshold
of an accuracy has the name of a measure there: what stands around it says that it is a setting.
"""

from __future__ import annotations

from collections.abc import Sequence

from gputel.analysis.logs.patterns import lazy_regex
from gputel.analysis.logs.printed_settings import is_hyperparameter

_OTHER = rb"(?:'[^']*'|\"[^\"]*\"|True|False|None|\[[^\]]*\]|\([^)]*\)|[\w.<>/+-]+(?:\([^)]*\))?)"
# Namespace(lr=0.001, name='gpt'), TrainConfig(...): at least four names in one pair of brackets
_CALL = lazy_regex(rb"[A-Za-z_]\w*\((?:\w+ ?= ?%b, ?){3,}\w+ ?=" % _OTHER)
# {'lr': 0.001, 'amp': True, ...}: the same in a dict, of which one value is no number
_DICT = lazy_regex(rb"\{(?:['\"][\w.-]+['\"]: ?%b, ?){3,}['\"]" % _OTHER)
_WORD = lazy_regex(rb"['\"]: ?(?:'|\"|True\b|False\b|None\b|true\b|false\b|null\b)")
_OPENS = lazy_regex(
    rb"(?i)['\"]?\b(?:config\w*|h?params|hyper_?param\w*|settings|options|kwargs)['\"]?\s*[:=]?\s*\{"
    rb"|\b(?:namespace|\w*(?:config|args|arguments|settings|options))\("
)
_BRACKETS = lazy_regex(rb"[({]|[)}]")
_PAIR = lazy_regex(
    rb"[\s|*>-]*(?:--)?['\"]?(?P<key>[A-Za-z_][\w./-]*)['\"]?\s*(?:=>|->|[:=|\t]|\s{2,}|\.{3,}\s)\s*(?P<value>.*)"
)
_LONGEST = 60  # lines of a block to either side
_SHORTEST = 3
_WORDY = 5


def is_printed(line: bytes) -> bool:
    """Whether a line prints a configuration: many names with values in one pair of brackets."""
    return _CALL.search(line) is not None or (
        _DICT.search(line) is not None and _WORD.search(line) is not None
    )


def is_wordy(line: bytes) -> bool:
    """Whether many values of a printed dict are words, as those of a configuration are."""
    return len(_WORD.findall(line)) >= _WORDY


def within(literals: Sequence[bytes]) -> frozenset[int]:
    """The values, by their number, that stand inside `"config": {...}` or `Namespace(...)` of a longer line."""
    inside, depth = set[int](), 0
    for at, text in enumerate(literals):
        opened = _OPENS.search(text) if not depth else None
        if opened:
            depth, text = 1, text[opened.end() :]
        for bracket in _BRACKETS.findall(text) if depth else ():
            depth += 1 if bracket in b"({" else -1
            if not depth:
                break
        if depth:
            inside.add(at)
    return frozenset(inside)


def in_block(lines: Sequence[bytes], number: int) -> bool:
    """Whether the line stands among pairs of keys and values of which one is a hyperparameter."""
    if not _PAIR.fullmatch(lines[number]):
        return False
    first = last = number
    while first and number - first < _LONGEST and _PAIR.fullmatch(lines[first - 1]):
        first -= 1
    while last + 1 < len(lines) and last - number < _LONGEST and _PAIR.fullmatch(lines[last + 1]):
        last += 1
    keys = [pair["key"] for line in lines[first : last + 1] if (pair := _PAIR.fullmatch(line))]
    return len(keys) >= _SHORTEST and any(is_hyperparameter(key.decode(errors="replace")) for key in keys)
