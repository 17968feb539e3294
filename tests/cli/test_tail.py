"""`gputel tail --plain` and `--json`, as a user runs them: real processes, real files, real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue

import pytest
from click.testing import CliRunner

from gputel.analysis import logs
from gputel.analysis.parse import listing
from gputel.cli import group, main
from gputel.telemetry import run
from gputel.telemetry.process import stamps

STEP = "step {:05d}/00900 (0.1%) | loss: {} | lrm: 1.00 | dt: 500.00ms | tok/sec: 796,060\n"
PATIENCE_S = 60


class Tail:
    """A running `gputel tail`; `line` waits for the next one."""

    def __init__(self, home: Path, *words: str, out: Path | None = None) -> None:
        environment = {**os.environ, "XDG_STATE_HOME": str(home / "state"), "PYTHONUNBUFFERED": "1"}
        self._lines: Queue[str] = Queue()
        output = os.open(out, os.O_WRONLY | os.O_APPEND) if out else subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gputel", "tail", *words],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=home,
        )
        if out:
            os.close(output)
        if not out:
            threading.Thread(target=self._read, daemon=True).start()

    def line(self) -> str:
        try:
            return self._lines.get(timeout=PATIENCE_S)
        except Empty:
            raise AssertionError("the tail says nothing more") from None

    def end(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(how)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        code = self.process.wait(PATIENCE_S)
        assert self.process.stderr
        return code, self.process.stderr.read().decode()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line.decode().rstrip("\n"))


@pytest.fixture
def tail(tmp_path: Path) -> Iterator[Callable[..., Tail]]:
    started: list[Tail] = []

    def start(*words: str, out: Path | None = None) -> Tail:
        started.append(Tail(tmp_path, *words, out=out))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()
        for pipe in (one.process.stdin, one.process.stdout, one.process.stderr):
            if pipe:
                pipe.close()


def write(path: Path, *lines: str) -> None:
    with path.open("a") as log:
        log.write("".join(lines))


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_line_that_is_written_is_a_line_that_is_said_until_a_signal_ends_it(
    tmp_path: Path, tail: Callable[..., Tail], how: signal.Signals
) -> None:
    log = tmp_path / "train.log"
    write(log, STEP.format(1, 2.5))
    running = tail("--plain", "train.log")
    assert running.line() == "train step 1/900  loss 2.5  lrm 1  dt_ms 500  tok_per_sec 796060"
    write(log, STEP.format(2, 2.25)[:40])
    write(log, STEP.format(2, 2.25)[40:])
    assert running.line().startswith("train step 2/900  loss 2.25")
    assert running.end(how) == (0, "")


def test_a_log_that_is_not_there_yet_is_waited_for_and_said(
    tmp_path: Path, tail: Callable[..., Tail]
) -> None:
    running = tail("--plain", "train.log")
    assert running.process.stderr
    assert running.process.stderr.readline() == b"train.log: is not there yet; it is waited for\n"
    write(tmp_path / "train.log", STEP.format(1, 2.5))
    assert running.line().startswith("train step 1/900")


def test_logs_that_appear_in_a_folder_and_by_a_glob_are_followed(
    tmp_path: Path, tail: Callable[..., Tail]
) -> None:
    (tmp_path / "logs").mkdir()
    write(tmp_path / "logs" / "a.log", STEP.format(1, 2.5))
    (tmp_path / "logs" / "model.pt").write_bytes(b"PK\x03\x04\0\0" + STEP.format(9, 9).encode())
    running = tail("--plain", "logs", "*.txt")
    assert running.line().startswith("a step 1/900")
    write(tmp_path / "logs" / "b.log", STEP.format(2, 2.5))
    assert running.line().startswith("b step 2/900")
    write(tmp_path / "c.txt", STEP.format(3, 2.5))
    assert running.line().startswith("c step 3/900")


def test_what_comes_through_a_pipe_is_said_as_it_comes_and_to_the_end(tail: Callable[..., Tail]) -> None:
    running = tail("--plain", "-")
    assert running.process.stdin
    for number in (1, 2):
        running.process.stdin.write(STEP.format(number, 2.5).encode())
        running.process.stdin.flush()
        assert running.line().startswith(f"- step {number}/900")
    running.process.stdin.close()
    assert running.wait() == (0, "")


def test_commands_are_the_ranks_of_one_run_and_said_once_though_they_begin_again(
    tmp_path: Path, tail: Callable[..., Tail]
) -> None:
    for rank in (0, 1):
        write(tmp_path / f"{rank}.log", STEP.format(1, 2.5 + rank))
    running = tail("--json", "--from", "rank0=cat 0.log", "--from", "rank1=cat 1.log")
    rows = [json.loads(running.line()) for _ in range(2)]
    assert sorted((row["stream"], row["loss"]) for row in rows) == [("rank0", 2.5), ("rank1", 3.5)]
    for rank in (0, 1):
        write(tmp_path / f"{rank}.log", STEP.format(2, 1.5 + rank))
    rows = [json.loads(running.line()) for _ in range(2)]
    assert sorted((row["stream"], row["step"]) for row in rows) == [("rank0", 2), ("rank1", 2)]
    code, notes = running.end()
    assert code == 0
    assert "rank0: ended with 0; started again in 1 s" in notes


def test_another_tail_goes_on_where_the_first_was_and_a_fresh_one_begins_again(
    tmp_path: Path, tail: Callable[..., Tail]
) -> None:
    log = tmp_path / "train.log"
    write(log, STEP.format(1, 2.5))
    first = tail("--plain", "train.log")
    first.line()
    first.end()
    write(log, STEP.format(2, 2.5))
    second = tail("--plain", "train.log")
    assert second.line().startswith("train step 2/900")
    second.end()
    third = tail("--plain", "--fresh", "train.log")
    assert third.line().startswith("train step 1/900")


def test_a_second_tail_of_the_same_is_told_that_nothing_is_remembered(
    tmp_path: Path, tail: Callable[..., Tail]
) -> None:
    write(tmp_path / "train.log", STEP.format(1, 2.5))
    tail("--plain", "train.log").line()
    second = tail("--plain", "train.log")
    assert second.line().startswith("train step 1/900")
    assert second.end() == (
        0,
        "this is followed elsewhere, too: all of it is shown, and nothing remembered\n",
    )


@pytest.mark.long
def test_a_kill_loses_no_row_and_repeats_none(tmp_path: Path, tail: Callable[..., Tail]) -> None:
    log, out = tmp_path / "train.log", tmp_path / "rows.txt"
    out.touch()
    for start in range(4):
        running = tail("--plain", "train.log", out=out)
        for number in range(start * 50, start * 50 + 50):
            write(log, STEP.format(number, 2.5))
            time.sleep(0.002)
        until(lambda start=start: out.read_text().count("\n") > start * 50 + 10)  # type: ignore[misc]
        running.end(signal.SIGKILL)
    last = tail("--plain", "train.log", out=out)
    until(lambda: out.read_text().count("\n") >= 200)
    last.end()
    assert [line.split()[2] for line in out.read_text().splitlines()] == [f"{n}/900" for n in range(200)]


def a_run(folder: Path) -> Path:
    """A run folder whose output is being written."""
    moment = {"wall_ns": 10**18 * 18 // 10}
    run.create(folder, {"run": "d16", "started": moment, "gpus": []})
    (folder / "output.log").touch()
    (folder / "output.idx").touch()
    return folder


def record(segment: Path, wall_ns: int, *lines: str) -> None:
    write(segment / "output.log", *lines)
    with (segment / "output.idx").open("ab") as index:
        index.write(stamps.pack(wall_ns, (segment / "output.log").stat().st_size))


def test_a_run_folder_is_followed_through_its_segments_to_its_end(
    tmp_path: Path, tail: Callable[..., Tail]
) -> None:
    folder = a_run(tmp_path / "d16")
    record(folder, 1_800_000_001_000_000_000, STEP.format(1, 2.5))
    running = tail("--json", "d16")
    assert json.loads(running.line())["time"] == "2027-01-15T08:00:01Z"
    segment = run.add_segment(folder, {"run": "d16", "gpus": []})
    for name in ("output.log", "output.idx"):
        (segment.path / name).touch()
    record(segment.path, 1_800_000_002_000_000_000, STEP.format(2, 2.25))
    row = json.loads(running.line())
    assert (row["step"], row["time"], row["stream"]) == (2, "2027-01-15T08:00:02Z", "segments/2")
    for path in (folder, segment.path):
        run.update(path, ended={"wall_ns": 1_800_000_003_000_000_000})
    assert running.wait() == (0, "")


@pytest.mark.real_logs
@pytest.mark.parametrize(
    "name", ["nanochat/speedrun-d24-feb01.nocode.log", "keras", "megatron", "hf-trainer"]
)
def test_what_is_said_of_a_real_log_is_what_parse_says(real_logs: Path, tmp_path: Path, name: str) -> None:
    """Through a pipe, so that the log has an end."""
    place = real_logs / name
    path = place if place.is_file() else min(place.iterdir())
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    with path.open("rb") as log:
        command = [sys.executable, "-m", "gputel", "tail", "--json", "-"]
        text = subprocess.run(command, stdin=log, stdout=subprocess.PIPE, env=environment, check=True).stdout
    rows: dict[tuple[object, ...], object] = {}
    for row in map(json.loads, text.splitlines()):
        if row.pop("kind") == "afresh":
            rows.clear()
        elif "event" not in row and row["line"]:
            row.pop("revised", None)
            rows[row["line"], row.get("name"), row["step"]] = {**row, "run": ""}
    theirs = [row for row in listing.rows(logs.parse(path)) if row["kind"] in ("train", "eval")]
    expected = {(row["line"], row.get("name"), row["step"]): {**row, "run": ""} for row in theirs}
    for row in expected.values():
        del row["kind"]
    assert rows == expected


def test_nothing_to_follow_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["tail"])
    assert ended.value.code == 2
    expected = "error: tail: nothing to follow; name a log, a run folder, or --from RANK=COMMAND\n"
    assert capsys.readouterr().err == expected


def test_every_option_is_in_the_help_and_on_its_page() -> None:
    shown = CliRunner().invoke(group, ["tail", "--help"]).output
    page = (Path(__file__).parents[2] / "docs" / "tail.md").read_text()
    for option in ("--from", "--format", "--plain", "--json", "--fresh", "--price", "--budget"):
        assert option in shown
        assert option in page
