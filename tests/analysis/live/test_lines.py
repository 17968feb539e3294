"""Rows of followed logs as lines and as JSON."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest

from gputel.analysis.live import lines
from gputel.analysis.logs.incremental import Increments

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
STEP = "step {:05d}/00900 (0.1%) | loss: {} | lrm: 1.00 | dt: 500.00ms | tok/sec: 796,060\n"


def printed(*pieces: str, as_json: bool = False) -> list[str]:
    growing, state = Increments(now=lambda: 0.0), lines.Printed()
    output: list[str] = []
    for piece in pieces:
        growing.feed(piece.encode())
        groups = state.new(growing.take(NOW), settled=growing.is_settled)
        output += lines.in_order("d16", "", groups, lines.rows_json if as_json else lines.rows_text)
    return output


def test_record_is_printed_once_as_soon_as_its_line_is_complete() -> None:
    first, second = STEP.format(1, 2.5), STEP.format(2, 2.25)
    assert printed(first[:30], first[30:], second) == [
        "d16 step 1/900  loss 2.5  lrm 1  dt_ms 500  tok_per_sec 796060",
        "d16 step 2/900  loss 2.25  lrm 1  dt_ms 500  tok_per_sec 796060",
    ]


def test_values_of_a_later_line_are_printed_alone() -> None:
    first, later = "[batch=3/100]:\n         Train loss/train/total: 10.5\n", "         Train lr/main: 0.25\n"
    assert printed(first, later) == ["d16 step 3/100  loss 10.5", "d16 step 3/100  +  lr_main 0.25"]


def test_evaluations_and_events_are_printed() -> None:
    text = STEP.format(250, 2) + "Step 00250 | Validation bpb: 1.5\nsaved checkpoint to out/ckpt_250.pt\n"
    assert printed(text)[1:] == [
        "d16 step 250  val_bpb 1.5",
        "d16 step 250  checkpoint: saved checkpoint to out/ckpt_250.pt",
    ]


@pytest.mark.parametrize("as_json", [False, True])
def test_events_are_printed_with_their_secrets_masked(as_json: bool) -> None:
    error = "RuntimeError: 401 for https://me:hunter2@host/x?api_key=hunter2\n"
    text = STEP.format(250, 2) + "Traceback (most recent call last):\n" + error
    (line,) = [line for line in printed(text, as_json=as_json) if "RuntimeError" in line]
    assert "hunter2" not in line
    assert "https://***@host/x?api_key=***" in line
    write = lines.rows_json if as_json else lines.rows_text
    line = lines.event_line("d16", {"kind": "mark", "text": "token=hunter2"}, write)
    assert "token=***" in line


def test_what_a_process_does_not_show_is_called_not_seen() -> None:
    event = {"kind": "unseen", "text": "process 71: steps: RuntimeError: torch 1.4 cannot be seen"}
    assert lines.event_line("d16", event, lines.rows_text).startswith("d16 not seen: process 71: steps: ")


def test_progress_bar_is_printed_after_its_last_redraw() -> None:
    bars = [f"\r {n}0%|# | {n}/10 [00:0{n}<00:09,  1.0it/s, loss=2.{n}]" for n in (1, 1, 2)]
    assert printed(*bars, "\n") == ["d16 step 1/10  loss 2.1"]


def test_json_row_is_that_of_parse_and_marks_revisions() -> None:
    pieces = (
        "[batch=3/100]:\n  Train loss/train/total: nan\n",
        "  Train lr/main: 0.25\n",
        STEP.format(4, 2.25),
    )
    rows = [json.loads(line) for line in printed(*pieces, as_json=True)]
    assert [(row["kind"], row["line"], row.get("revised", False)) for row in rows] == [
        ("train", 1, False),
        ("train", 1, True),
        ("event", 1, False),
        ("train", 4, False),
    ]
    assert rows[0]["loss"] is None
    assert rows[-1] == {
        "kind": "train",
        "run": "d16",
        "phase": "train",
        "attempt": 1,
        "step": 4,
        "line": 4,
        "time": None,
        "total_steps": 900,
        "loss": 2.25,
        "lrm": 1.0,
        "dt_ms": 500.0,
        "tok_per_sec": 796060.0,
    }
