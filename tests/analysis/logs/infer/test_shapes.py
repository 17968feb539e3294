"""Lines fall into shapes by what stands around their values, once prefixes are taken off."""

from __future__ import annotations

import pytest

from gputel.analysis.logs.infer import shapes


def shapes_in(*lines: bytes) -> list[shapes.LineShape]:
    return shapes.line_shapes(lines, shapes.strip_prefixes(lines))


@pytest.mark.parametrize(
    "prefix",
    [
        b"2024-03-01 10:00:07,123 INFO train.py:31 - ",
        b"[rank0]: ",
        b"I0301 10:00:07.123456 1234 solver.cpp:239] ",
        b"(pid=123, ip=10.0.0.1) ",
        b"[2024-03-01 10:00:07] [INFO] ",
    ],
)
def test_prefixes_of_loggers_are_taken_off(prefix: bytes) -> None:
    assert shapes.strip_prefixes([prefix + b"step 3 loss 2.5"]) == [b"step 3 loss 2.5"]


def test_host_on_most_lines_is_a_prefix_and_a_counter_is_none() -> None:
    hosts = [b"node-%d: loss %d.5" % (i % 2, i) for i in range(12)]
    counters = [b"%d: loss %d.5" % (i, i) for i in range(12)]
    assert shapes.strip_prefixes(hosts)[3] == b"loss 3.5"
    assert shapes.strip_prefixes(counters) == counters


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


def test_bar_before_a_line_that_says_its_place_is_a_prefix() -> None:
    bar = "Validation: |          | 0/? [00:00<?, ?it/s]"
    lines = [
        f"{bar}Epoch 3: loss 4.5",
        f"{bar[:-1]}, loss=4.5]",
        "Epoch 3: 45%|####  | 45/100 [00:01<00:02, 9it/s] loss 4.5",
    ]
    bare = shapes.strip_prefixes([line.encode() for line in lines])
    assert bare == [b"Epoch 3: loss 4.5", *(line.encode() for line in lines[1:])]
