"""Followed commands: restarts, pauses between them, and their last error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gputel.analysis.live.commands import FollowedCommand, split_command
from gputel.telemetry.errors import GputelError
from tests.recordings import PATIENCE_S


def until(condition: Callable[[], bool], command: FollowedCommand) -> bytes:
    """Output of the command until the condition holds; gives up after a while, and the test says why."""
    output, deadline = b"", time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < deadline:
        output += command.read(1 << 16)
    return output


def program(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "program.py"
    path.write_text(text)
    return [sys.executable, str(path)]


def test_command_restarts_when_it_ends_and_repeats_no_line(tmp_path: Path) -> None:
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
    output = until(lambda: command.trouble is not None, command)
    assert output == b"step 0\n"
    assert command.trouble == "exited with code 0; restarting in 1 s"
    assert command.read(1 << 16) == b""
    assert command.starts == 1
    clock[0] = 1.0
    output += until(
        lambda: command.starts == 2 and command.trouble is not None and not command.descriptors, command
    )
    assert output == b"step 0\nstep 1\n"
    command.close()


def test_failing_command_restarts_after_growing_pauses_with_its_last_error(tmp_path: Path) -> None:
    clock = [0.0]
    words = program(tmp_path, "import sys\nsys.exit('pod0 is not running')\n")
    command = FollowedCommand(words, now=lambda: clock[0])
    pauses = []
    for start in range(8):
        until(lambda start=start: command.starts > start and not command.descriptors, command)  # type: ignore[misc]
        assert command.trouble
        pauses.append(command.trouble)
        clock[0] += 60
    assert pauses[0] == "exited with code 1: pod0 is not running; restarting in 1 s"
    assert [int(pause.split()[-2]) for pause in pauses] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_missing_program_is_trouble() -> None:
    command = FollowedCommand(["no-such-program-anywhere"], now=lambda: 0.0)
    assert command.read(10) == b""
    assert command.trouble == "cannot start: No such file or directory; restarting in 1 s"


def test_close_stops_the_command(tmp_path: Path) -> None:
    command = FollowedCommand(program(tmp_path, "import time\nprint('on', flush=True)\ntime.sleep(1000)\n"))
    seen = b""
    while not seen:
        seen = command.read(100)
    command.close()
    assert command.descriptors == []


def test_long_stderr_does_not_block_the_command(tmp_path: Path) -> None:
    words = program(tmp_path, "import sys\nsys.stderr.write('warning\\n' * 100_000)\nprint('step 1')\n")
    command = FollowedCommand(words)
    assert until(lambda: command.trouble is not None, command) == b"step 1\n"
    assert command.trouble == "exited with code 0: warning; restarting in 1 s"


def test_rank_and_command_are_split_as_a_shell_would() -> None:
    assert split_command("rank0=ssh b 'tail -F log'") == ("rank0", ["ssh", "b", "tail -F log"])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("kubectl", "--from kubectl: is not RANK=COMMAND; write --from rank0='kubectl logs -f pod0'"),
        ("=ls", "--from =ls: is not RANK=COMMAND; write --from rank0='kubectl logs -f pod0'"),
        ("a='ls", "--from a='ls: no closing quotation; close the quote"),
    ],
)
def test_words_that_are_not_rank_and_command_are_refused(text: str, error: str) -> None:
    with pytest.raises(GputelError) as raised:
        split_command(text)
    assert str(raised.value) == error
