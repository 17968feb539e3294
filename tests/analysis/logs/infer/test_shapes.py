"""Lines fall into shapes by what stands around their values."""

from __future__ import annotations

import pytest

from gputel.analysis.logs import line_prefixes
from gputel.analysis.logs.infer import shapes


def shapes_in(*lines: bytes) -> list[shapes.LineShape]:
    return shapes.line_shapes(lines, line_prefixes.strip_prefixes(lines))


def test_lines_that_differ_in_values_and_padding_have_one_shape() -> None:
    (shape,) = shapes_in(b"step    3 loss  2.5 lr 1e-4", b"step 1200 loss 0.25 lr nan")
    assert (shape.count, shape.rows) == (2, [[b"3", b"2.5", b"1e-4"], [b"1200", b"0.25", b"nan"]])


def test_another_word_is_another_shape() -> None:
    assert [shape.first for shape in shapes_in(b"loss 2.5", b"loss 2.0", b"val loss 2.5")] == [0, 2]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        (b"took 1h 2m 3s at 12:30:05", [b"1h 2m 3s", b"12:30:05"]),
        (b"E01 B0010/0938 loss=2.5", [b"01", b"0010", b"0938", b"2.5"]),
        (b"resnet50 on cuda:0 v1.2.3", []),
        (b"loss=None acc: N/A", [b"None", b"N/A"]),
        (b"81.2k tok/s, 5epoch", [b"81.2", b"5"]),
    ],
)
def test_values_are_numbers_clocks_and_placeholders_and_not_parts_of_words(
    line: bytes, values: list[bytes]
) -> None:
    assert shapes.cut(line)[1] == values


def test_drawn_bar_is_one_sign_however_long() -> None:
    bars = [b"10%|#         | 1/10 loss=2.5", b"90%|######### | 9/10 loss=2.5"]
    (shape,) = shapes_in(*bars)
    assert shape.is_bar


def test_row_between_pipes_is_boxed() -> None:
    (boxed, plain) = shapes_in(b"| loss | 2.5 |", b"loss | 2.5")
    assert (boxed.is_boxed, plain.is_boxed) == (True, False)


@pytest.mark.parametrize(
    ("line", "dated"),
    [
        ("loss 0.5 Time: 02/05/2018--11:41 Frame: 178", {1, 2, 3, 4, 5}),
        ("loss 0.5 on 2018/05/02", {1, 2, 3}),
        ("loss 0.5 sizes 32/64/128", set()),
        ("step 12/31 loss 0.5", set()),
    ],
)
def test_date_between_other_values_is_found_by_its_slashes(line: str, dated: set[int]) -> None:
    (shape,) = shapes.line_shapes([line.encode()], [line.encode()])
    assert shape.dated == dated
