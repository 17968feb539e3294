"""Commands that begin again: what they had printed before is not handed on a second time."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.live import sources
from gputel.analysis.live.sources import FollowedCommand, Replays
from gputel.telemetry.errors import GputelError
from tests.recordings import PATIENCE_S

LINES = [f"step {n} loss {n * 0.37:.3f}\n" for n in range(60)]
LOG = "".join(LINES)


def handed_on(*starts: str, pieces: int = 7) -> str:
    known, chance, found = Replays(), random.Random(0), b""
    for start in starts:
        known.begin()
        rest = start.encode()
        while rest:
            size = chance.randint(1, pieces)
            found += known.feed(rest[:size])
            rest = rest[size:]
    return found.decode()


def test_a_log_that_is_printed_from_its_beginning_again_gives_what_is_new() -> None:
    assert handed_on("".join(LINES[:20]), LOG) == LOG


def test_the_last_lines_again_give_what_is_new() -> None:
    assert handed_on(LOG, "".join(LINES[-10:]) + "step 60\n") == LOG + "step 60\n"


def test_a_log_whose_beginning_is_gone_gives_what_is_new() -> None:
    assert handed_on("".join(LINES[:40]), "".join(LINES[15:])) == LOG


def test_a_line_that_was_cut_off_is_completed() -> None:
    assert handed_on(LOG[:105], LOG) == LOG


def test_another_container_is_all_new_also_where_it_begins_alike() -> None:
    other = LINES[0] + LINES[1] + "step 2 loss 9\n"
    assert handed_on(LOG, other) == LOG + other


def test_a_line_that_was_cut_off_and_never_completed_is_ended() -> None:
    assert handed_on("step 1\nste", "epoch 5\n") == "step 1\nste\nepoch 5\n"


def test_lines_that_repeat_are_as_many_as_they_were() -> None:
    old = "a\nb\na\nb\n"
    assert handed_on(old, old + "c\n") == old + "c\n"


def test_redraws_of_a_bar_are_lines_of_their_own() -> None:
    bar = "\r10%\r20%\r30%"
    assert handed_on(bar, bar + "\r40%\r\nstep 1\n").replace("\r\n", "\n") == bar + "\r40%\nstep 1\n"


def test_of_a_log_longer_than_what_is_known_line_by_line_a_full_replay_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, size in (("LAST", 16), ("FIRST", 8), ("EVERY", 4)):
        monkeypatch.setattr(sources, name, size)
    assert handed_on(LOG, LOG, LOG + "step 60\n") == LOG + "step 60\n"


@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=30),
    st.lists(st.integers(0, 40), max_size=4),
    st.integers(1, 9),
)
def test_whole_replays_never_repeat_a_line(letters: list[str], ends: list[int], pieces: int) -> None:
    lines = [f"{n} {letter}\n" for n, letter in enumerate(letters)]
    starts = ["".join(lines[: min(end, len(lines))]) for end in sorted(ends)]
    assert handed_on(*starts, "".join(lines), pieces=pieces) == "".join(lines)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(1, 9))
def test_overlapping_tails_never_repeat_a_line(growths: list[int], overlap: int) -> None:
    starts, end = [], 0
    for growth in growths:
        starts.append("".join(f"line {n}\n" for n in range(max(end - overlap, 0), end + growth)))
        end += growth
    assert handed_on(*starts) == "".join(f"line {n}\n" for n in range(end))


def until(true: Callable[[], bool], command: FollowedCommand) -> bytes:
    """What the command prints until something is true of it; gives up after a while, and the test says why."""
    found, deadline = b"", time.monotonic() + PATIENCE_S
    while not true() and time.monotonic() < deadline:
        found += command.read(1 << 16)
    return found


def program(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "program.py"
    path.write_text(text)
    return [sys.executable, str(path)]


def test_a_command_is_started_again_when_it_ends_and_says_nothing_twice(tmp_path: Path) -> None:
    clock = [0.0]
    words = program(
        tmp_path,
        "import pathlib\n"
        f"count = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "n = int(count.read_text()) + 1 if count.exists() else 1\n"
        "count.write_text(str(n))\n"
        "for i in range(n): print('step', i)\n",
    )
    command = FollowedCommand(words, now=lambda: clock[0])
    found = until(lambda: command.trouble is not None, command)
    assert found == b"step 0\n"
    assert command.trouble == "ended with 0; started again in 1 s"
    assert command.read(1 << 16) == b""
    assert command.starts == 1
    clock[0] = 1.0
    found += until(
        lambda: command.starts == 2 and command.trouble is not None and not command.descriptors, command
    )
    assert found == b"step 0\nstep 1\n"
    command.close()


def test_a_command_that_fails_is_tried_less_and_less_often_and_its_last_word_is_told(tmp_path: Path) -> None:
    clock = [0.0]
    words = program(tmp_path, "import sys\nsys.exit('pod0 is not running')\n")
    command = FollowedCommand(words, now=lambda: clock[0])
    pauses = []
    for start in range(8):
        until(lambda start=start: command.starts > start and not command.descriptors, command)  # type: ignore[misc]
        assert command.trouble
        pauses.append(command.trouble)
        clock[0] += 60
    assert pauses[0] == "ended with 1: pod0 is not running; started again in 1 s"
    assert [int(pause.split()[-2]) for pause in pauses] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_command_that_is_not_there_is_said() -> None:
    command = FollowedCommand(["no-such-program-anywhere"], now=lambda: 0.0)
    assert command.read(10) == b""
    assert command.trouble == "cannot be started: No such file or directory; started again in 1 s"


def test_a_command_is_ended_with_its_children(tmp_path: Path) -> None:
    command = FollowedCommand(program(tmp_path, "import time\nprint('on', flush=True)\ntime.sleep(1000)\n"))
    seen = b""
    while not seen:
        seen = command.read(100)
    command.close()
    assert command.descriptors == []


def test_a_command_that_complains_at_length_is_not_held_up(tmp_path: Path) -> None:
    words = program(tmp_path, "import sys\nsys.stderr.write('warning\\n' * 100_000)\nprint('step 1')\n")
    command = FollowedCommand(words)
    assert until(lambda: command.trouble is not None, command) == b"step 1\n"
    assert command.trouble == "ended with 0: warning; started again in 1 s"


def test_a_rank_and_its_command_are_split_as_a_shell_would() -> None:
    assert sources.split("rank0=ssh b 'tail -F log'") == ("rank0", ["ssh", "b", "tail -F log"])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("kubectl", "--from kubectl: is no LABEL=COMMAND; write --from rank0='kubectl logs -f pod0'"),
        ("=ls", "--from =ls: is no LABEL=COMMAND; write --from rank0='kubectl logs -f pod0'"),
        ("a='ls", "--from a='ls: no closing quotation; close the quote"),
    ],
)
def test_what_is_no_rank_and_command_is_refused(text: str, error: str) -> None:
    with pytest.raises(GputelError) as raised:
        sources.split(text)
    assert str(raised.value) == error
