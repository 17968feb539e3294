"""A command's processes: synthetic ones, whose figures are planted, and real ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputel.telemetry.clock import SystemClock
from gputel.telemetry.host.columns import PROCESSES
from gputel.telemetry.host.gpu_users import GpuUsage
from gputel.telemetry.host.process_names import NAMES, ProcessNames
from gputel.telemetry.host.processes import ENDED, ProcessTree
from gputel.telemetry.machine import UserLook
from tests.recordings import until
from tests.telemetry.host.machine import write_process as write

Row = dict[str, int | None]
CHILD = "import os, time\nos.fork() or time.sleep(60)\ntime.sleep(60)\n"


class Look:
    """Looks at the tree of a command; rows by pid."""

    def __init__(self, folder: Path, command: int, root: Path = Path("/")) -> None:
        self.folder = folder
        self.names = ProcessNames(folder, root, SystemClock())
        self.users: dict[str, UserLook] = {}
        usage = GpuUsage(root, SystemClock(), command, self.names, self.users)
        self.tree = ProcessTree(root, command, self.names, usage)

    def __call__(self) -> dict[int, Row]:
        names = [column.name for column in PROCESSES]
        rows = [dict(zip(names, row, strict=True)) for row in self.tree.rows()]
        return {row["pid"] or 0: row for row in rows}

    def until(self, done: Callable[[dict[int, Row]], bool]) -> dict[int, Row]:
        """Look until these rows are there, of real processes."""
        return until(lambda: rows if done(rows := self()) else {}, lambda: f"rows that differ from {self()}")

    def written(self) -> str:
        self.names.close()
        return (self.folder / NAMES).read_text()


@pytest.fixture
def spawn() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    children: list[subprocess.Popen[bytes]] = []

    def start(*argv: str, **variables: str) -> subprocess.Popen[bytes]:
        children.append(
            subprocess.Popen(
                argv, env={**os.environ, **variables}, start_new_session=True, stdin=subprocess.PIPE
            )
        )
        return children[-1]

    yield start
    for child in children:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def test_row_holds_what_the_files_of_a_process_say(tmp_path: Path) -> None:
    write(tmp_path, 10, 1, cpu=12, name="my (odd) name")
    assert Look(tmp_path / "run", 10, tmp_path)() == {
        10: {
            "pid": 10,
            "start": 110,
            "cpu_s_total": 12,
            "cpu_ended_s_total": 7,
            "rss_mib": 256,
            "threads": 4,
            "major_faults_total": 3,
            "storage_read_mib_total": 8192,
            "storage_write_mib_total": 4096,
            "call_read_mib_total": 3,
            "main_wait_s_total": 5000,
            "state": ord("S"),
            "wait_channel": 1,
            "gpu": None,
            "gpu_mem_mib": None,
            "gpu_sm": None,
        }
    }


def test_process_without_a_change_writes_no_row_but_the_command_does(tmp_path: Path) -> None:
    write(tmp_path, 10, 1)
    write(tmp_path, 11, 10)
    look = Look(tmp_path / "run", 10, tmp_path)
    assert set(look()) == {10, 11}
    assert set(look()) == {10}
    write(tmp_path, 11, 10, cpu=1)
    assert set(look()) == {10, 11}


@pytest.mark.parametrize(
    ("threads", "ran", "seen"), [(1, 1, False), (1, 2, True), (2, 1, True)], ids=["slept", "ran", "threads"]
)
def test_single_thread_that_has_not_run_is_not_looked_at(
    tmp_path: Path, threads: int, ran: int, seen: bool
) -> None:
    """Another thread may have, which the file of the main one does not say."""
    write(tmp_path, 10, 1)
    write(tmp_path, 11, 10, threads=threads)
    look = Look(tmp_path / "run", 10, tmp_path)
    look()
    write(tmp_path, 11, 10, threads=threads, ran=ran, cpu=5)
    assert (11 in look()) == seen


def test_kernel_that_counts_no_nanoseconds_is_asked_for_ticks(tmp_path: Path) -> None:
    write(tmp_path, 10, 1, threads=1, ran=0)
    look = Look(tmp_path / "run", 10, tmp_path)
    look()
    write(tmp_path, 10, 1, threads=1, ran=0, cpu=5)
    assert look()[10]["cpu_s_total"] == 5


def test_descendants_are_followed_whatever_their_numbers_and_others_are_not(tmp_path: Path) -> None:
    for pid, parent in ((50, 1), (40, 50), (30, 40), (20, 1)):
        write(tmp_path, pid, parent)
    look = Look(tmp_path / "run", 50, tmp_path)
    assert set(look()) == {50, 40, 30}
    write(tmp_path, 60, 30)
    assert 60 in look()


def test_zombie_ends_with_one_last_row(tmp_path: Path) -> None:
    write(tmp_path, 10, 1)
    write(tmp_path, 11, 10)
    look = Look(tmp_path / "run", 10, tmp_path)
    look()
    write(tmp_path, 11, 10, state="Z")
    assert look()[11]["state"] == ENDED
    assert 11 not in look()


def test_process_of_another_user_is_null_where_it_refuses(tmp_path: Path) -> None:
    write(tmp_path, 10, 1)
    for name in ("io", "schedstat", "wchan"):
        (tmp_path / "proc" / "10" / name).unlink()
    row = Look(tmp_path / "run", 10, tmp_path)()[10]
    assert row["storage_read_mib_total"] is None
    assert row["main_wait_s_total"] is None
    assert row["wait_channel"] is None
    assert row["threads"] == 4


def test_real_child_of_a_command_is_followed_until_it_ends(
    tmp_path: Path, spawn: Callable[..., subprocess.Popen[bytes]]
) -> None:
    command = spawn(sys.executable, "-c", CHILD, RANK="3")
    look = Look(tmp_path, command.pid)
    child = next(pid for pid in look.until(lambda rows: len(rows) > 1) if pid != command.pid)
    os.kill(child, signal.SIGKILL)
    rows = look.until(lambda rows: child in rows and rows[child]["state"] == ENDED)
    assert command.pid in rows
    assert '"rank": 3' in look.written()


def test_descriptors_are_closed_when_processes_end(
    tmp_path: Path, spawn: Callable[..., subprocess.Popen[bytes]]
) -> None:
    command = spawn(sys.executable, "-c", CHILD)
    look = Look(tmp_path, command.pid)
    look.until(lambda rows: len(rows) > 1)
    held = descriptors_of_processes()
    look.tree.close()
    assert descriptors_of_processes() <= held - 8


def descriptors_of_processes() -> int:
    """How many files of other processes this one holds open; a thread of ours may open others meanwhile."""
    links = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return sum(link.startswith("/proc/") and not link.startswith(f"/proc/{os.getpid()}/") for link in links)


def test_secrets_in_a_command_line_are_masked(
    tmp_path: Path, spawn: Callable[..., subprocess.Popen[bytes]]
) -> None:
    command = spawn(sys.executable, "-c", "input()", "--api-key", "sk-abcdefghijklmnop1234")
    look = Look(tmp_path, command.pid)
    look()
    written = look.written()
    assert "--api-key ***" in written
    assert "abcdefghijklmnop" not in written


def test_numbers_of_wait_channels_go_on_after_a_restart(tmp_path: Path) -> None:
    """Rows that an earlier recorder wrote must keep their words."""
    first = ProcessNames(tmp_path, Path("/"), SystemClock())
    assert [first.wait_channel(b"do_wait"), first.wait_channel(b"futex_wait")] == [1, 2]
    first.close()
    with (tmp_path / NAMES).open("a") as file:
        file.write('{"wait_chan')
    second = ProcessNames(tmp_path, Path("/"), SystemClock())
    names = (b"pipe_read", b"futex_wait", b"0")
    assert [second.wait_channel(name) for name in names] == [3, 2, 0]
    second.close()
    assert json.loads((tmp_path / NAMES).read_text().splitlines()[-1])["name"] == "pipe_read"
