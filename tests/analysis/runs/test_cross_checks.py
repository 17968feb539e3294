"""Figures that a run has from two sources: those that contradict each other are doubts, all others are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.runs import read_run
from gputel.analysis.runs.cross_checks import PAIRS, Figure, Pair, cross_checks
from gputel.analysis.runs.log_doubts import log_doubts


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.what}-{pair.one}")
def test_figures_that_differ_by_less_than_their_ranges_are_no_doubt(pair: Pair) -> None:
    other = Figure(400.0)
    assert pair.doubt({pair.one: Figure(400.0 * pair.high), pair.other: other}) is None
    assert pair.doubt({pair.one: Figure(410.0 * pair.high, 25.0), pair.other: other}) is None
    assert pair.doubt({pair.one: None, pair.other: other}) is None
    doubt = pair.doubt({pair.one: Figure(410.0 * pair.high, 1.0), pair.other: other})
    assert doubt is not None
    assert dict(doubt.figures) == {pair.one: 410.0 * pair.high, pair.other: 400.0}
    assert "{" not in doubt.text


def test_two_contradictions_of_one_kind_are_one_doubt() -> None:
    figures = {name: Figure(9.0) for name in ("printed_s", "steps_s")}
    figures |= {name: Figure(1.0) for name in ("stamped_s", "elapsed_s")}
    (doubt,) = cross_checks(figures)
    assert doubt.evidence == "a step takes 9.0 s as printed, and 1.0 s by timestamps"


def stamped(count: int = 60, *, words: str = "") -> list[str]:
    return [
        f"2026-03-01 10:{step // 60:02d}:{step % 60:02d}.000 step {step:5d} | loss: {3 - step / 1000:.4f}"
        f"{words.format(tokens=(step + 1) * 4096)}"
        for step in range(count)
    ]


BATCH = "Total batch size 65,536"
HF = [
    f"{{'loss': {3 - n / 100:.2f}, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': {n / 10}}}"
    for n in range(9)
]
HF_END = "{{'train_runtime': 10.0, 'train_steps_per_second': 0.9, 'train_loss': {loss}, 'epoch': 0.9}}"


@pytest.mark.parametrize(
    ("lines", "kind", "words"),
    [
        (
            [BATCH, *stamped(words=" | tokens: {tokens:,}")],
            "batch",
            "the token count grows by 4,096",
        ),
        (
            [*stamped(), "2026-03-01 10:01:00.000 Total training time: 90.00m"],
            "runtime",
            "a training time of 1 h 30 min, and its timestamps cover 59.0 s",
        ),
        ([*HF, HF_END.format(loss=29.6)], "mean-loss", "a mean training loss of 29.6"),
        (
            ["World size: 2", *(f"[rank{n % 4}]: {line}" for n, line in enumerate(stamped()))],
            "ranks",
            "4 ranks print, and the log says that there are 2",
        ),
        (["Starting training from step 0 to 40", *stamped()], "steps", "to step 59, and announces 40 steps"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_log_that_contradicts_itself_says_so(tmp_path: Path, lines: list[str], kind: str, words: str) -> None:
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    doubts = {doubt.what: doubt.text for doubt in log_doubts(read_run(path))}
    assert words in doubts[kind]


@pytest.mark.parametrize(
    "lines",
    [
        stamped(),
        [*stamped(), "2026-03-01 10:01:00.000 Total training time: 0.98m"],
        [*HF, HF_END.format(loss=2.96)],
        [
            *(line.replace("'loss': ", "'loss': 1") for line in HF),
            HF_END.format(loss=12.96),
            *HF,
            HF_END.format(loss=2.96),
        ],
        ["World size: 4", *(f"[rank{n % 4}]: {line}" for n, line in enumerate(stamped()))],
        ["Starting training from step 0 to 60", *stamped()],
        [BATCH.replace("65,536", "4,096"), *stamped(words=" | tokens: {tokens:,}")],
    ],
    ids=["bare", "total time", "mean loss", "two trainings", "ranks", "steps", "tokens"],
)
def test_log_whose_two_sources_agree_has_no_doubt(tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    assert log_doubts(read_run(path)) == ()
