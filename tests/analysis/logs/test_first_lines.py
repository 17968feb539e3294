"""What the first line of each kind became."""

from __future__ import annotations

import io
from pathlib import Path

from gputel.analysis.logs import files
from gputel.analysis.logs.first_lines import ReadKind
from gputel.analysis.runs.paths import parse


def kinds_of(text: str) -> tuple[ReadKind, ...]:
    return files.stream(io.BytesIO(text.encode()), "a", "a").read_kinds


def test_record_and_evaluation_are_shown_with_the_figures_of_their_rows() -> None:
    log = "".join(
        f"it {it} >> nll {5 - it / 10:.2f} ~ lr 1e-3\n.. held-out nll {6 - it / 10:.2f} @ {it}\n"
        for it in range(8)
    )
    record, evaluation = kinds_of(log)
    assert record == ReadKind(
        "it 0 >> nll 5.00 ~ lr 1e-3", 8, 1, "record", {"step": 0, "loss": 5.0, "lr": 0.001}
    )
    assert (evaluation.read_as, evaluation.line, evaluation.lines) == ("evaluation", 2, 8)
    assert evaluation.figures == {"step": 0, "val_loss": 6.0}


def test_fullest_of_the_first_lines_stands_for_its_kind() -> None:
    log = "".join(f"iter {n}: loss {4 - n / 10:.4f}, time {12 + n}.00ms\n" for n in range(3))
    log += "".join(f"iter {n}: loss {4 - n / 10:.4f}, time {12 + n}.00ms, mfu 40.00%\n" for n in range(3, 9))
    (kind,) = kinds_of(log)
    assert (kind.line, kind.lines, kind.figures["mfu"]) == (4, 9, 40.0)


def test_record_of_several_lines_is_shown_whole_and_its_other_lines_are_parts() -> None:
    log = "".join(
        f"== update {n} ==\n  policy loss: {1 / (n + 1):.4f}\n  kl: {n / 1000:.4f}\n" for n in range(9)
    )
    first, *others = kinds_of(log)
    assert first.read_as == "record"
    assert {"step", "kl"} <= first.figures.keys()
    assert all(other.is_part for other in others)


def test_line_that_heads_records_is_a_heading() -> None:
    log = "".join(
        f"> EPOCH: {n}/5\n" + "".join(f"it {i} >> nll {3 - n / 2:.2f}\n" for i in range(3)) for n in range(5)
    )
    heading, record = kinds_of(log)
    assert (heading.read_as, heading.lines, heading.figures["epoch"]) == ("heading", 5, 0)
    assert (record.read_as, record.figures["epoch"]) == ("record", 0)


def test_log_without_a_training_has_no_kinds() -> None:
    assert kinds_of("nothing here\nthat trains\n") == ()


def test_table_without_lines_has_no_kinds(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("epoch,loss\n1,2.5\n2,2.25\n")
    assert parse(path).read_kinds == ()


def test_redraw_is_shown_with_its_own_figures() -> None:
    log = "".join(
        "".join(
            f"\rEpoch: [{e}/4], Loss: {9 - e - n / 100:.2f}: {n}%|##| {n}/97 [00:22<00:00, 4.34it/s]"
            for n in (1, 97)
        )
        + "\n"
        for e in range(1, 5)
    )
    (kind,) = kinds_of(log)
    assert (kind.text[:27], kind.figures["epoch"], kind.figures["loss"]) == (
        "Epoch: [1/4], Loss: 7.99: 1",
        1,
        7.99,
    )


def test_line_of_a_notebook_in_one_line_is_shown_with_its_own_figures() -> None:
    printed = "".join(
        f"Epoch {e}/4\\n3/3 [====] - 0s 14ms/step - loss: {9 - e}.5 - val_loss: {9 - e}.75\\n"
        for e in range(1, 5)
    )
    output = f'{{"output_type": "stream", "text": "{printed}"}}'
    cell = f'{{"cell_type": "code", "metadata": {{}}, "outputs": [{output}]}}'
    _, record = kinds_of(f'{{"cells": [{cell}], "metadata": {{}}, "nbformat": 4}}')
    assert (record.figures["step"], record.figures["loss"], record.figures["val_loss"]) == (1, 8.5, 8.75)
