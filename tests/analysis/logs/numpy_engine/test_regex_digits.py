"""What a regex sees of the digits of a line."""

from __future__ import annotations

import random
import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.logs import formats
from gputel.analysis.logs.numpy_engine.regex_digits import names_no_digit, relaxed, sight, sight_of


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


@pytest.mark.parametrize(
    ("regex", "line"),
    [
        (rb"train=(?:false|0)(?![\w.])", b"train=3"),
        (rb"\[ *(\d+)/ *\1\]", b"[ 1/2]"),
        (rb"step=(?!0,)\d+,", b"step=0,"),
        (rb"(?<!1)x[^2]", b"1x2"),
        (rb"(?:(1)|2)(?(1)a|b)", b"3b"),
    ],
)
def test_relaxed_regex_takes_any_digit_for_another(regex: bytes, line: bytes) -> None:
    found = relaxed(re.compile(regex))
    assert found is not None
    assert found.search(line)


def test_relaxed_regex_still_needs_its_words() -> None:
    found = relaxed(re.compile(rb"train=(?:false|0)(?![\w.])"))
    assert found is not None
    assert not found.search(b"step=0 loss=2.5")


@given(
    st.text(alphabet=r"ab01\d[]{}(),^$?+*-P=<>|:", max_size=24).map(str.encode),
    st.text(alphabet="ab019,-", max_size=12).map(str.encode),
    st.randoms(use_true_random=False),
)
def test_relaxed_regex_matches_every_line_of_the_regex_with_any_digits(
    source: bytes, line: bytes, rng: random.Random
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            regex = re.compile(source)
        except (re.error, OverflowError):
            return
        found = relaxed(regex)
    if found is not None and regex.search(line):
        assert found.search(re.sub(rb"\d", lambda _: b"%d" % rng.randrange(10), line))
