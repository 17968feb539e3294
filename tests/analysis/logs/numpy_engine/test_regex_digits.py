"""What a regex sees of the digits of a line."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.logs import formats
from gputel.analysis.logs.numpy_engine.regex_digits import names_no_digit, sight, sight_of


@pytest.mark.parametrize(
    ("regex", "seen"),
    [
        (rb"step (\d+)/(\d+) \(([\d.]+)%\)", "blind"),
        (rb"\d{1,3}(?:,\d{3})+(?!\d)|[^\s|]+", "blind"),
        (rb"(?i)\bloss\b(?=\s*[:=])", "blind"),
        (rb"(['\"])?x(?(1)y|z)", "blind"),
        (rb"(?:bf16_)?mfu: (\S+)", "after letters"),
        (rb"\[rank[0-3]\]", "after letters"),
        (rb"loss 8", "sees"),
        (rb"[1-5]", "sees"),
        (rb"[^0]", "sees"),
        (rb"(\d)\1", "sees"),
        (rb"a0?", "sees"),
    ],
)
def test_sight_says_what_a_regex_sees_of_digits(regex: bytes, seen: str) -> None:
    assert sight(re.compile(regex)) == seen


def test_regex_that_names_no_digit_is_blind() -> None:
    named = [
        regex.pattern
        for pattern in formats.patterns(formats.shipped())
        for regex in (pattern.regex, pattern.looks, pattern.pairs and pattern.pairs.regex)
        if regex and names_no_digit(regex.pattern)
    ]
    assert named
    assert {sight_of(source) for source in named} == {"blind"}


@given(st.text(alphabet=r"ab01\d[]{}(),^$?+*-P=<>|:", max_size=24).map(str.encode))
def test_regex_that_names_no_digit_is_blind_however_it_is_written(source: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what may mean something else in a later Python
        try:
            re.compile(source)
        except (re.error, OverflowError):
            return
        assert not names_no_digit(source) or sight_of(source) == "blind"
