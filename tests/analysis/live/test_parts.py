"""The small parts of following: mounts, curves, what comes next, lines for pipes, and the memory of a follower."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis import formats
from gputel.analysis.live import kept, mounts, plain, printed
from gputel.analysis.live.coming import Coming, coming
from gputel.analysis.live.curve import Curve
from gputel.analysis.live.kept import Kept, Piece
from gputel.analysis.live.story import Story
from gputel.analysis.parse.increments import Increments
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
    assert mounts.said(Path(path), kind) == said
    assert mounts.is_told(kind) == (kind in ("ext4", "overlay"))


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), max_size=300), st.integers(1, 40))
def test_a_curve_keeps_every_extreme_and_every_value_counts(values: list[float], piece: int) -> None:
    curve = Curve(most=8)
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
    curve = Curve()
    curve.add(np.arange(10.0), np.arange(10.0))
    curve.cut(6)
    curve.add(np.array([6.0]), np.array([100.0]))
    assert curve.points().mean.tolist() == [0, 1, 2, 3, 4, 5, 100]


def story_of(text: str) -> Story:
    growing, story = Increments(), Story()
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
    growing, known = Increments(now=lambda: 0.0), plain.Said()
    found: list[str] = []
    for piece in pieces:
        growing.feed(piece.encode())
        sayings = known.new(growing.take(NOW), settled=growing.is_settled)
        found += plain.in_order("d16", "", sayings, printed.as_json if as_json else printed.text)
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


def piece(data: bytes) -> Piece:
    return Piece("train.log", "", data, None, 1.0, True, False, False)


def opened(folder: Path, output: int = 1) -> Kept:
    return Kept(folder, formats.shipped(), output)


def test_what_was_read_and_not_shown_is_the_last_of_what_is_recalled(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.note([piece(b"one\n")])
    first.said()
    first.note([piece(b"two\n")])
    first.close()
    again = opened(tmp_path)
    assert [[one.data for one in batch] for batch in again.batches] == [[b"one\n"], [b"two\n"]]
    again.said()
    again.close()
    assert opened(tmp_path).batches[-1] == []


def test_a_journal_that_a_kill_has_torn_is_read_up_to_there(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.note([piece(b"one\n")])
    first.said()
    first.note([piece(b"two\n")])
    first.close()
    journal = tmp_path / "journal.0"
    os.truncate(journal, journal.stat().st_size - 3)
    again = opened(tmp_path)
    assert [[one.data for one in batch] for batch in again.batches] == [[b"one\n"], []]


def test_of_output_into_a_file_its_size_tells_how_much_was_written(tmp_path: Path) -> None:
    with (tmp_path / "out").open("ab", buffering=0) as out:
        first = opened(tmp_path, out.fileno())
        first.note([piece(b"one\n")])
        out.write(b"half of")
        first.close()
        assert opened(tmp_path, out.fileno()).already == 7


def test_a_parser_is_remembered_in_whatever_format_it_reads(tmp_path: Path) -> None:
    growing = Increments(now=lambda: 0.0)
    for number in range(40):
        growing.feed(
            b"[it %d] cross_entropy -> %.2f @ lr 0.1 (1234 tok/s)\n" % (number * 10, 5 - number / 10)
        )
    assert growing.take(NOW).records.height
    memory = opened(tmp_path)
    memory.checkpoint({"inferred": [growing.parser.inferred], "log": growing})
    memory.close()
    other: Increments = opened(tmp_path).recalled["log"]
    line = b"[it 400] cross_entropy -> 1.5 @ lr 0.1 (1234 tok/s)\n[it 410] cross"
    growing.feed(line)
    other.feed(line)
    assert other.take(NOW, guess=False).open_records.equals(growing.take(NOW, guess=False).open_records)


def test_a_checkpoint_of_another_version_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = opened(tmp_path)
    memory.checkpoint({"log": 1})
    memory.close()
    monkeypatch.setattr(kept, "__version__", "9.9")
    assert opened(tmp_path).recalled == {}


def test_a_checkpoint_makes_nothing_but_what_it_may_hold(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.checkpoint({})
    memory.close()
    (tmp_path / "checkpoint.1").write_bytes(b"cposix\nsystem\n(S'touch harm'\ntR.")
    assert opened(tmp_path).recalled == {}
    assert not Path("harm").exists()


def test_of_two_followers_of_the_same_one_remembers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first = kept.remembered(["plain", "train.log"], None)
    assert first
    assert kept.remembered(["plain", "train.log"], None) is None
    other = kept.remembered(["json", "train.log"], None)
    assert other
    for one in (first, other):
        one.close()


def test_a_full_disk_ends_the_remembering_and_not_the_following(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    memory = opened(tmp_path)
    monkeypatch.setattr(os, "writev", full)
    memory.note([piece(b"one\n")])
    assert memory.is_broken
    memory.said()
    memory.close()
