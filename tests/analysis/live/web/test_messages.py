"""The small parts of following: mounts, curves, what comes next and lines for pipes."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.live import files, lines
from gputel.analysis.live.log_state import Coming, LogState, coming
from gputel.analysis.live.series import Series
from gputel.analysis.logs.incremental import Increments
from gputel.telemetry import filesystem

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
STEP = "step {:05d}/00900 (0.1%) | loss: {} | lrm: 1.00 | dt: 500.00ms | tok/sec: 796,060\n"
MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:30 / /mnt/shared\\040logs rw - nfs4 server:/logs rw
31 22 0:31 / /var/lib rw - overlay overlay rw
32 22 0:32 / /mnt/windows rw - cifs //server/share rw
"""


@pytest.mark.parametrize(
    ("path", "kind", "said"),
    [
        ("/home/me/train.log", "ext4", None),
        (
            "/mnt/shared logs/a.log",
            "nfs4",
            "/mnt/shared logs/a.log is on nfs4: looked at every second, since changes by other "
            "machines are not told",
        ),
        (
            "/mnt/windows/a.log",
            "cifs",
            "/mnt/windows/a.log is on cifs: looked at every second, since changes by other machines are not told",
        ),
        (
            "/var/lib/a.log",
            "overlay",
            "/var/lib/a.log is on overlay: what is written to a layer below is seen within a second",
        ),
    ],
)
def test_the_filesystem_of_a_log_is_recognised_and_said(
    tmp_path: Path, path: str, kind: str, said: str | None
) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTS)
    assert filesystem.kind(Path(path), table) == kind
    assert files.said(Path(path), kind) == said
    assert files.is_told(kind) == (kind in ("ext4", "overlay"))


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), max_size=300), st.integers(1, 40))
def test_a_curve_keeps_every_extreme_and_every_value_counts(values: list[float], piece: int) -> None:
    curve = Series(most=8)
    for at in range(0, len(values), piece):
        some = np.array(values[at : at + piece], dtype=np.float64)
        curve.add(np.arange(at, at + len(some), dtype=np.float64), some)
    points = curve.points()
    finite = [value for value in values if np.isfinite(value)]
    assert len(points.step) <= 8
    assert (np.diff(points.step) > 0).all()
    if finite:
        assert np.nanmin(points.least) == min(finite)
        assert np.nanmax(points.largest) == max(finite)
    if values:
        assert points.step[-1] == len(values) - 1


def test_steps_that_begin_again_supersede_what_a_curve_held_of_them() -> None:
    curve = Series()
    curve.add(np.arange(10.0), np.arange(10.0))
    curve.cut(6)
    curve.add(np.array([6.0]), np.array([100.0]))
    assert curve.points().mean.tolist() == [0, 1, 2, 3, 4, 5, 100]


def story_of(text: str) -> LogState:
    growing, story = Increments(), LogState()
    growing.feed(text.encode())
    story.take(growing.take(NOW), 0.0, live=True)
    return story


def test_what_comes_next_is_told_by_what_has_been_with_its_date() -> None:
    lines = [STEP.format(step, 5 - step / 1000) for step in range(251)]
    lines.insert(101, "saved checkpoint to out/ckpt_100.pt\n")
    lines.insert(202, "saved checkpoint to out/ckpt_200.pt\n")
    story = story_of("".join(lines))
    found = coming(story, 900, story.seconds_a_step(), NOW, None)
    assert found == [
        Coming("checkpoint", 300, NOW + timedelta(seconds=25)),
        Coming("end", 900, NOW + timedelta(seconds=325)),
    ]


def test_what_was_seen_once_is_not_foretold() -> None:
    story = story_of(STEP.format(0, 5) + "saved checkpoint to out/ckpt_0.pt\n" + STEP.format(1, 5))
    assert [one.kind for one in coming(story, None, 0.5, NOW, None)] == []


def said(*pieces: str, as_json: bool = False) -> list[str]:
    growing, known = Increments(now=lambda: 0.0), lines.Printed()
    found: list[str] = []
    for piece in pieces:
        growing.feed(piece.encode())
        sayings = known.new(growing.take(NOW), settled=growing.is_settled)
        found += lines.in_order("d16", "", sayings, lines.rows_json if as_json else lines.rows_text)
    return found


def test_a_record_is_said_as_soon_as_its_line_is_there_and_once() -> None:
    first, second = STEP.format(1, 2.5), STEP.format(2, 2.25)
    assert said(first[:30], first[30:], second) == [
        "d16 step 1/900  loss 2.5  lrm 1  dt_ms 500  tok_per_sec 796060",
        "d16 step 2/900  loss 2.25  lrm 1  dt_ms 500  tok_per_sec 796060",
    ]


def test_what_a_later_line_adds_to_a_record_is_said_alone() -> None:
    first, later = "[batch=3/100]:\n         Train loss/train/total: 10.5\n", "         Train lr/main: 0.25\n"
    assert said(first, later) == ["d16 step 3/100  loss 10.5", "d16 step 3/100  +  lr_main 0.25"]


def test_evaluations_and_events_are_said_too() -> None:
    text = STEP.format(250, 2) + "Step 00250 | Validation bpb: 1.5\nsaved checkpoint to out/ckpt_250.pt\n"
    assert said(text)[1:] == [
        "d16 step 250  val_bpb 1.5",
        "d16 step 250  checkpoint: saved checkpoint to out/ckpt_250.pt",
    ]


def test_a_bar_is_said_when_it_will_not_be_drawn_over_any_more() -> None:
    bars = [f"\r {n}0%|# | {n}/10 [00:0{n}<00:09,  1.0it/s, loss=2.{n}]" for n in (1, 1, 2)]
    assert said(*bars, "\n") == ["d16 step 1/10  loss 2.1"]


def test_in_json_a_row_is_that_of_parse_and_says_when_it_is_revised() -> None:
    pieces = (
        "[batch=3/100]:\n  Train loss/train/total: nan\n",
        "  Train lr/main: 0.25\n",
        STEP.format(4, 2.25),
    )
    rows = [json.loads(line) for line in said(*pieces, as_json=True)]
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
