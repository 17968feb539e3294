"""`kill -9` of any of our processes costs no output, no exit code and no telemetry."""

import contextlib
import errno
import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gputel.telemetry import events, run_folder
from gputel.telemetry.clock import SECOND, SystemClock
from gputel.telemetry.process import children as children_of_viewer
from gputel.telemetry.process.children import KeeperHandle, Supervisor
from gputel.telemetry.process.keeper import KeeperState, OutputPipe
from gputel.telemetry.sampling.status import Board
from gputel.telemetry.store.journal import read
from gputel.telemetry.whole_files import Reserve
from tests.recordings import Recorder, children, is_alive, until
from tests.recordings.kills import kill_round
from tests.telemetry.process.conftest import SIMULATED

Record = Callable[..., Recorder]


NUMBERS = "import os, time\nfor i in range({lines}): os.write(1, b'%d\\n' % i); {pause}\nos._exit(7)"


def numbers(lines: int, pause_s: float) -> tuple[str, ...]:
    pause = f"time.sleep({pause_s})" if pause_s else ""
    return sys.executable, "-c", NUMBERS.format(lines=lines, pause=pause)


def sampled(recorder: Recorder) -> int:
    """Blocks of ticks at the full rate."""
    journals = [read(path) for path in recorder.folder.glob("gpu/fast*.gtb")]
    return sum(len(journal.ticks) for journal in journals if journal)


def expected(lines: int) -> bytes:
    return b"".join(b"%d\n" % i for i in range(lines))


def test_rest_of_the_output_is_not_written_where_run_json_cannot_count_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk that is full to the last page, run.json says how much is missing; that must stay true."""
    log, index = (os.open(tmp_path / name, os.O_RDWR | os.O_CREAT) for name in ("output.log", "output.idx"))
    signals: Any = None
    state = KeeperState(tmp_path, OutputPipe(0), log, index, 0, signals, ())
    state.output.put(b"the last line\n")
    state.ledger.drained = True

    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    run_folder.create(tmp_path, {"run": "run"})
    state.ledger.end(0, SystemClock().stamp())
    state.ledger.recorded = True
    monkeypatch.setattr(Reserve, "take", full)
    KeeperHandle(state, 0, None, command=None, group=None).write_rest()
    count = len(b"the last line\n")
    assert (os.fstat(log).st_size, state.queues.missing) == (0, count)
    assert run_folder.describe(tmp_path)["output_missing_bytes"] == count


def test_why_nothing_was_sampled_is_kept_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, room = events.append, run_folder.reserve(tmp_path)
    run_folder.create(tmp_path, {"run": "run"})
    room.take()
    size = room.path.stat().st_size

    def full(*words: Any, **facts: Any) -> None:
        if room.path.stat().st_size == size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(*words, **facts)

    monkeypatch.setattr(events, "append", full)
    Supervisor(lambda board, stops: 0).explain(tmp_path)
    (event,) = events.read(tmp_path)
    assert event["kind"] == "no_telemetry"


def test_killed_keeper_is_replaced_and_nothing_is_lost_or_doubled(record: Record) -> None:
    recorder = record(*numbers(2000, 0.0005))
    for line in (b"\n100\n", b"\n800\n", b"\n1500\n"):
        recorder.printed(line)
        recorder.kill_keeper()
    assert recorder.wait() == 7
    assert recorder.output() == recorder.shown.read_bytes() == expected(2000)
    assert recorder.facts()["exit_code"] == 7


@pytest.mark.parametrize("wait_s", [0, 0.001, 0.002, 0.005])
def test_keeper_killed_as_it_begins_neither_loses_the_command_nor_starts_it_twice(
    record: Record, tmp_path: Path, wait_s: float
) -> None:
    began = tmp_path / "began"
    recorder = record("bash", "-c", f"echo x >> {began}; echo hello; sleep 0.3; exit 7")
    (keeper,) = until(lambda: children(recorder.viewer), "a keeper")[:1]
    time.sleep(wait_s)
    with contextlib.suppress(ProcessLookupError):
        os.kill(keeper, signal.SIGKILL)
    assert recorder.wait() == 7
    assert began.read_text() == "x\n"
    assert recorder.output() == b"hello\n"
    assert recorder.facts()["exit_code"] == 7


@pytest.mark.long
def test_keeper_killed_with_its_queue_full_of_output_loses_none(record: Record) -> None:
    recorder = record(*numbers(300_000, 0))
    recorder.printed(b"\n1000\n")
    for _ in range(3):
        recorder.kill_keeper()
    assert recorder.wait() == 7
    assert recorder.output() == expected(300_000)


def killed_supervisor(kills: int) -> Supervisor:
    """A supervisor whose sampler was killed as many times, each as soon as it ran."""
    supervisor = Supervisor(lambda board, stops: bool(select.select(stops, [], [])))
    supervisor.start()
    for _ in range(kills):
        assert supervisor.pid is not None
        os.kill(supervisor.pid, signal.SIGKILL)
        _, status = os.waitpid(supervisor.pid, 0)
        supervisor.died(status, over=False)
        supervisor.look()
    return supervisor


def test_sampler_that_is_killed_in_its_first_seconds_is_restarted_at_once_and_the_next_one_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(children_of_viewer, "SHORT_LIFE", 600 * SECOND)
    monkeypatch.setattr(children_of_viewer, "PATIENCE", (0, 0, 600 * SECOND))
    supervisor = killed_supervisor(1)
    assert supervisor.pid is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    os.waitpid(supervisor.pid, 0)
    assert killed_supervisor(2).pid is None


def test_sampler_that_sampled_between_two_looks_counts_as_one_that_sampled() -> None:
    def sample(board: Board, _stops: Sequence[int]) -> int:
        board.publish({"state": "ended", "ticks": 3})
        return 0

    supervisor = Supervisor(sample)
    supervisor.start()
    assert supervisor.pid is not None
    _, status = os.waitpid(supervisor.pid, 0)
    supervisor.died(status, over=True)
    assert supervisor.ever_sampled


def test_run_goes_on_to_its_end_without_the_viewer(record: Record) -> None:
    recorder = record(*numbers(400, 0.002))
    recorder.printed(b"\n100\n")
    recorder.kill(signal.SIGKILL)
    assert recorder.wait() == -signal.SIGKILL
    until(lambda: recorder.facts().get("exit_code") == 7, "the keeper's word about the end")
    assert recorder.output() == expected(400)


def test_killed_sampler_is_restarted_and_the_gap_is_reported(record: Record) -> None:
    recorder = record("sleep", "600", options=SIMULATED)
    first = recorder.sampler()
    begun = until(lambda: sampled(recorder), "the first samples")
    until(lambda: sampled(recorder) > begun, "more of them")
    os.kill(first, signal.SIGKILL)
    until(lambda: recorder.events(), "a word about the gap")
    assert recorder.sampler() != first
    recorder.kill(signal.SIGTERM)
    assert recorder.wait() == -signal.SIGTERM
    assert [event["kind"] for event in recorder.events()].count("gap") == 1


@pytest.mark.long
def test_sampler_that_hangs_is_replaced(record: Record) -> None:
    recorder = record("sleep", "600", options=SIMULATED)
    first = recorder.sampler()
    begun = until(lambda: sampled(recorder), "the first samples")
    until(lambda: sampled(recorder) > begun, "more of them")
    os.kill(first, signal.SIGSTOP)
    until(lambda: recorder.sampler() != first, "another sampler")
    until(lambda: "gap" in [event["kind"] for event in recorder.events()], "a word about the gap")
    recorder.kill(signal.SIGTERM)
    assert recorder.wait() == -signal.SIGTERM


def test_viewer_and_keeper_together_leave_a_broken_pipe(record: Record) -> None:
    """The one case that is not covered, as the page says: the command meets what it would meet without a reader."""
    recorder = record("bash", "-c", "echo $$; while echo line; do sleep 0.01; done")
    recorder.printed(b"line")
    command, keeper = recorder.command(), recorder.keeper()
    os.kill(recorder.viewer, signal.SIGKILL)
    os.kill(keeper, signal.SIGKILL)
    until(lambda: not is_alive(command), "the command's end of SIGPIPE")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(25))
def test_kill_at_a_random_moment_costs_nothing(seed: int, record: Record) -> None:
    chance = random.Random(seed)
    victim = chance.choice(["viewer", "keeper", "sampler"])
    kill_round(partial(record, options=SIMULATED), victim, chance.uniform(0, 2.5)).check()
