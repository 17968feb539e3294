"""What stands before a record is taken off: timestamps, ranks, levels, hosts, bars."""

from __future__ import annotations

import pytest

from gputel.analysis.logs.line_prefixes import strip_prefixes


@pytest.mark.parametrize(
    "prefix",
    [
        b"2024-03-01 10:00:07,123 INFO train.py:31 - ",
        b"[rank0]: ",
        b"I0301 10:00:07.123456 1234 solver.cpp:239] ",
        b"E0000 00:00:1742936983.819215    1871 cuda_dnn.cc:8310] ",
        b"(pid=123, ip=10.0.0.1) ",
        b"[2024-03-01 10:00:07] [INFO] ",
        b"[03.01.24|10:00:07] ",
        b"[2024-03-01 10:00:07s] ",
        b"[10:00:07s] ",
        "2024年03月01日 10:00:07 ".encode(),
        "[2024年3月1日 10时00分07秒] ".encode(),
        "2024년 03월 01일 10:00:07 - ".encode(),
    ],
)
def test_prefixes_of_loggers_are_taken_off(prefix: bytes) -> None:
    assert strip_prefixes([prefix + b"step 3 loss 2.5"]) == [b"step 3 loss 2.5"]


def test_host_on_most_lines_is_a_prefix_and_a_counter_is_none() -> None:
    hosts = [b"node-%d: loss %d.5" % (i % 2, i) for i in range(12)]
    counters = [b"%d: loss %d.5" % (i, i) for i in range(12)]
    assert strip_prefixes(hosts)[3] == b"loss 3.5"
    assert strip_prefixes(counters) == counters


def test_epoch_of_one_letter_is_no_host() -> None:
    """Without it, steps that begin again with each epoch look like restarts."""
    lines = [b"[E%d] step %d loss 2.5" % (i // 4, i % 4) for i in range(12)]
    assert strip_prefixes(lines) == lines


def test_bracket_that_never_closes_takes_no_time_to_give_up() -> None:
    line = b"[[" + b"0.5e-3, name " * 20_000
    assert strip_prefixes([line]) == [line]


def test_bar_before_a_line_that_says_its_place_is_a_prefix() -> None:
    bar = "Validation: |          | 0/? [00:00<?, ?it/s]"
    lines = [
        f"{bar}Epoch 3: loss 4.5",
        f"{bar[:-1]}, loss=4.5]",
        "Epoch 3: 45%|####  | 45/100 [00:01<00:02, 9it/s] loss 4.5",
    ]
    bare = strip_prefixes([line.encode() for line in lines])
    assert bare == [b"Epoch 3: loss 4.5", *(line.encode() for line in lines[1:])]


@pytest.mark.parametrize("mark", [b"## ", b"% ", b"    ## ", b"// "])
def test_sign_of_a_comment_on_all_lines_is_a_prefix(mark: bytes) -> None:
    lines = [b"Iter  Loss", b"   1  2.5", b"   2  2.25"]
    assert strip_prefixes([mark + line for line in lines]) == [line.lstrip() for line in lines]


def test_sign_of_a_comment_on_some_lines_is_none() -> None:
    lines = [b"# epoch loss", b"1 2.5", b"2 2.25"]
    assert strip_prefixes(lines) == lines


def test_string_that_r_prints_has_an_index_before_it() -> None:
    assert strip_prefixes([b'[1] "epoch 3 loss 2.5"', b"[1] train-rmse:2.5"]) == [
        b'epoch 3 loss 2.5"',
        b"[1] train-rmse:2.5",
    ]
