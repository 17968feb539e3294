"""Rich's bars whose figures do not fit the width."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputel.analysis.logs import wrapped_bars
from gputel.analysis.logs.lines import LIMIT, Chunk, Splitter

Read = Callable[[str], Any]
BAR = "Epoch {}/1 ━━━━━━━━━━━━ 8/8 0:00:01 • 0:00:00 9.25it/s train_loss_step:  \n"
REST = [" " * 54 + text + "\n" for text in ("{} val_loss:    ", "{} val_acc:     ", "{}              ")]
LOG = "".join(
    text.format(figure)
    for figures in ((0, 0.75, 0.625, 0.5), (1, 0.5, 0.375, 0.75))
    for text, figure in zip([BAR, *REST], figures, strict=True)
)


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_figures_below_a_bar_belong_to_the_names_before_them(read: Read, ends: str) -> None:
    log = read(LOG.replace("\n", ends))
    assert log.records.select("step", "loss").rows() == [(0, 0.75), (1, 0.5)]
    evaluations = [(0, "val_loss", 0.625), (0, "val_acc", 0.5), (1, "val_loss", 0.375), (1, "val_acc", 0.75)]
    assert log.evals.select("step", "name", "value").rows() == evaluations


def test_a_log_reads_the_same_in_pieces() -> None:
    data = LOG.encode()
    whole, *pieces = [
        b"".join(wrapped_bars.joined(chunk).data for chunk in _chunks(data, size))
        for size in (len(data), 1, 7, 90, 200)
    ]
    assert pieces == [whole] * len(pieces)


def _chunks(data: bytes, size: int) -> list[Chunk]:
    splitter = Splitter()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    chunks = [chunk for piece in pieces for chunk in splitter.feed(piece)]
    assert splitter.next_line == splitter.lines + 1
    return [*chunks, *splitter.finish()]


def _joined(text: str) -> list[str]:
    return wrapped_bars.joined(Chunk(text.encode(), 1, None)).data.decode().splitlines()


def test_lines_keep_their_numbers() -> None:
    chunk = wrapped_bars.joined(Chunk((LOG + "done\n").encode(), 1, None))
    assert chunk.numbers is not None
    assert chunk.numbers.tolist()[:3] == [1, 5, 9]


def test_a_word_longer_than_its_column_goes_on_below() -> None:
    text = "Epoch 0/1 ━━━━━ 8/8 0:00:01 • 0:00:00 9.25it/s train/mean_lo\n" + " " * 47 + "ss: 0.5      \n"
    assert _joined(text) == ["Epoch 0/1 ━━━━━ 8/8 0:00:01 • 0:00:00 9.25it/s train/mean_loss: 0.5"]


def test_text_right_behind_the_last_figure_is_a_line_of_its_own() -> None:
    text = (
        "Epoch 0/1 ━━━━━ 8/8 0:00:01 • 0:00:00 9.25it/s loss:  \n"
        + " " * 47
        + "0.5    New best score: 0.25\n"
    )
    assert _joined(text) == [
        "Epoch 0/1 ━━━━━ 8/8 0:00:01 • 0:00:00 9.25it/s loss: 0.5",
        "New best score: 0.25",
    ]


@pytest.mark.parametrize(
    "below",
    [
        pytest.param(" " * 90 + "0.5\n", id="right of the bar's end"),
        pytest.param("    0.5\n", id="left of its figures"),
        pytest.param("\n" + " " * 47 + "0.5\n", id="behind an empty line"),
    ],
)
def test_other_indented_lines_are_no_part_of_a_bar(below: str) -> None:
    bar = "Epoch 0/1 ━━━━━ 8/8 0:00:01 • 0:00:00 9.25it/s loss: 0.25"
    assert _joined(f"{bar}\n{below}")[0] == bar


def test_what_waits_for_the_rest_of_a_bar_is_bounded() -> None:
    splitter = Splitter()
    first = BAR.encode() + b"".join(b" " * 54 + b"%d\n" % at for at in range(LIMIT // 54))
    assert [len(chunk.data) for chunk in splitter.feed(first)] == [len(first)]
    assert [*splitter.feed(BAR.encode())] == []
    text = b"".join(chunk.data for chunk in [*splitter.feed(b"x" * (2 * LIMIT)), *splitter.finish()])
    assert text.startswith(BAR.encode() + b"xxx")
