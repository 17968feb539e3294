"""What the cells of a notebook printed is read as a log; its code and pictures are not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gputel
from gputel.analysis.logs.lines import Chunk
from gputel.analysis.logs.notebooks import NotebookText

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
