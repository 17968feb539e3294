"""Which processes of the command use which GPU, and who else, outside and inside of containers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gputel.telemetry.clock import SECOND
from gputel.telemetry.host.gpu_users import INITIAL, GpuUsage, GpuUse
from gputel.telemetry.host.process_names import NAMES, ProcessNames
from gputel.telemetry.machine import COMMAND, GpuUser, GpuUsers, UserLook
from tests.telemetry.conftest import SteppedClock
from tests.telemetry.host.machine import write_process

FOLLOWED = {10: 110, 11: 111}


class Users:
    """The command 10 and its child 11 on a machine under `root`."""

    def __init__(self, root: Path, *, container: bool = False) -> None:
        self.root, self.clock = root, SteppedClock()
        self.latest: dict[str, UserLook] = {}
        (root / "proc/self/ns").mkdir(parents=True)
        (root / "proc/self/ns/pid").symlink_to("pid:[4026532000]" if container else INITIAL)
        for pid, parent in ((10, 1), (11, 10), (30, 1)):
            write_process(root, pid, parent, name=f"program-{pid}")
            (root / f"proc/{pid}/comm").write_text(f"program-{pid}\n")
        self.names = ProcessNames(root / "run", root, self.clock)
        self.usage = GpuUsage(root, self.clock, 10, self.names, self.latest)

    def open_device(self, pid: int, device: str = "/dev/nvidia0") -> None:
        folder = self.root / f"proc/{pid}/fd"
        folder.mkdir()
        (folder / "3").symlink_to(device)

    def say(self, gpu: str, *users: GpuUser) -> None:
        self.latest[gpu] = UserLook(GpuUsers(users), self.clock.now + SECOND)

    def written(self) -> list[dict[str, object]]:
        self.names.close()
        return [json.loads(line) for line in (self.root / "run" / NAMES).read_text().splitlines()]


def test_process_has_a_bit_for_each_gpu_and_the_sum_of_what_it_uses(tmp_path: Path) -> None:
    users = Users(tmp_path)
    users.say("0", GpuUser(11, 700, 95))
    users.say("1", GpuUser(11, 80, 5), GpuUser(10, None, None))
    assert users.usage.look(FOLLOWED) == {11: GpuUse(0b11, 780, 100), 10: GpuUse(0b10, None, None)}
    assert [(line["gpu"], line["name"]) for line in users.written()] == [(0, "0"), (1, "1")]


def test_sum_is_null_if_a_part_is_not_known(tmp_path: Path) -> None:
    users = Users(tmp_path)
    users.say("0", GpuUser(11, 700, 95))
    users.say("1", GpuUser(11, None, 5))
    assert users.usage.look(FOLLOWED) == {11: GpuUse(0b11, None, 100)}


def test_other_program_of_the_machine_is_named(tmp_path: Path) -> None:
    users = Users(tmp_path)
    users.say("0", GpuUser(30, 700, None))
    assert users.usage.look(FOLLOWED) == {}
    assert users.usage.strangers == {(30, 130): GpuUse(1, 700, None)}
    assert [(line["process"], line["name"], line["role"]) for line in users.written() if "role" in line] == [
        ("30.130", "program-30", "other")
    ]


def test_number_of_the_host_that_equals_one_in_the_container_is_no_match(tmp_path: Path) -> None:
    users = Users(tmp_path, container=True)
    users.say("0", GpuUser(11, 700, None))
    assert users.usage.look(FOLLOWED) == {}
    assert users.usage.strangers == {(11, 0): GpuUse(1, 700, None)}
    assert [line["role"] for line in users.written() if "role" in line] == ["unseen"]


def test_number_in_a_container_counts_if_its_process_has_a_device_open(tmp_path: Path) -> None:
    users = Users(tmp_path, container=True)
    users.open_device(11)
    users.say("0", GpuUser(11, 700, None))
    assert users.usage.look(FOLLOWED) == {11: GpuUse(1, 700, None)}


def test_only_number_that_is_not_seen_is_that_of_the_only_process_with_a_device(tmp_path: Path) -> None:
    users = Users(tmp_path, container=True)
    users.open_device(11, "/dev/nvidiactl")
    users.say("0", GpuUser(18_000, 700, None))
    assert users.usage.look(FOLLOWED) == {11: GpuUse(1, 700, None)}
    assert users.usage.strangers == {}


@pytest.mark.parametrize(("opened", "said"), [([10, 11], [18_000]), ([11], [18_000, 18_001]), ([], [18_000])])
def test_numbers_that_could_be_several_processes_are_users_that_cannot_be_seen(
    tmp_path: Path, opened: list[int], said: list[int]
) -> None:
    users = Users(tmp_path, container=True)
    for pid in opened:
        users.open_device(pid)
    users.say("0", *(GpuUser(pid, 700, None) for pid in said))
    assert users.usage.look(FOLLOWED) == {}
    assert users.usage.strangers == {(pid, 0): GpuUse(1, 700, None) for pid in said}


def test_user_of_a_simulated_gpu_is_the_command(tmp_path: Path) -> None:
    users = Users(tmp_path, container=True)
    users.say("0", GpuUser(COMMAND, 700, 9))
    assert users.usage.look(FOLLOWED) == {10: GpuUse(1, 700, 9)}


def test_answer_that_is_too_old_no_longer_stands(tmp_path: Path) -> None:
    users = Users(tmp_path)
    users.say("0", GpuUser(11, 700, 95), GpuUser(30, 1, 1))
    users.usage.look(FOLLOWED)
    users.clock.advance(2 * SECOND)
    assert users.usage.look(FOLLOWED) == {}
    assert users.usage.strangers == {}


def test_fault_of_each_gpu_is_said(tmp_path: Path) -> None:
    users = Users(tmp_path)
    users.latest["1"] = UserLook(GpuUsers((), "NotSupported"), 0)
    users.say("0")
    assert users.usage.faults() == "GPU 1: NotSupported"
