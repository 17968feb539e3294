"""What the cells of a notebook printed is read as a log; its code and pictures are not."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import gputel
from gputel.analysis.logs.lines import Chunk
from gputel.analysis.logs.log import Log
from gputel.analysis.logs.notebooks import NotebookText
from gputel.analysis.logs.parser import Parser, make_parser

PRINTED = [
    "Época 1/3\tpérdida: 2.5\tpérdida de validación: 2.75\n",
    "Época 2/3\tpérdida: 1.5\tpérdida de validación: 1.75\n",
    "Época 3/3\tpérdida: 1.25\tpérdida de validación: 1.5\n",
]


def notebook(*outputs: Any, source: Sequence[str] = ("train()",)) -> str:
    cell = {"cell_type": "code", "source": list(source), "metadata": {}, "outputs": list(outputs)}
    return json.dumps({"cells": [cell], "nbformat": 4}, indent=1, ensure_ascii=True)


def stream(*lines: str) -> Any:
    return {"output_type": "stream", "name": "stdout", "text": list(lines)}


def test_printed_lines_are_records(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text(notebook(stream(*PRINTED)))
    run = gputel.parse(path)
    assert run.steps["step"].to_list() == [1, 2, 3]
    assert run.steps["loss"].to_list() == [2.5, 1.5, 1.25]
    assert run.evals["value"].to_list() == [2.75, 1.75, 1.5]
    lines = path.read_text().splitlines()
    assert [json.loads(lines[n - 1].rstrip(",")) for n in run.records["line"]] == PRINTED


def test_notebook_on_one_line_is_read(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text(json.dumps(json.loads(notebook(stream(*PRINTED), stream("".join(PRINTED))))))
    run = gputel.parse(path)
    assert run.records["loss"].to_list() == [2.5, 1.5, 1.25] * 2
    assert {*run.records["line"]} == {1}


@pytest.mark.parametrize("size", [7, 4096, 1 << 22])
def test_long_notebook_on_one_line_is_read_whole_and_in_pieces(
    size: int, conclude: Callable[[Parser], Log]
) -> None:
    """Kaggle writes notebooks so, and their pictures are longer than any line of a log."""
    picture = {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo" * 9000}}
    data = json.dumps(json.loads(notebook(picture, stream(*PRINTED)))).encode()
    parser = make_parser()
    for start in range(0, len(data), size):
        parser.feed(data[start : start + size])
    parser.finish()
    assert conclude(parser).records["loss"].to_list() == [2.5, 1.5, 1.25]


def test_code_is_not_read(tmp_path: Path) -> None:
    """Comments of a cell quote an earlier training."""
    path = tmp_path / "train.ipynb"
    path.write_text(notebook(stream(*PRINTED), source=[f"# {line}" for line in PRINTED]))
    assert gputel.parse(path).steps.height == 3


def test_a_bar_and_an_error_are_read_as_a_terminal_shows_them(tmp_path: Path) -> None:
    bars = "".join(f"\rEpoch 1: {25 * n}%|##  | {n}/4 [00:0{n}<00:01, loss=0.{9 - n}]" for n in range(1, 4))
    error = {
        "output_type": "error",
        "ename": "KeyboardInterrupt",
        "evalue": "",
        "traceback": [
            "\x1b[0;31m-----\x1b[0m",
            "\x1b[0;31mKeyboardInterrupt\x1b[0m   Traceback (most recent call last)",
            "Cell In[1], line 1\n----> 1 train()\n",
            "\x1b[0;31mKeyboardInterrupt\x1b[0m: ",
        ],
    }
    path = tmp_path / "train.ipynb"
    path.write_text(notebook(stream(bars), error))
    run = gputel.parse(path)
    assert run.steps["loss"].to_list() == [0.6]
    assert run.status == "interrupted"


def test_other_json_stays_as_it_is() -> None:
    data = b'{\n "step": 1,\n "loss": 2.5\n}\n'
    chunk = Chunk(data, 1, None)
    assert NotebookText().read(chunk) is chunk


def html(*rows: Sequence[str], align: str) -> Any:
    """A table with its heading aligned: a trainer's is aligned left, and pandas aligns it right."""
    lines = ["<table>\n", "  <thead>\n", f' <tr style="text-align: {align};">\n']
    for kind, row in zip("h" + "d" * len(rows), rows, strict=False):
        lines += [*(f"<t{kind}>{cell}</t{kind}>\n" for cell in row), "</tr>\n", "<tr>\n"]
    plain = ["<IPython.core.display.HTML object>"]
    return {
        "output_type": "display_data",
        "metadata": {},
        "data": {"text/html": lines, "text/plain": plain},
    }


TABLE = [
    ("Step", "Training Loss", "Validation Loss", "Acc"),
    ("100", "2.5", "No log", "0.25"),
    ("200", "1.5", "No log", "0.5"),
    ("300", "1.25", "1.75", "0.625"),
]


def test_the_table_of_a_trainer_is_read(tmp_path: Path) -> None:
    """`No log` says that nothing was measured; the accuracy is that of the validation."""
    path = tmp_path / "train.ipynb"
    path.write_text(notebook(html(*TABLE, align="left")))
    run = gputel.parse(path)
    assert run.steps["step"].to_list() == [100, 200, 300]
    assert run.steps["loss"].to_list() == [2.5, 1.5, 1.25]
    evals = run.evals.partition_by("name", as_dict=True)
    assert evals[("val_loss",)]["value"].to_list() == [1.75]
    assert evals[("val_Acc",)]["value"].to_list() == [0.25, 0.5, 0.625]


def test_a_table_without_alignment_is_read_and_one_without_heading_is_not(tmp_path: Path) -> None:
    """An early fastai writes the first; a summary of wandb is the second."""
    path = tmp_path / "train.ipynb"
    lines = ["Total time: 00:34 <p><table style='width:300px'>\n", "  <tr>\n"]
    lines += ["<th>epoch</th>\n", "<th>train_loss</th>\n", "<th>valid_loss</th>\n", "</tr>\n"]
    for row in (("1", "2.5", "2.75"), ("2", "1.5", "1.75")):
        lines += ["<tr>\n", *(f"<td>{cell}</td>\n" for cell in row), "</tr>\n"]
    summary = "<table class='wandb'><tr><td>train/loss</td><td>0.5</td></tr></table>"
    outputs = [{"output_type": "display_data", "data": {"text/html": some}} for some in (lines, [summary])]
    path.write_text(notebook(*outputs))
    run = gputel.parse(path)
    assert run.steps["loss"].to_list() == [2.5, 1.5]
    assert run.evals["value"].to_list() == [2.75, 1.75]
    assert "0.5" not in NotebookText().read(Chunk(path.read_bytes(), 1, None)).data.decode()


def test_a_frame_of_pandas_is_read_once(tmp_path: Path) -> None:
    """Its plain text is printed beside the HTML."""
    path = tmp_path / "train.ipynb"
    path.write_text(notebook(stream(*PRINTED), html(*TABLE, align="right")))
    assert gputel.parse(path).steps["loss"].to_list() == [2.5, 1.5, 1.25]
    assert gputel.parse(path).evals.height == 3


def test_a_table_that_a_cell_shows_again_is_read_once(tmp_path: Path) -> None:
    """A trainer that is interrupted shows its table anew, with the rows that came since."""
    path = tmp_path / "train.ipynb"
    shown = [html(*TABLE[:rows], align="left") for rows in (3, 3, 4)]
    path.write_text(notebook(*shown))
    run = gputel.parse(path)
    assert run.records["step"].to_list() == [100, 200, 300]
    assert run.evals["name"].to_list().count("val_loss") == 1


def test_another_table_of_a_cell_is_another_training(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    other = [TABLE[0], ("100", "7.5", "No log", "0.5"), *TABLE[2:]]
    path.write_text(notebook(html(*TABLE, align="left"), html(*other, align="left")))
    assert gputel.parse(path).records["loss"].to_list() == [2.5, 1.5, 1.25, 7.5, 1.5, 1.25]


def test_a_short_table_between_texts_of_a_language_model_is_read(tmp_path: Path) -> None:
    """The texts have headings and sentences, as a document has."""
    path = tmp_path / "train.ipynb"
    asked = [f"### Question {n}\nWhich oil does an engine of type {n} need?\n" for n in range(30)]
    answered = [f"{line}It needs the oil that its maker recommends.\n" for line in asked]
    rows = [("Step", "Training Loss", "Validation Loss"), ("300", "0.5", "0.75"), ("600", "0.25", "0.625")]
    path.write_text(notebook(stream(*answered), html(*rows, align="left")))
    run = gputel.parse(path)
    assert run.steps["loss"].to_list() == [0.5, 0.25]
    assert run.evals.select("step", "value").rows() == [(300, 0.75), (600, 0.625)]
