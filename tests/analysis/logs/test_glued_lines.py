"""What was printed right behind a bar, which ends without a line feed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gputel.analysis.logs.glued_lines import GluedLines
from gputel.analysis.logs.lines import Splitter
from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]
EPOCHS = range(1, 11)


def bar(count: int, loss: float, total: int = 10) -> str:
    done = 100 * count // total
    return f"\r{done:3d}%|####      | {count}/{total} [00:0{count % 10}<00:05,  9.80it/s, loss={loss:.3f}]"


def training(line: str, behind: str = "") -> str:
    bars = (bar(5, 3.2 / e) + bar(10, 3.1 / e) for e in EPOCHS)
    return "".join(
        drawn + behind + line.format(e=e, t=3.0217 / e, v=3.5 / e, a=0.5 + e / 100)
        for e, drawn in zip(EPOCHS, bars, strict=True)
    )


@pytest.mark.parametrize(
    ("between", "records"), [("\n", 10), ("\\n", 10), ("", 10), (', {"note": "a"}\\\\n', 1), (", ", 1)]
)
def test_objects_with_an_escaped_line_feed_between_them_are_lines(
    between: str, records: int, read: Read
) -> None:
    log = read(between.join(f'{{"step": {e}, "loss": {3 / e:.4f}}}' for e in EPOCHS) + "\n")
    assert log.records["step"].to_list() == [*EPOCHS][:records]


@pytest.mark.parametrize("behind", ["", "\n"])
@pytest.mark.parametrize(
    "line",
    [
        "Epoch {e}/10, Train Loss: {t:.4f}, Val Loss: {v:.4f}\n",
        "Epoch[{e}] - Avg loss: {t:.4f} Avg accuracy: {a:.3f}\n",
        "2024-03-01 10:00:{e:02d},123 - INFO - Epoch {e}: train_loss={t:.4f}, val_loss={v:.4f}\n",
        "Results of epoch {e}: train loss {t:.4f}, val loss {v:.4f}\n",
    ],
)
def test_line_of_an_epoch_reads_the_same_behind_its_bar(line: str, behind: str, read: Read) -> None:
    log = read(training(line, behind))
    assert log.records["step"].to_list() == [*EPOCHS]
    assert log.records["loss"].to_list() == [round(3.0217 / e, 4) for e in EPOCHS]
    assert log.partials.height == 20
    assert not log.doubts


def test_figures_without_a_place_are_of_the_count_of_the_bar(read: Read) -> None:
    text = "".join(
        f"\r{10 * e}%|#         | {e}/10 [00:0{e % 10}<00:05,  1.00s/it]Loss: {3 / e:.3f}\n" for e in EPOCHS
    )
    assert read(text).records["step"].to_list() == [*EPOCHS]


def test_step_that_a_bar_and_the_line_behind_it_give_is_one_record(read: Read) -> None:
    """A bar that is drawn once more below that line adds nothing."""
    text = "".join(
        f"\r1|{e}|Loss: {3.1 / e}: {10 * e}%|# | {e}/10 [00:01<00:00, 9.80it/s]Step {e} | loss:{3.1 / e} lr:0.1\n"
        for e in EPOCHS
    )
    log = read(text + f"\r1|10|Loss: {3.1 / 10}: 100%|##| 10/10 [00:01<00:00, 9.80it/s]\n")
    assert log.records.select("step", "loss", "lr").rows() == [(e, 3.1 / e, 0.1) for e in EPOCHS]


def test_mean_below_the_bar_of_an_epoch_adds_to_its_record(read: Read) -> None:
    text = "".join(
        f"Epoch [{e}/10]: [8/8] 100%|####|, loss={3 / e:.3f} [00:01<00:00]\n"
        f"Training Results - Epoch[{e}] Avg accuracy: {0.5 + e / 100:.2f} Avg loss: {3.1 / e:.2f}\n"
        for e in EPOCHS
    )
    rows = read(text).records.select("step", "loss", "loss_avg").rows()
    assert rows == [(e, round(3 / e, 3), round(3.1 / e, 2)) for e in EPOCHS]


def test_lines_keep_their_numbers() -> None:
    text = f"a\n{bar(10, 2.5)}Epoch 1\nb\n".encode()
    chunk = GluedLines().parted(next(Splitter().feed(text)))
    assert chunk.data.endswith(b"loss=2.500]\nEpoch 1\nb\n")
    assert chunk.number(np.arange(5)).tolist() == [1, 2, 2, 2, 3]


def test_message_behind_a_bar_says_nothing_of_the_bar(read: Read) -> None:
    """A bar that counts over all epochs keeps its count as the step, whichever epoch the message names."""
    message = "INFO:dataset.of_this_project.and_of_images:a new epoch begins. current_epoch: {}, epoch: {}\n"
    text = "".join(bar(e, 3 / e) + message.format(e // 4, e // 4 + 1) * (e % 4 == 0) for e in EPOCHS)
    log = read(text)
    assert log.records["step"].to_list() == [*EPOCHS]
    assert log.records["loss"].to_list() == [round(3 / e, 3) for e in EPOCHS]
