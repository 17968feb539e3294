"""Lines that are equal but for their digits have one shape, which is learned from one of them."""

from __future__ import annotations

import re

import pytest

from gputel.analysis.logs import lines
from gputel.analysis.logs.names import Vocabulary
from gputel.analysis.logs.numpy_engine.shapes import NOTHING, ONE_BY_ONE, Shapes, group_by_shape
from gputel.analysis.logs.patterns import Field, Pairs, Pattern

PAIRS = Pairs(re.compile(rb"(?P<key>[A-Za-z_]\w*): *(?P<value>[^|\s(]+)"), Vocabulary())


def shapes_for(regex: bytes = rb"^", pairs: Pairs | None = PAIRS, **fields: Field) -> Shapes:
    return Shapes((Pattern("p", "train", re.compile(regex), b"loss", fields, pairs),))


@pytest.mark.parametrize("count", [3, 40], ids=["looked up one by one", "compared together"])
def test_lines_that_differ_in_digits_have_one_shape(count: int) -> None:
    data = b"".join(b"loss: %03d of %d\nother: %03d\n" % (i, i % 10, i) for i in range(count)) + b" " * 64
    numbers = group_by_shape(data, lines.starts(data), shapes_for())
    assert numbers[0] != numbers[1]
    assert numbers.tolist()[:-1] == numbers.tolist()[:2] * count


def test_line_with_other_digits_in_a_name_is_a_variant() -> None:
    shapes = shapes_for()
    (number,) = shapes.numbers_of([b"loss: 0.0 top0: 0.0"])
    shapes.learn(number, b"loss: 2.5 top1: 0.3")
    assert shapes[number].checks
    assert shapes.variant(b"loss: 2.5 top5: 0.3") != number


def test_line_of_no_pattern_is_nothing_once_learned() -> None:
    shapes = shapes_for()
    (number,) = shapes.numbers_of([b"a line about a 0"])
    shapes.learn(number, b"a line about a 7")
    assert shapes[number].layout == NOTHING


def test_regex_that_sees_digits_leaves_its_lines_to_the_plain_engine() -> None:
    shapes = shapes_for(rb"loss: [1-5]", None)
    (number,) = shapes.numbers_of([b"loss: 0.0"])
    shapes.learn(number, b"loss: 2.5")
    assert shapes[number].layout == ONE_BY_ONE


def test_shapes_with_the_same_fields_share_a_layout() -> None:
    shapes = shapes_for()
    texts = [b"step: 0 loss: 0.0", b"step: 00 loss: 00.0"]
    for number, line in zip(
        shapes.numbers_of(texts), (b"step: 7 loss: 2.5", b"step: 17 loss: 12.5"), strict=True
    ):
        shapes.learn(number, line)
    assert (len(shapes), len(shapes.layouts)) == (2, 1)


def test_forgotten_shapes_are_counted_from_nothing_again() -> None:
    shapes = shapes_for()
    shapes.numbers_of([b"loss: 0", b"loss: 00"])
    shapes.forget()
    assert (len(shapes), shapes.is_full) == (0, False)
