"""Where a record stands: counts with suffixes, bars that name their epoch, and loops that are no training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import gputel


def parsed(folder: Path, lines: Sequence[str]) -> Any:
    path = folder / "train.log"
    path.write_text("\n".join(lines) + "\n")
    return gputel.parse(path)


@pytest.mark.parametrize("place", ["[{k}k/ 75.0k]", "[ {k}k/75.0k]", "iter {k}k/75.0k |", "step {k}K/75K"])
def test_rounded_count_with_a_rounded_total_is_the_step(tmp_path: Path, place: str) -> None:
    lines = [f"{place.format(k=n / 2)} loss: {4 / n:.4f} lr 0.1" for n in range(1, 8)]
    records = parsed(tmp_path, lines).records
    assert records["step"].to_list() == [500 * n for n in range(1, 8)]
    assert records["total_steps"].unique().to_list() == [75000]


def test_rounded_count_that_begins_again_is_no_step(tmp_path: Path) -> None:
    lines = [f"[{n / 2}k/4.0k] loss: {4 / n:.4f}" for _ in range(3) for n in range(1, 8)]
    assert parsed(tmp_path, lines).records["step"].null_count() == 21


def test_small_m_before_tokens_is_million(tmp_path: Path) -> None:
    lines = [f"step {n}00 | loss {4 / n:.4f} | {5.2 * n:.1f}m tokens | took 5 m" for n in range(1, 8)]
    records = parsed(tmp_path, lines).records
    assert records["tokens"][0] == 5_200_000
    assert records["took_min"][0] == 5


@pytest.mark.parametrize("name", ["Fold", "Seed", "Agent", "run"])
def test_number_of_a_fold_beside_an_epoch_is_no_batch(tmp_path: Path, name: str) -> None:
    lines = [
        f"Epoch: {e} {name}: {fold} Loss: {9 / (1 + e + fold):.4f}"
        for fold in range(3)
        for e in range(4)
        for _ in range(3)
    ]
    records = parsed(tmp_path, lines).records
    assert records["step"].to_list() == [e for _ in range(3) for e in range(4) for _ in range(3)]


def test_unknown_counter_beside_an_epoch_is_a_batch(tmp_path: Path) -> None:
    lines = [f"Epoch: {e} chunk: {n} Loss: {9 / (1 + e + n):.4f}" for e in range(4) for n in range(5)]
    assert parsed(tmp_path, lines).records["step"].to_list() == [*range(5)] * 4


@pytest.mark.parametrize("name", ["iter = [{}|40]", "batch [ {}|40]"])
def test_total_stands_in_the_brackets_of_its_count(tmp_path: Path, name: str) -> None:
    lines = [
        f"epoch = {e}, {name.format(n)}, loss = {9 / (40 * e + n):.4f}" for e in (1, 2) for n in range(1, 41)
    ]
    assert parsed(tmp_path, lines).records["step"].to_list() == [*range(1, 81)]


@pytest.mark.parametrize("lead", ["▶ ", "● 10:00:01 ", "├─ ", "│  └── ", "═══ ", "◆ [10:00:01] "])
def test_sign_in_front_of_a_record_draws_no_bar(tmp_path: Path, lead: str) -> None:
    line = "Epoch [{}/2] Iter [{}/10] Loss: {:.4f}"
    lines = [lead + line.format(e, n, 9 / (10 * e + n)) for e in (1, 2) for n in range(1, 11)]
    assert parsed(tmp_path, lines).records["step"].to_list() == [*range(1, 21)]


def test_bar_in_front_of_its_count_is_one_record_for_each_epoch(tmp_path: Path) -> None:
    line = "{} {}/10 epoch {} loss: {:.4f}"
    lines = [line.format("━" * n, n, e, 9 / (10 * e + n)) for e in (1, 2, 3) for n in range(1, 11)]
    assert parsed(tmp_path, lines).records["step"].to_list() == [1, 2, 3]


def test_epoch_that_is_glued_to_its_letter(tmp_path: Path) -> None:
    lines = [
        f"[TRAIN] e{e:03} it {n:04}/0200 loss {4 / (e + n):.4f}" for e in (1, 2) for n in (50, 100, 150, 200)
    ]
    records = parsed(tmp_path, lines).records
    assert records["step"].to_list() == [50, 100, 150, 200, 250, 300, 350, 400]
    assert records["attempt"].unique().to_list() == [1]


def test_errors_with_a_number_keep_their_names(tmp_path: Path) -> None:
    records = parsed(
        tmp_path, [f"step {n} loss {4 / n:.4f} e1: {1 / n:.3f} e2: {2 / n:.3f}" for n in range(1, 8)]
    ).records
    assert (records["e1"][0], records["e2"][0]) == (1.0, 2.0)


@pytest.mark.parametrize("metrics", ["{loss}: {bar}]", ": {bar}, {loss}]"])
def test_bar_behind_an_epoch_in_brackets_gives_a_record_for_each(tmp_path: Path, metrics: str) -> None:
    text = ""
    for epoch in (1, 2, 3):
        for n in range(5):
            bar = f"{25 * n}%|{'█' * n:<4}| {10 * n}/40 [00:0{n}<00:0{4 - n}, 9.0it/s"
            text += f"\r[{epoch}/3] " + metrics.format(bar=bar, loss=f"loss={5 - epoch - n / 10:.2f}")
    run = parsed(tmp_path, [text])
    assert run.records["step"].to_list() == [1, 2, 3]
    assert run.records["loss"].to_list() == [3.6, 2.6, 1.6]


@pytest.mark.parametrize("announced", ["[에폭 {e}] 검증 시작", "検証開始", "开始验证", "Start validation"])
def test_loop_below_the_announcement_of_a_validation_is_no_training(tmp_path: Path, announced: str) -> None:
    lines = []
    for e in (1, 2, 3):
        lines += [f"Epoch {e}", *(f"step {n}/40 loss {4 / (e + n):.4f}" for n in (10, 20, 30, 40))]
        lines += [announced.format(e=e), *(f"step {n}/20 loss {9 / (e + n):.4f}" for n in (5, 10, 15, 20))]
    run = parsed(tmp_path, lines)
    assert run.records["step"].to_list() == [10, 20, 30, 40] * 3
    assert run.evals["name"].to_list() == ["val_loss"] * 3


@pytest.mark.parametrize("time", ["{n}/12 s", "(12/12 s)", "time 12/12 s", "[12.3/12.3 s]"])
def test_time_of_an_epoch_is_no_place_and_ends_no_run(tmp_path: Path, time: str) -> None:
    run = parsed(tmp_path, [f"epoch {n} loss {4 / n:.4f} {time.format(n=n)}" for n in range(1, 13)])
    assert run.records["step"].to_list() == [*range(1, 13)]
    assert "loss_avg" not in run.records.columns or run.records["loss_avg"].null_count() == 12
    assert run.status == "unknown"


def test_count_in_brackets_behind_a_measure_is_no_step(tmp_path: Path) -> None:
    lines = []
    for n in range(10, 80, 10):
        lines += [f"step {n} loss {4 / n:.4f}", f"Test accuracy: {n / 2:.2f}% ({n * 50} of 10000)"]
    assert parsed(tmp_path, lines).evals["step"].to_list() == [*range(10, 80, 10)]


def test_lowest_loss_behind_an_epoch_is_not_minutes(tmp_path: Path) -> None:
    lines = [f"epoch {n} min loss {3 / n:.4f} train loss {4 / n:.4f}" for n in range(1, 8)]
    records = parsed(tmp_path, lines).records
    assert records["step"].to_list() == [*range(1, 8)]
    assert (records["loss"][0], records["min_loss"][0]) == (4.0, 3.0)


@pytest.mark.parametrize(("batch", "step"), [("16", 500), ("{n}", 1)])
def test_size_of_a_batch_beside_a_count_with_its_total_is_no_step(
    tmp_path: Path, batch: str, step: int
) -> None:
    lines = [
        f"[{500 * n:06}/50000] {s} | loss {4 / n:.4f} | batch {batch.format(n=n)}"
        for n, s in enumerate(["CITY", "ROAD", "CITY", "CITY", "ROAD", "ROAD", "CITY"], start=1)
    ]
    steps = parsed(tmp_path, lines).records["step"].to_list()
    assert steps == [step * n for n in range(1, 8)]


@pytest.mark.parametrize(
    ("first", "steps"), [(0, [901, 902, 903, 904]), (500, [501, 502, 503, 504])], ids=["index", "step"]
)
def test_low_step_of_a_later_epoch_alone_is_an_index_in_it(
    tmp_path: Path, first: int, steps: list[int]
) -> None:
    """A log that begins with its second epoch; where the steps are too high for an index, they stand."""
    lines = [f"Epoch [2/2], Step [{first + n}/900], Loss: {4 / n:.4f}" for n in range(1, 5)]
    assert parsed(tmp_path, lines).records["step"].to_list() == steps
