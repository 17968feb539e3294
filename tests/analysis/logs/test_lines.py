"""Bytes in any pieces become the same clean lines, with the numbers that they have in the file."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.logs import lines
from gputel.analysis.logs.lines import Chunk, Splitter


def split(pieces: list[bytes]) -> list[tuple[int, bytes]]:
    """Each line with its number."""
    splitter = Splitter()
    chunks = [chunk for piece in pieces for chunk in splitter.feed(piece)] + [*splitter.finish()]
    numbered: list[tuple[int, bytes]] = []
    for chunk in chunks:
        rows = chunk.data.removesuffix(b"\n").split(b"\n")
        numbered += zip(chunk.number(np.arange(len(rows))).tolist(), rows, strict=True)
    return numbered


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a\nb\n", [(1, b"a"), (2, b"b")]),
        (b"a\nb", [(1, b"a"), (2, b"b")]),
        (b"a\r\nb\r\n", [(1, b"a"), (2, b"b")]),
        (b"10%\r20%\r30%\nend\n", [(1, b"10%"), (1, b"20%"), (1, b"30%"), (2, b"end")]),
        (b"1/9\x08\x08\x082/9\n", [(1, b"1/9"), (1, b"2/9")]),
        (b"loss 2.5 1/9\x08\x08\x082/9\n", [(1, b"loss 2.5 2/9")]),
        (b"[>...] loss 2.5\x08\x08\x08\x08\x08\x08 1/9\rnext\n", [(1, b"[>...] loss 2.5 1/9"), (1, b"next")]),
        (b"\x1b[32mloss\x1b[0m 2.5\n", [(1, b"loss 2.5")]),
        (b"^[[Bloss 2.5\n", [(1, b"loss 2.5")]),
        (b"lo\x00ss\n", [(1, b"loss")]),
        (b"`step 1 loss 2.5\n`step 2\n", [(1, b" step 1 loss 2.5"), (2, b"`step 2")]),
        (b"`step 1` begins\n", [(1, b"`step 1` begins")]),
        (b"```\nloss 2.5\n", [(1, b"```"), (2, b"loss 2.5")]),
        (
            b"Nov  2 10:00:01 gpu1 python[12]: #033[32mloss#033[0m 2.5#01520%#015\n",
            [(1, b"Nov  2 10:00:01 gpu1 python[12]: loss 2.5#01520%")],
        ),
        (
            b"Nov  2 10:00:01 gpu1 python[12]: 10%#015 20%\nrun #015 starts\n",
            [
                (1, b"Nov  2 10:00:01 gpu1 python[12]: 10%"),
                (1, b" 20%"),
                (2, b"run #015 starts"),
            ],
        ),
    ],
)
def test_lines_are_clean_and_redraws_share_the_number_of_their_line(
    data: bytes, expected: list[tuple[int, bytes]]
) -> None:
    assert split([data]) == expected


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=4))
def test_pieces_give_the_lines_of_the_whole(noise: bytes, cuts: list[int]) -> None:
    data = b"step 1\n" + noise.replace(b"\x1b", b"").replace(b"^", b"") + b"\r5%\rstep 2\n"
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[a:b] for a, b in pairwise(places)]
    assert split(pieces) == split([data])


def test_unterminated_last_line_counts_once() -> None:
    splitter = Splitter()
    assert list(splitter.feed(b"a\nb")) != []
    assert splitter.lines == 2
    list(splitter.finish())
    assert splitter.lines == 2


def test_line_longer_than_the_limit_keeps_its_beginning_and_its_number() -> None:
    long = b"x" * (lines.LIMIT + 500)
    numbered = split([long[:1000], long[1000:] + b"\nnext\n"])
    assert [(number, len(line)) for number, line in numbered] == [(1, lines.LIMIT), (2, 4)]


def test_redraws_below_other_lines_are_read_however_long_their_line_is() -> None:
    """A bar of many redraws is one line for its file, and longer than any record."""
    redraws = [b"%d%%" % share for share in range(lines.LIMIT)]
    data = b"Training\n" + b"\r".join(redraws)
    assert split([data]) == [(1, b"Training"), *((2, redraw) for redraw in redraws)]


def test_line_behind_the_hole_of_a_truncated_log_is_kept() -> None:
    """A log that is truncated while its writer goes on begins with as many NUL bytes as it had before."""
    hole = b"\x00" * (2 * lines.LIMIT)
    expected = [(1, b"step 1"), (2, b"step 2")]
    assert split([hole + b"step 1\nstep 2\n"]) == expected
    assert split([hole[:1000], hole[1000:], b"step 1\nst", b"ep 2\n"]) == expected


def test_redraws_of_an_unfinished_line_are_seen_live_only() -> None:
    for live, seen in ((True, b"10%\n20%\n"), (False, b"")):
        data = b"".join(chunk.data for chunk in Splitter(live=live).feed(b"10%\r20%\r30%"))
        assert data == seen


def test_chunk_is_cut_behind_the_line_of_a_byte() -> None:
    first, second = Chunk(b"a\nbb\nc\n", 7, None).cut(3)
    assert (first.data, second.data) == (b"a\nbb\n", b"c\n")
    assert (first.first, second.first) == (7, 9)


def test_small_chunks_are_joined_and_keep_the_numbers_of_their_lines() -> None:
    kept: list[Chunk] = []
    for chunk in (Chunk(b"a\n", 1, None), Chunk(b"b\n", 2, None), Chunk(b"c\nd\n", 3, np.array([3, 3]))):
        lines.keep(kept, chunk)
    (whole,) = kept
    assert whole.data == b"a\nb\nc\nd\n"
    assert whole.number(np.arange(4)).tolist() == [1, 2, 3, 3]
