"""Output of restarted commands: lines that were printed before are left out."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.live import replays
from gputel.analysis.live.replays import Replays

LINES = [f"step {n} loss {n * 0.37:.3f}\n" for n in range(60)]
LOG = "".join(LINES)


def new_output(*starts: str, pieces: int = 7) -> str:
    lines, chance, output = Replays(), random.Random(0), b""
    for start in starts:
        lines.begin()
        rest = start.encode()
        while rest:
            size = chance.randint(1, pieces)
            output += lines.feed(rest[:size])
            rest = rest[size:]
    return output.decode()


def test_log_printed_from_its_beginning_again_gives_only_new_lines() -> None:
    assert new_output("".join(LINES[:20]), LOG) == LOG


def test_last_lines_printed_again_give_only_new_lines() -> None:
    assert new_output(LOG, "".join(LINES[-10:]) + "step 60\n") == LOG + "step 60\n"


def test_log_without_its_beginning_gives_only_new_lines() -> None:
    assert new_output("".join(LINES[:40]), "".join(LINES[15:])) == LOG


def test_torn_line_is_completed() -> None:
    assert new_output(LOG[:105], LOG) == LOG


def test_other_container_is_all_new_even_if_it_begins_alike() -> None:
    other = LINES[0] + LINES[1] + "step 2 loss 9\n"
    assert new_output(LOG, other) == LOG + other


def test_torn_line_that_is_never_completed_gets_a_newline() -> None:
    assert new_output("step 1\nste", "epoch 5\n") == "step 1\nste\nepoch 5\n"


def test_repeated_lines_keep_their_number() -> None:
    old = "a\nb\na\nb\n"
    assert new_output(old, old + "c\n") == old + "c\n"


def test_redraws_of_a_progress_bar_count_as_lines() -> None:
    bar = "\r10%\r20%\r30%"
    assert new_output(bar, bar + "\r40%\r\nstep 1\n").replace("\r\n", "\n") == bar + "\r40%\nstep 1\n"


def test_full_replay_is_recognized_beyond_the_lines_known_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, size in (("LAST", 16), ("FIRST", 8), ("EVERY", 4)):
        monkeypatch.setattr(replays, name, size)
    assert new_output(LOG, LOG, LOG + "step 60\n") == LOG + "step 60\n"


@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=30),
    st.lists(st.integers(0, 40), max_size=4),
    st.integers(1, 9),
)
def test_full_replays_never_repeat_a_line(letters: list[str], ends: list[int], pieces: int) -> None:
    lines = [f"{n} {letter}\n" for n, letter in enumerate(letters)]
    starts = ["".join(lines[: min(end, len(lines))]) for end in sorted(ends)]
    assert new_output(*starts, "".join(lines), pieces=pieces) == "".join(lines)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(1, 9))
def test_overlapping_tails_never_repeat_a_line(growths: list[int], overlap: int) -> None:
    starts, end = [], 0
    for growth in growths:
        starts.append("".join(f"line {n}\n" for n in range(max(end - overlap, 0), end + growth)))
        end += growth
    assert new_output(*starts) == "".join(f"line {n}\n" for n in range(end))
