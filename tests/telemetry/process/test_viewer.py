"""`gputel record` as a whole: every byte is in output.log and on standard output, and the exit code is kept."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.recordings import GPUTEL, Recorder, holders, is_alive, until
from tests.telemetry.process.conftest import SIMULATED

Record = Callable[..., Recorder]


def test_viewer_stays_light_since_it_forks() -> None:
    check = (
        "import gputel.telemetry.process.viewer, sys, threading\n"
        "assert not {'numpy', 'polars', 'rich', 'pynvml'} & set(sys.modules), sys.modules\n"
        "assert threading.active_count() == 1"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


def python(program: str) -> tuple[str, ...]:
    return sys.executable, "-c", program


def test_output_and_errors_come_in_their_order_and_the_exit_code_is_kept(record: Record) -> None:
    recorder = record("bash", "-c", "echo one; echo two >&2; echo three; exit 7", options=SIMULATED)
    assert recorder.wait() == 7
    assert recorder.output() == recorder.shown.read_bytes() == b"one\ntwo\nthree\n"
    assert recorder.facts()["exit_code"] == 7
    assert recorder.facts()["ended"]["wall_ns"] > recorder.facts()["started"]["wall_ns"]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("import os; os.write(1, b'no newline')", b"no newline"),
        ("import os; os.write(1, bytes(range(256)) * 50)", bytes(range(256)) * 50),
        ("import os; os.write(1, b'\\0' * 5000)", b"\0" * 5000),
        ("import os; os.write(1, b'10%\\r20%\\r30%')", b"10%\r20%\r30%"),
        ("pass", b""),
    ],
    ids=["no newline", "binary", "NULs", "carriage returns", "silence"],
)
def test_bytes_are_untouched(record: Record, program: str, expected: bytes) -> None:
    recorder = record(*python(program))
    assert recorder.wait() == 0
    assert recorder.output() == recorder.shown.read_bytes() == expected


def test_writing_to_dev_stderr_in_the_middle_erases_nothing(record: Record) -> None:
    recorder = record("bash", "-c", "echo before; echo x > /dev/stderr; echo y > /dev/stdout; echo after")
    assert recorder.wait() == 0
    assert recorder.output() == b"before\nx\ny\nafter\n"


def test_hundred_megabytes_at_once_are_kept_and_shown(record: Record) -> None:
    recorder = record("bash", "-c", "yes 0123456789012345678901234567890123456789 | head -c 100000000")
    assert recorder.wait() == 0
    assert recorder.output() == (b"0123456789012345678901234567890123456789\n" * 2_500_000)[:100_000_000]
    assert recorder.shown.read_bytes() == recorder.output()


@pytest.mark.long
def test_slow_reader_does_not_hold_the_command_and_misses_nothing(record: Record) -> None:
    reading, writing = os.pipe()
    recorder = record(*python("for i in range(100_000): print('line', i)"), stdout=writing)
    os.close(writing)
    until(lambda: recorder.facts().get("exit_code") == 0, "the command's end before any of it is read")
    seen = b""
    while piece := os.read(reading, 4096):
        seen += piece
    os.close(reading)
    assert recorder.wait() == 0
    assert seen == recorder.output()
    assert seen.count(b"\n") == 100_000


def test_reader_that_leaves_does_not_end_the_recording(record: Record) -> None:
    reading, writing = os.pipe()
    recorder = record(*python("for i in range(200_000): print('line', i)"), stdout=writing)
    os.close(writing)
    assert os.read(reading, 10)
    os.close(reading)
    assert recorder.wait() == 0
    assert recorder.output().count(b"\n") == 200_000


def test_stopped_viewer_does_not_hold_the_command(record: Record) -> None:
    recorder = record("bash", "-c", "echo begin; sleep 0.3; head -c 5000000 /dev/zero; echo end; exit 3")
    recorder.printed(b"begin")
    recorder.kill(signal.SIGSTOP)
    until(lambda: recorder.facts().get("exit_code") == 3, "the command's end under a stopped viewer")
    recorder.kill(signal.SIGCONT)
    assert recorder.wait() == 3
    assert recorder.shown.read_bytes() == recorder.output() == b"begin\n" + b"\0" * 5_000_000 + b"end\n"


@pytest.mark.long
def test_two_writers_tear_no_line_that_a_pipe_keeps_whole(record: Record) -> None:
    """Up to 4 KiB; longer ones may be torn, as by any pipe, but none of their bytes is lost."""
    line = "import sys\nfor i in range(300): sys.stdout.write('{0}' * {1} + '\\n'); sys.stdout.flush()"
    writers = " & ".join(f'{sys.executable} -c "{line.format(letter, 4000)}"' for letter in "ab")
    recorder = record("bash", "-c", f"{writers} & wait")
    assert recorder.wait() == 0
    assert sorted(set(recorder.output().splitlines())) == [b"a" * 4000, b"b" * 4000]
    longer = " & ".join(f'{sys.executable} -c "{line.format(letter, 6000)}"' for letter in "ab")
    recorder = record("bash", "-c", f"{longer} & wait")
    assert recorder.wait() == 0
    output = recorder.output()
    assert (output.count(b"a"), output.count(b"b"), output.count(b"\n")) == (1_800_000, 1_800_000, 600)


ASKS = """
import os, sys, time
with open(sys.argv[1]) as answers:
    for number in range(100):
        question = b"<%d>" % number
        if number % 4 == 0:
            os.write(1, question)
        elif number % 4 == 1:
            for place in range(len(question)):
                os.write(1, question[place:place + 1])
        elif number % 4 == 2:
            os.write(1, b"line\\n" * number + question)
        else:
            os.write(1, b"." * 97 * number)
            time.sleep(number / 3000)
            os.write(1, question)
        assert answers.readline() == "%d\\n" % number
"""


def test_question_is_shown_though_nothing_follows_it(record: Record, tmp_path: Path) -> None:
    """What is gathered for a moment must not wait for more: the command waits for the answer."""
    os.mkfifo(tmp_path / "answers")
    reading, writing = os.pipe()
    recorder = record(*python(ASKS), str(tmp_path / "answers"), stdout=writing)
    os.close(writing)
    seen = b""
    with (tmp_path / "answers").open("w") as answers:
        for number in range(100):
            while not seen.endswith(b"<%d>" % number):
                seen += os.read(reading, 65536)
            answers.write(f"{number}\n")
            answers.flush()
    assert os.read(reading, 1) == b""
    os.close(reading)
    assert recorder.wait() == 0
    assert seen == recorder.output()


def test_grandchild_that_outlives_the_command_is_written_to_its_end(record: Record, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    recorder = record("bash", "-c", f"(read < {go}; echo late) & echo early; exit 5")
    assert recorder.wait() == 5
    assert recorder.output() == b"early\n"
    assert "stays behind" in recorder.said.read_text()
    (keeper,) = holders(recorder.folder / "output.log")
    go.write_text("now\n")
    until(lambda: not is_alive(keeper), "the end of the keeper that stayed behind")
    assert recorder.output() == b"early\nlate\n"


def test_prints_of_python_come_at_once_and_marks_find_the_run(record: Record) -> None:
    program = "import os; print(os.environ['PYTHONUNBUFFERED'], os.environ['GPUTEL_RUN'])"
    recorder = record(*python(program))
    assert recorder.wait() == 0
    assert recorder.output().decode().split() == ["1", str(recorder.folder)]


def test_closed_standard_output_does_no_harm(tmp_path: Path) -> None:
    script = f"exec {' '.join(GPUTEL)} record --out {tmp_path / 'run'} -- bash -c 'echo a; exit 4' >&- 2>&-"
    assert subprocess.run(["bash", "-c", script], stdin=subprocess.DEVNULL).returncode == 4
    assert (tmp_path / "run" / "output.log").read_bytes() == b"a\n"


def test_lines_are_stamped_when_they_come(record: Record) -> None:
    from gputel.telemetry.process import output_index

    program = "import time\nfor i in range(5): print(time.time_ns()); time.sleep(0.05)"
    recorder = record(*python(program))
    assert recorder.wait() == 0
    stamped = list(output_index.lines(recorder.folder / "output.log", recorder.folder / "output.idx"))
    walls = [wall for wall, _ in stamped if wall is not None]
    assert len(walls) == 5
    assert all(wall >= int(line) for wall, (_, line) in zip(walls, stamped, strict=True))
    assert walls == sorted(walls)
    assert walls[-1] < time.time_ns()
