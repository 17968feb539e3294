"""Texts that speak of training, or quote one, and are no log of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gputel.analysis.logs import quotations
from gputel.analysis.logs.log import Log
from gputel.analysis.runs import paths
from tests.analysis.logs.texts_without_training import KINDS, TEXTS

LINE = "step {0} | loss: {1:.4f} | lr 3.0e-04 | norm: 0.81 | dt: 812.10ms | tok/sec: 64512.1\n"


def test_texts_are_over_three_hundred() -> None:
    assert len(set(TEXTS.values())) > 300


@pytest.mark.parametrize("kind", KINDS)
def test_text_without_training_gives_no_reading(kind: str, read: Callable[[str], Log]) -> None:
    logs = {name: read(text) for name, text in TEXTS.items() if name.rpartition("-")[0] == kind}
    readings = {name: (log.records.height, log.evals.height) for name, log in logs.items()}
    assert readings == dict.fromkeys(readings, (0, 0))


def test_text_of_a_trade_stays_unread_between_its_own_kind(read: Callable[[str], Log]) -> None:
    """Also where there is much of it."""
    for kind in ("packet_loss", "profit_csv", "heat_loss"):
        assert read(TEXTS[f"{kind}-0"] * 5).records.height == 0


def test_log_with_headings_and_warnings_in_sentences_is_still_a_log(read: Callable[[str], Log]) -> None:
    warnings = (
        "# Training\nSome weights were not initialized from the checkpoint and are new.\n"
        "You should train this model on a task before you use it.\nSetting ds_accelerator to cuda for now.\n"
    )
    assert (
        read(warnings + "".join(LINE.format(step, 9 - step / 20) for step in range(20))).records.height == 20
    )


def test_heading_between_hashes_is_of_a_program(read: Callable[[str], Log]) -> None:
    """A document has no hashes behind its headings; a single record below it is an example there."""
    sentence = "The data sets were not initialized before this call."
    text = f"{{}}\n{sentence}\nEpoch 0: 50%|##  | 1/2 [00:01<00:01, loss=2.5]\n"
    assert read(text.format("#### Data #####")).records["loss"].to_list() == [2.5]
    assert read(text.format("#### Data")).is_empty


def test_figure_behind_a_hash_is_of_a_program(read: Callable[[str], Log]) -> None:
    """R's nnet says how many weights there are, and packages warn in sentences above it."""
    sentences = "System has not been booted with services as its first process (1). Can't operate.\n"
    fit = "# {}\ninitial  value 52.4\niter  10 value 20.5\niter  20 value 19.3\nfinal  value 19.3\n"
    closing = "Accuracy was used to select the best model by the largest value.\n"
    assert read(sentences + fit.format("weights:  13") + closing).records.height == 2
    assert read(sentences + fit.format("Weights of a model") + closing).is_empty


CODE = """  else if (data.loss_option == {0})
  {{
    const float cost = weight * {0};
    costs.push_back(cost);
    return apply(cost);
  }}
"""


def test_source_code_that_compares_a_loss_often_is_no_log(read: Callable[[str], Log]) -> None:
    assert read("#include <vector>\n" + "".join(map(CODE.format, range(8)))).is_empty


def test_log_of_records_between_lines_like_code_is_a_log(read: Callable[[str], Log]) -> None:
    text = "".join(f"step {i} loss {9 / (i + 1):.4f}\nsave(model)\n" for i in range(8))
    assert read(text).records.height == 8


def test_format_that_is_named_reads_a_document_too(tmp_path: Path) -> None:
    path = tmp_path / "incident.md"
    path.write_text(TEXTS["report_with_quoted_lines-0"])
    assert paths.parse(path).is_empty
    assert paths.parse(path, format="build-nanogpt").records.height == 2


@pytest.mark.parametrize(
    "line",
    [
        "step {0} | loss: {1:.4f} | heat_loss: {1:.3f} | weight_loss: 0.{0:02d}\n",
        "epoch {0} train_loss={1:.4f} path_loss={1:.3f} gpu_power=312.5 W\n",
        "iter {0} loss {1:.4f} latency 12.5 ms errors 0\n",
    ],
)
def test_part_of_a_loss_may_have_any_name(line: str, read: Callable[[str], Log]) -> None:
    log = read("".join(line.format(step, 9 - step / 20) for step in range(1, 40)))
    assert log.records["loss"].len() == 39


@pytest.mark.parametrize("unit", [" dB", " W", "%", " kg", "kWh"])
def test_only_loss_with_a_foreign_unit_is_none(unit: str, read: Callable[[str], Log]) -> None:
    line = "step {0} loss: {1:.2f}" + unit + " done\n"
    assert read("".join(line.format(step, 9 - step / 20) for step in range(1, 40))).records.height == 0


def test_indented_quote_below_chapters_with_little_prose_is_no_log() -> None:
    quoted = "".join(f"    Epoch {i} :Train_loss:{2 / (i + 1):.3f} Valid_loss:0.{i}5\n" for i in range(3))
    head = "# Steel\nScripts for a competition\n\n## Training phase\n1. It is not easy to verify this.\n\n"
    readme = f"{head}{quoted}\n## Inference\n"
    assert quotations.quotes_training(readme.encode(), 3)
    log = f"# run 3 begins\n{quoted}{quoted}# It is not easy to verify this.\n"
    assert not quotations.quotes_training(log.encode(), 6)


def test_quote_in_a_chinese_report_is_no_log(read: Callable[[str], Log]) -> None:
    text = (
        "# 复现报告\n## 训练\n使用本项目重新训练模型，在精度表现上略优于论文中展示的指标。\n\n"
        "    Epoch 1/20\n" + "".join(LINE.format(i, 3 / i) for i in (1, 2, 3)) + "\n"
        "初始损失为三点四，经过约三百步的迭代，最终稳定在一点六附近。\n## 结果\n"
    )
    assert read(text).records.height == 0
    assert read("".join(LINE.format(i, 3 / i) for i in range(1, 9)) + "训练完成。\n").records.height == 8


def test_few_sentences_do_not_make_a_document_of_many_records(read: Callable[[str], Log]) -> None:
    above = "### Training\nLoading the training data from disk.\nThe model has been moved to the device.\n"
    rows = "".join(f"Epoch {e}/200\nTime taken: 2 sec\nloss: {3 / e:.4f}\n" for e in range(1, 201))
    saves = "# Training\n" + "".join(
        f"Epoch {e}/40 | loss: {3 / e:.4f}\nSaved the best model to the folder.\nNow going on with the next one.\n"
        for e in range(1, 41)
    )
    starts = (
        "### Launching the training\nPlotting labels to the folder...\nStarting training for 3 epochs...\n"
    )
    assert read(above + rows).records.height == 200
    assert read(saves).records.height == 40
    assert (
        read(starts + "".join(f"Epoch {e}/3 | loss: {3 / e:.4f}\n\n\n" for e in (1, 2, 3))).records.height
        == 3
    )
