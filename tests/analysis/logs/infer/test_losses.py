"""Parts of a loss keep their names; a total is the loss, whatever it is called and in whatever language."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import gputel
from gputel.analysis.logs.log import Log


def records_of(folder: Path, line: str, **sums: tuple[str, ...]) -> pl.DataFrame:
    """The records of twelve such lines: `{a}` falls from 3, `{b}` from 1, and `sums` are those of others."""
    rows = []
    for n in range(1, 13):
        values = {"a": round(3 / n, 4), "b": round(1 / n + 0.01, 4), "c": round(0.5 + 0.03 * n, 4)}
        values |= {name: round(sum(values[part] for part in parts), 4) for name, parts in sums.items()}
        rows.append(line.format(n=n, **values))
    path = folder / "train.log"
    path.write_text("\n".join(rows) + "\n")
    records: pl.DataFrame = gputel.parse(path).records
    return records


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("step {n} main_loss: {a} aux_loss: {b} lr: 0.001", {"main_loss", "aux_loss"}),
        ("step {n} CrossEntropyLoss: {a} SmoothL1Loss: {b} lr: 0.1", {"Cross_Entropy_Loss", "SmoothL1Loss"}),
        ("ep {n} kd_loss {b} ce_loss {a} lr 0.1", {"kd_loss", "ce_loss"}),
        ("Step {n}: actor loss = {a}, critic loss = {b}, alpha loss = {c}", {"alpha_loss", "actor_loss"}),
        ("轮次 {n} 分类损失: {a} 回归损失: {b} 学习率: 0.001", {"分类_loss", "回归_loss"}),
        ("에폭 {n} | 분류 손실: {a} | 회귀 손실: {b}", {"분류_loss", "회귀_loss"}),
        ("Epoche {n}: Bildverlust {a}, Textverlust {b}, Verlustskala 1.5, lr 0.1", {"Bildverlust"}),
    ],
)
def test_parts_alone_are_no_loss(tmp_path: Path, line: str, parts: set[str]) -> None:
    records = records_of(tmp_path, line)
    assert "loss" not in records.columns or records["loss"].null_count() == 12
    assert parts <= {*records.columns}


@pytest.mark.parametrize(
    "total",
    [
        *(
            "总损失",
            "總損失",
            "合計",
            "合計損失",
            "総損失",
            "총 손실",
            "합계",
            "общие потери",
            "Gesamtverlust",
        ),
        *(
            "perte totale",
            "pérdida total",
            "sum",
            "all",
            "overall",
            "combined",
            "losses",
            "loss_sum",
            "total",
        ),
    ],
)
def test_total_beside_parts_is_the_loss(tmp_path: Path, total: str) -> None:
    line = f"epoch {{n}} cls_loss: {{a}} 回归损失: {{b}} {total}: {{whole}}"
    records = records_of(tmp_path, line, whole=("a", "b"))
    assert records["loss"][:2].to_list() == [4.01, 2.01]
    assert records["回归_loss"][0] == 1.01


def test_sum_of_parts_without_the_word_loss_is_the_loss(tmp_path: Path) -> None:
    records = records_of(tmp_path, "epoch {n} lr 0.1 seg: {a} box: {b} cls: {c} sum: {d}", d=("b", "c"))
    assert records["loss"][0] == 1.54


@pytest.mark.parametrize("name", ["all", "overall", "combined", "sum"])
def test_measure_of_all_classes_is_no_loss(tmp_path: Path, name: str) -> None:
    records = records_of(tmp_path, f"epoch {{n}} lr: 0.1 box: {{c}} cls: {{b}} {name}: {{a}}")
    assert "loss" not in records.columns or records["loss"].null_count() == 12
    assert records[name][0] == 3.0


def test_figure_below_a_part_is_no_total_of_losses(tmp_path: Path) -> None:
    records = records_of(tmp_path, "epoch {n} cls_loss: {a} box_loss: {a} overall: {z}", z=())
    assert "loss" not in records.columns or records["loss"].null_count() == 12


@pytest.mark.parametrize(
    "name",
    [
        *("mse_loss", "cross entropy loss", "policy_loss", "main_loss", "main/loss", "contrastive loss"),
        *("交叉熵损失", "クロスエントロピー損失", "损失为", "本轮损失", "ロスは", "손실이"),
    ],
)
def test_only_loss_by_another_name_is_the_loss(tmp_path: Path, name: str) -> None:
    records = records_of(tmp_path, f"epoch {{n}} {name}: {{a}} acc: {{c}}")
    assert records["loss"][:2].to_list() == [3.0, 1.5]
    assert records["acc"][0] == 0.53


def test_loss_of_a_depth_is_read_with_its_line(tmp_path: Path) -> None:
    records = records_of(tmp_path, "epoch {n} loss: {a} depth: {b}")
    assert records["loss"][0] == 3.0
    assert records["depth_"][0] == 1.01


@pytest.mark.parametrize(
    "losses",
    [
        *("avg loss: {a} (cur {c})", "avg_loss={a} (current: {c})", "mean loss {a} (batch {c})"),
        *("loss (cur/avg): {c}/{a}", "loss avg/cur {a} / {c}", "loss_ema: {a} loss_raw: {c}"),
        *("Avg. Loss: {a} Inst. Loss: {c}", "loss: {c} [{a}]", "loss: {c} [avg: {a}]"),
        *("平均损失: {a} (当前 {c})", "평균 손실: {a} (현재: {c})", "当前损失: {c} 平均损失: {a}"),
    ],
)
def test_loss_is_the_current_one_beside_an_average(tmp_path: Path, losses: str) -> None:
    currents = [2.5, 2.625, 2.125, 1.75, 1.875]
    means = [2.5, 2.5625, 2.375, 2.25, 2.125]
    rows = [
        f"step {n} " + losses.format(c=c, a=a) for n, (c, a) in enumerate(zip(currents, means, strict=True))
    ]
    path = tmp_path / "train.log"
    path.write_text("\n".join(rows) + "\n")
    records = gputel.parse(path).records
    assert records["loss"].to_list() == currents
    assert records["loss_avg"].to_list() == means


def test_lowest_loss_in_brackets_is_no_average(tmp_path: Path) -> None:
    rows = [f"step {n} loss: {3 - 0.1 * n + 0.2 * (n % 2):.3f} [{3 - 0.1 * n:.3f}]" for n in range(12)]
    path = tmp_path / "train.log"
    path.write_text("\n".join(rows) + "\n")
    records = gputel.parse(path).records
    assert records["loss"][1] == 3.1
    assert "loss_avg" not in records.columns or records["loss_avg"].null_count() == 12


def test_number_of_a_batch_in_brackets_is_no_loss(tmp_path: Path) -> None:
    records = records_of(tmp_path, "epoch 1 avg loss {a} (batch {n})")
    assert records["loss"][:2].to_list() == [3.0, 1.5]


def test_pair_of_a_training_and_a_validation_loss(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("".join(f"epoch {n} train/val loss: {3 / n:.3f}/{4 / n:.3f}\n" for n in range(1, 7)))
    run = gputel.parse(path)
    assert run.records["loss"][0] == 3.0
    assert run.evals["value"].to_list() == [4.0, 2.0, 1.333, 1.0, 0.8, 0.667]


@pytest.mark.parametrize(
    "lowest",
    [
        *("val-loss-best={b}", "val_loss_min {b}", "best_val_loss so far {b}", "lowest loss so far: {b}"),
        *("min_loss: {b}", "(best: {b} @ 12)", "最小损失 {b}", "최소 손실 {b}", "kleinster Verlust {b}"),
    ],
)
def test_lowest_loss_so_far_is_neither_loss_nor_evaluation(tmp_path: Path, lowest: str) -> None:
    path = tmp_path / "train.log"
    lines = (f"epoch {n} loss {3 / n:.4f} {lowest.format(b=round(2 / n, 4))}" for n in range(1, 9))
    path.write_text("\n".join(lines) + "\n")
    run = gputel.parse(path)
    assert run.records["loss"][:2].to_list() == [3.0, 1.5]
    assert run.evals.height == 0


@pytest.mark.parametrize("lowest", ["lowest_loss", "min loss", "最小损失", "best loss"])
def test_lowest_loss_alone_is_no_loss(tmp_path: Path, lowest: str) -> None:
    records = records_of(tmp_path, f"epoch {{n}} {lowest} {{a}} lr 0.{{n}}")
    assert records["step"].to_list() == [*range(1, 13)]
    assert "loss" not in records.columns or records["loss"].null_count() == 12


def test_validation_loss_beside_the_lowest_one_is_the_evaluation(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    lines = (
        f"epoch={n} loss={3 / n:.4f} val-loss={4 / n:.4f} val-loss-best={2 / n:.4f}" for n in range(1, 9)
    )
    path.write_text("\n".join(lines) + "\n")
    assert gputel.parse(path).evals["name"].unique().to_list() == ["val_loss"]


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("epoch {n} cls_loss={a} 总loss={d} 验证loss={c}", "cls_loss"),
        ("epoch {n}, 边框损失:{a}, 类别损失:{b}, 总loss:{d}", "边框_loss"),
        ("Эпоха {n}: потери рамок {a}, потери классов {b}, всего {d}", "loss_рамок"),
        ("Época {n} - perda_caixa: {a} - perda_classe: {b} - perda_total: {d}", "loss_caixa"),
        ("step {n} lr 0.1 mel: {a}, post: {b}, total: {d}", "mel"),
    ],
)
def test_total_in_words_of_two_languages(tmp_path: Path, line: str, part: str) -> None:
    records = records_of(tmp_path, line, d=("a", "b"))
    assert (records["loss"][0], records[part][0]) == (4.01, 3.0)


def test_total_of_other_figures_is_no_loss(tmp_path: Path) -> None:
    records = records_of(tmp_path, "epoch {n} lr 0.1 top: {a} mid: {b} total: {c}")
    assert "loss" not in records.columns or records["loss"].null_count() == 12


@pytest.mark.parametrize(
    ("total", "parts"),
    [
        ("avg total loss", ("diffusion loss", "recon loss")),
        ("average total loss", ("diffusion loss",)),
        ("平均总损失", ("扩散损失", "重建损失")),
        ("平均总损失", ("扩散损失",)),
    ],
)
def test_average_of_the_total_beside_parts_is_the_loss(
    total: str, parts: tuple[str, ...], read: Callable[[str], Log]
) -> None:
    lines = (
        f"Epoch {e}/9 | {total}: {3 / e:.4f}" + "".join(f" | {part}: {1 / e:.4f}" for part in parts) + "\n"
        for e in range(1, 10)
    )
    assert read("".join(lines)).records["loss"].to_list() == [round(3 / e, 4) for e in range(1, 10)]


def test_average_of_a_part_beside_another_is_no_loss(read: Callable[[str], Log]) -> None:
    log = read(
        "".join(f"Epoch {e}/9 | avg style loss: {3 / e:.4f} | recon loss: 1.{e}\n" for e in range(1, 10))
    )
    assert "loss" not in log.records.columns


def test_row_of_several_layers_gives_no_loss_beside_the_total(read: Callable[[str], Log]) -> None:
    rows = "| loss | {x} | 0.75 | 0.5 |\n| conf | 0.2 | 0.5 | 0.1 |\nTotal loss {t}\n"
    block = "--- [Epoch 0/2, Batch {b}/40] ---\n" + rows
    log = read("".join(block.format(b=b, x=1.5 + b, t=2.75 + b) for b in range(6)))
    assert log.records["loss"].to_list() == [2.75 + b for b in range(6)]
    heading = "| step | loss | lr |\n" + "".join(f"| {b} | {2.5 - b / 8} | 0.001 |\n" for b in range(6))
    assert read(heading).records["loss"][0] == 2.5


@pytest.mark.parametrize(
    "lines",
    [
        "step: {n}\ncross_entropy_loss: {a}\ntotal_cost: {b}\n",
        "Iteration {n}: cross_entropy_loss = {a}\nIteration {n}: total_cost = {b}\n",
        "Iteration {n}: cross_entropy_loss = {a}\n   total_cost = {b}, reg_loss = 0.5{n}\n",
        "Iteration {n}: cross_entropy_loss = {a}, total_cost = {b}\n",
    ],
)
def test_total_on_a_line_of_its_own_is_the_loss(lines: str, read: Callable[[str], Log]) -> None:
    log = read("".join(lines.format(n=n, a=3.01 / n, b=3.51 / n) for n in range(1, 13)))
    assert log.records["loss"].to_list() == [3.51 / n for n in range(1, 13)]
    assert log.records["cross_entropy_loss"].to_list() == [3.01 / n for n in range(1, 13)]


@pytest.mark.parametrize("name", ["Total Training Loss", "Overall Train Loss"])
def test_total_of_the_training_below_its_parts_is_the_loss(name: str, read: Callable[[str], Log]) -> None:
    row = "Epoch {0}/8\nTRAINING:\nRecon Loss: {1:.4f} | KL Loss: {2:.4f}\n{3}: {4:.4f}\n"
    held_out = "VALIDATION:\nRecon Loss: {1:.4f} | KL Loss: {2:.4f}\nTotal Validation Loss: {5:.4f}\n\n"
    log = read("".join((row + held_out).format(e, 2 / e, 1 / e, name, 3 / e, 4 / e) for e in range(1, 9)))
    assert log.records["loss"].to_list() == [round(3 / e, 4) for e in range(1, 9)]
    assert log.evals.filter(name="val_loss")["value"].to_list() == [round(4 / e, 4) for e in range(1, 9)]
