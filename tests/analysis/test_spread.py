"""Work in several processes: order, warnings, and what becomes of items whose worker dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from gputel.analysis.spread import spread, workers_for
from gputel.telemetry.host.cgroup import usable_cores
from tests.recordings import until

FATAL = 13


def square(items: Sequence[int], folder: Path | None = None, warned: int = -1) -> Iterator[int]:
    """Squares; FATAL kills the process, and with a folder only the first one that meets it."""
    for item in items:
        if item == FATAL and (folder is None or not (folder / "killed").exists()):
            if folder:
                (folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if item == warned:
            warnings.warn("odd", stacklevel=1)
        yield item * item


def negative(item: int) -> int:
    return -item


def one(_item: int) -> float:
    return 1


@pytest.mark.long
def test_results_come_in_the_order_of_the_items_and_warnings_reach_the_caller() -> None:
    with pytest.warns(UserWarning, match="odd"):
        results = list(spread(partial(square, warned=7), range(12), 2, float, negative))
    assert results == [item * item for item in range(12)]


@pytest.mark.long
def test_worker_that_is_killed_once_costs_no_result(tmp_path: Path) -> None:
    results = spread(partial(square, folder=tmp_path), range(30), 2, one, negative)
    assert list(results) == [item * item for item in range(30)]
    assert (tmp_path / "killed").exists()


@pytest.mark.long
def test_item_that_kills_every_worker_is_the_only_one_that_is_lost() -> None:
    results = list(spread(square, range(10, 16), 1, one, negative))
    assert results == [100, 121, 144, -FATAL, 196, 225]


UNLUCKY = 12


def square_unluckily(items: Sequence[int], folder: Path) -> Iterator[int]:
    """FATAL kills each process, UNLUCKY the first one that works on it alone."""
    for item in items:
        if items == [UNLUCKY] and not (folder / "killed").exists():
            (folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from square([item])


@pytest.mark.long
def test_item_whose_process_is_killed_once_while_it_is_alone_is_not_lost(tmp_path: Path) -> None:
    """It is in the batch of the item that has broken the pools."""
    results = spread(partial(square_unluckily, folder=tmp_path), range(10, 16), 1, lambda _: 0.1, negative)
    assert list(results) == [100, 121, 144, -FATAL, 196, 225]
    assert (tmp_path / "killed").exists()


def test_no_items_give_no_results() -> None:
    assert list(spread(square, [], 2, one, negative)) == []


def test_workers_are_started_only_where_they_cost_a_seventh_of_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gputel.telemetry.host.cgroup.usable_cores", lambda: 8)
    assert [workers_for(cpu_s) for cpu_s in (0, 5, 10, 1000)] == [1, 1, 2, 8]
    monkeypatch.undo()
    assert workers_for(1e6) == usable_cores()


ENDLESS = """
import sys, time
from pathlib import Path
from gputel.analysis.spread import spread
from tests.analysis.test_spread import one, wait_for_ever, negative

if __name__ == "__main__":
    list(spread(wait_for_ever, [Path(sys.argv[1])], 1, one, negative))
"""


def wait_for_ever(items: Sequence[Path]) -> list[int]:
    for folder in items:
        (folder / "draft").write_text(str(os.getpid()))
        (folder / "draft").rename(folder / "pid")
        threading.Event().wait()
    return []


@pytest.mark.long
def test_worker_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    with subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)], env={**os.environ, "PYTHONPATH": "."}
    ) as parent:
        until((tmp_path / "pid").exists, "the worker's pid")
        worker = int((tmp_path / "pid").read_text())
        parent.kill()
    until(lambda: not is_running(worker), "the worker's end")


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_reading_one_log_loads_nothing_for_many() -> None:
    loads = "import sys, gputel.analysis.runs.paths; sys.exit('multiprocessing' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", loads], check=False).returncode == 0
