"""Evaluations that each record prints until the next one is made."""

from __future__ import annotations

import io

import pytest

from gputel.analysis.logs import files
from gputel.analysis.logs.log import Log


def read(text: str) -> Log:
    return files.stream(io.BytesIO(text.encode()), "a", "a")


def figures(log: Log) -> list[tuple[int, float]]:
    return list(log.evals.filter(name="val_loss").select("step", "value").iter_rows())


def lines(
    losses: list[float], held_out: list[float], line: str = "step {n}: loss {loss:.4f}, val loss {val}"
) -> str:
    pairs = enumerate(zip(losses, held_out, strict=True), start=1)
    return "".join(line.format(n=n, loss=loss, val=val) + "\n" for n, (loss, val) in pairs)


FALLING = [3 - n / 10 for n in range(12)]
HELD_OUT = [3.125] * 4 + [2.875] * 5 + [2.625] * 3


def test_figure_that_records_go_on_printing_is_one_evaluation() -> None:
    assert figures(read(lines(FALLING, HELD_OUT))) == [(1, 3.125), (5, 2.875), (10, 2.625)]


def test_records_that_round_the_line_of_an_evaluation_repeat_it() -> None:
    text = ""
    for n, (loss, val) in enumerate(zip(FALLING, HELD_OUT, strict=True), start=1):
        text += f"step {n}: loss {loss:.4f}, val loss {val + 0.0003:.3f}\n"
        text += f"step {n}: val loss {HELD_OUT[n] + 0.0003:.4f}\n" if n in (4, 9) else ""
    assert figures(read(text)) == [(1, 3.125), (4, 2.8753), (9, 2.6253)]


@pytest.mark.parametrize(
    ("losses", "held_out", "line"),
    [
        ([0.693] * 12, HELD_OUT, "step {n}: loss {loss:.4f}, val loss {val}"),  # the training stands still
        (FALLING, HELD_OUT, "epoch {n}: loss {loss:.4f}, val loss {val}"),  # each epoch evaluates
        (FALLING, [0.5] * 6 + [0.25] * 6, "step {n}: loss {loss:.4f}, val loss {val}"),  # alike by chance
        (
            FALLING,
            [3.125 - n // 2 / 8 for n in range(12)],
            "step {n}: loss {loss:.4f}, val loss {val}",
        ),  # half
    ],
)
def test_others_are_all_kept(losses: list[float], held_out: list[float], line: str) -> None:
    assert [value for _, value in figures(read(lines(losses, held_out, line)))] == held_out


def test_score_that_stays_while_the_loss_beside_it_moves_is_kept() -> None:
    text = "".join(
        f"step {n}: loss {3 - n / 10:.4f}, val loss {3 - n / 9:.4f}, val acc 0.9375\n" for n in range(12)
    )
    assert read(text).evals.height == 24
