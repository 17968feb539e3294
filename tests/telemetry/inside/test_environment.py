"""The folder in memory, and the variables of the command."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gputel.telemetry.inside import environment
from gputel.telemetry.inside.environment import HOOK, Inside, Level

CONTAINER = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child")
RECORDER = """
import sys
from gputel.telemetry.inside import environment
print(environment.enter("stacks", roots=(sys.argv[1],)).folder, flush=True)
input()
"""


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory that no recorder of another test looks into: each removes what killed ones have left."""
    root = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield root
    shutil.rmtree(root)


@pytest.fixture
def enter(memory: Path) -> Iterator[Callable[..., Inside]]:
    """Enters there, and leaves when the test ends."""
    entered: list[Inside] = []

    def stay(level: Level = "stacks", **options: Any) -> Inside:
        entered.append(environment.enter(level, roots=(str(memory),), **options))
        return entered[-1]

    yield stay
    for inside in entered:
        environment.leave(inside)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, f"{HOOK}"),
        ({"PYTHONPATH": ""}, f"{HOOK}"),
        ({"PYTHONPATH": "."}, f"{HOOK}:."),
        ({"PYTHONPATH": ":u:"}, f"{HOOK}::u:"),
        ({"PYTHONPATH": f"{HOOK}:u", "GPUTEL_INSIDE_AT": "stacks:/outer"}, f"{HOOK}:u"),
    ],
)
def test_hook_is_first_on_the_path_and_nothing_else_is_added(before: dict[str, str], after: str) -> None:
    env = Inside("stacks", Path("/dev/shm/x")).environment({**before, "HOME": "/me"})
    assert env == {"HOME": "/me", "PYTHONPATH": after, "GPUTEL_INSIDE_AT": "stacks:/dev/shm/x"}


def test_outer_recording_is_left_when_the_inner_one_is_off() -> None:
    outer = Inside("stacks", Path("/dev/shm/x")).environment({"PYTHONPATH": "u"})
    assert Inside("off").environment(outer) == {"PYTHONPATH": "u"}
    assert Inside("off").environment({"PYTHONPATH": ""}) == {"PYTHONPATH": ""}


def test_recording_that_is_off_names_its_folder_and_brings_no_hook() -> None:
    env = Inside("off", Path("/dev/shm/x")).environment({"PYTHONPATH": "u"})
    assert env == {"PYTHONPATH": "u", "GPUTEL_INSIDE_AT": "off:/dev/shm/x"}


def test_folder_in_which_a_process_still_writes_is_kept(memory: Path, enter: Callable[..., Inside]) -> None:
    folder = enter("off").folder
    assert folder
    left = folder.with_name("999999999-left")
    left.mkdir()
    (left / f"{os.getpid()}-1.jsonl").touch()
    environment.leave(environment.enter("off", roots=(str(memory),)))
    assert left.exists()


def test_folder_is_of_its_user_alone_and_gone_at_the_end() -> None:
    inside = environment.enter("stacks")
    folder = inside.folder
    assert folder
    assert folder.stat().st_mode & 0o777 == 0o700
    assert environment.own_folder({"folder": str(folder)}) == folder
    environment.leave(inside)
    assert not folder.exists()
    assert environment.own_folder({"folder": str(folder)}) is None


def test_folder_that_is_not_in_memory_is_refused_with_the_reason() -> None:
    inside = environment.enter("stacks", roots=("/proc",))
    assert (inside.level, inside.folder, inside.reason) == ("off", None, "/proc is not in memory")


def test_installation_with_a_colon_in_its_path_is_refused_with_the_reason(
    enter: Callable[..., Inside],
) -> None:
    inside = enter(hook=Path("/a:b/hook"))
    assert inside.reason == "PYTHONPATH cannot name /a:b/hook: a colon is in it"


def test_folder_of_a_killed_recorder_is_removed_by_the_next(enter: Callable[..., Inside]) -> None:
    folder = enter().folder
    assert folder
    left = folder.with_name("999999999-left")
    left.mkdir()
    enter()
    assert not left.exists()
    assert folder.exists()


@pytest.mark.parametrize(
    "named", ["/etc", "/dev/shm", "/dev/shm/gputel-0/../..", "/dev/shm/gputel-0/\0", None, 7]
)
def test_folder_that_no_recorder_of_this_user_made_is_not_asked(named: object) -> None:
    """run.json may be anybody's."""
    assert environment.own_folder({"folder": named}) is None


def test_folder_that_another_recorder_removes_meanwhile_is_made_again(memory: Path) -> None:
    above, is_done = memory / f"gputel-{os.getuid()}", threading.Event()

    def remove() -> None:
        while not is_done.is_set():
            with contextlib.suppress(OSError):
                above.rmdir()

    remover = threading.Thread(target=remove)
    remover.start()
    try:
        for _ in range(400):
            inside = environment.enter("stacks", roots=(str(memory),))
            assert not inside.reason
            environment.leave(inside)
    finally:
        is_done.set()
        remover.join()


def can_unshare() -> bool:
    """Whether a process can have a PID namespace of its own."""
    try:
        return subprocess.run([*CONTAINER, "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def recorder(memory: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [*CONTAINER, sys.executable, "-c", RECORDER, memory], stdin=-1, stdout=-1, text=True
    )
    assert process.stdout
    return process, Path(process.stdout.readline().strip())


@pytest.mark.skipif(not can_unshare(), reason="no PID namespace can be made here")
def test_recorder_in_another_container_keeps_its_folder_until_it_is_killed(memory: Path) -> None:
    first, folder = recorder(memory)
    folder = folder.rename(folder.with_name("999999999-other"))  # a process id that the second has not
    second, _ = recorder(memory)
    assert folder.exists()
    for process in (first, second):
        process.kill()
        process.communicate()
    third, _ = recorder(memory)
    assert not folder.exists()
    third.kill()
    third.communicate()


def test_folder_that_another_recorder_removes_before_it_is_locked_is_made_again(
    enter: Callable[..., Inside], monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, removed = environment.hold, list[Path]()

    def hold(folder: Path) -> int:
        if not removed:
            removed.append(folder)
            folder.rmdir()
        return lock(folder)

    monkeypatch.setattr(environment, "hold", hold)
    inside = enter()
    assert inside.folder
    assert inside.folder not in removed


def test_folder_that_its_recorder_removes_while_others_look_has_no_files(memory: Path) -> None:
    folder, looks = memory / "a", 0
    removing = threading.Thread(target=_make_and_remove, args=(folder, 20_000))
    removing.start()
    while removing.is_alive():
        assert environment.files(folder, environment.ROWS) == []
        looks += 1
    assert looks


def _make_and_remove(folder: Path, times: int) -> None:
    for _ in range(times):
        folder.mkdir()
        folder.rmdir()
