"""Styles of `name value` pairs, and regexes that are compiled when they are first used."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

from gputel.analysis.logs.patterns import Texts, any_of, lazy_regex, pair_style


def pairs(style: str, line: bytes) -> list[tuple[bytes, bytes]]:
    return [(pair["key"], pair["value"].strip()) for pair in pair_style(style).finditer(line)]


@pytest.mark.parametrize(
    ("style", "line", "expected"),
    [
        ("bars", b"| lm loss: 2.2E+00 | norm:15.4 |", [(b"lm loss", b"2.2E+00"), (b"norm", b"15.4")]),
        ("commas", b"loss 10.97, mfu -1%", [(b"loss", b"10.97"), (b"mfu", b"-1%")]),
        ("dashes", b"3s - loss: 1.7 - acc: 0.5", [(b"loss", b"1.7"), (b"acc", b"0.5")]),
        ("words", b"step=3 loss: 2.1 at 5", [(b"step", b"3"), (b"loss", b"2.1")]),
        ("equals", b'step=3 msg="a b" loss=2.1', [(b"step", b"3"), (b"msg", b'"a b"'), (b"loss", b"2.1")]),
        ("columns", b"lr: 1.0e-03  max mem: 3524", [(b"lr", b"1.0e-03"), (b"max mem", b"3524")]),
        ("quoted", b"{'loss': 2.25, \"f1\": \"0.5\"}", [(b"loss", b"2.25"), (b"f1", b"0.5")]),
    ],
)  # fmt: skip
def test_style_finds_its_pairs(style: str, line: bytes, expected: list[tuple[bytes, bytes]]) -> None:
    assert pairs(style, line) == expected


def test_second_number_of_a_pair_stands_in_brackets() -> None:
    (pair,) = pair_style("words").finditer(b"loss: 6.85 (6.94)")
    assert pair["also"] == b"6.94"


@pytest.mark.parametrize("style", ["bars", "commas", "columns", "equals", "words", "quoted", "dashes"])
def test_no_style_takes_long_for_a_long_line(style: str) -> None:
    """It reads 20,000 words at once; a style that went back over them would not come to an end."""
    assert len(pairs(style, b"word " * 20_000)) <= 1


def test_lazy_regex_compiles_when_it_is_used_and_can_be_pickled() -> None:
    with pytest.raises(re.error):
        lazy_regex(rb"(").search(b"x")
    regex = pickle.loads(pickle.dumps(lazy_regex(rb"l(oss)", re.IGNORECASE)))
    assert regex.search(b"LOSS").group(1) == b"OSS"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a loss", "loss"),
        ("load it", "load"),
        ("^c", "^c"),
        ("acc", None),
        ("the accuracy", "accuracy"),
        ("", None),
    ],
)
def test_any_of_alternatives_that_share_a_first_byte_is_found(text: str, found: str | None) -> None:
    regex = re.compile(any_of([b"loss", rb"\^c", b"load", rb"accuracy(?<!\waccuracy)"]))
    match = regex.search(text.encode())
    assert (match and match.group().decode()) == found
    assert regex.search(b"inaccuracy") is None


def test_texts_know_which_are_missing() -> None:
    texts = Texts(b"abcdef", np.array([0, -1, 3]), np.array([2, -1, 6]))
    assert (list(texts), len(texts), texts.present.tolist()) == (
        [b"ab", None, b"def"],
        3,
        [True, False, True],
    )
    assert list(texts.take(slice(1, 3))) == [None, b"def"]
