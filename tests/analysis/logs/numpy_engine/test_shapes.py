"""Lines that are equal but for their digits have one shape, which is learned from one of them."""

from __future__ import annotations

import re

import pytest

from gputel.analysis.logs import formats, lines, regex_engine
from gputel.analysis.logs.formats import Format
from gputel.analysis.logs.names import Vocabulary
from gputel.analysis.logs.numpy_engine.grouping import group_by_shape
from gputel.analysis.logs.numpy_engine.numbers import blank
from gputel.analysis.logs.numpy_engine.shapes import NOTHING, ONE_BY_ONE, Shapes
from gputel.analysis.logs.patterns import Field, Pairs, Pattern

PAIRS = Pairs(re.compile(rb"(?P<key>[A-Za-z_]\w*): *(?P<value>[^|\s(]+)"), Vocabulary())


SHIPPED = formats.shipped()
# A digit within a name, behind neither a letter nor an @, and DeepSpeed's first steps: few lines, read one by one.
APART = re.compile(rb"recall@thr=0\.5|\(group \d\)|step=\d, skipped")


def shapes_for(regex: bytes = rb"^", pairs: Pairs | None = PAIRS, **fields: Field) -> Shapes:
    return Shapes((Pattern("p", "train", re.compile(regex), b"loss", fields, pairs),))


@pytest.mark.parametrize("count", [3, 40], ids=["looked up one by one", "compared together"])
def test_lines_that_differ_in_digits_have_one_shape(count: int) -> None:
    data = b"".join(b"loss: %03d of %d\nother: %03d\n" % (i, i % 10, i) for i in range(count)) + b" " * 64
    starts = lines.starts(data)
    numbers = group_by_shape(data, starts, lines.ends(data, starts), shapes_for())
    assert numbers[0] != numbers[1]
    assert numbers.tolist()[:-1] == numbers.tolist()[:2] * count


def test_line_that_ends_like_the_room_behind_another_has_a_shape_of_its_own() -> None:
    """A blanked slash is the byte that pads shorter lines."""
    data = b"".join(b"%d/%s\n\n" % (i % 10, b"/" * (i % 3)) for i in range(60)) + b" " * 64
    starts, shapes = lines.starts(data), shapes_for()
    for _ in range(2):  # looked up, and then known
        numbers = group_by_shape(data, starts, lines.ends(data, starts), shapes).tolist()[:-1]
        assert numbers == [numbers[0], numbers[1], numbers[2], numbers[1], numbers[4], numbers[1]] * 20
        assert len({*numbers}) == 4


def test_lines_of_more_shapes_than_are_remembered_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputel.analysis.logs.numpy_engine.known_lines._BITS", 3)
    texts = [b"loss: 1%s.5 of %s" % (b"0" * (i % 7), b"9" * (i % 11)) for i in range(400)]
    data = b"\n".join(texts) + b"\n" + b" " * 64
    starts, shapes = lines.starts(data), shapes_for()
    for _ in range(3):
        numbers = group_by_shape(data, starts, lines.ends(data, starts), shapes).tolist()[:-1]
        assert numbers == shapes.numbers_of([blank(text) for text in texts])


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


@pytest.mark.parametrize("known", SHIPPED, ids=lambda known: str(known.name))
def test_records_of_shipped_formats_are_read_in_bulk(known: Format) -> None:
    """Among the patterns of all others, of which one that sees digits would make a log a hundred times as slow."""
    patterns = formats.patterns(SHIPPED)
    for line in b"\n".join(sample["text"].encode() for sample in known.samples).split(b"\n"):
        match = regex_engine.match(line, patterns)
        if isinstance(match, regex_engine.Match) and match.pattern.role in ("train", "part", "bar"):
            shapes = Shapes(patterns)
            (number,) = shapes.numbers_of([blank(line)])
            shapes.learn(number, line)
            assert (shapes[number].layout != ONE_BY_ONE) or APART.search(line), line


def test_pattern_that_sees_digits_and_is_of_other_lines_does_not_slow_these() -> None:
    seeing = Pattern("q", "eval", re.compile(rb"train=(?:false|0)\b.*loss: (?P<v>\S+)"), b"loss")
    patterns = (seeing, Pattern("p", "train", re.compile(rb"^"), b"loss", {}, PAIRS))
    for text, slow in ((b"step: 17 loss: 2.5", False), (b"step: 17 train=1 loss: 2.5", True)):
        shapes = Shapes(patterns)
        (number,) = shapes.numbers_of([blank(text)])
        shapes.learn(number, text)
        assert (shapes[number].layout == ONE_BY_ONE) == slow


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
