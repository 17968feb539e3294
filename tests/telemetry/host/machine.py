"""A small machine as files: two cores, a disk with a partition, two interfaces, cgroup v2."""

from __future__ import annotations

from pathlib import Path

from gputel.telemetry.clock import SECOND
from gputel.telemetry.host import recorder, seconds
from gputel.telemetry.host.gpu_users import INITIAL
from gputel.telemetry.host.recorder import HostRecorder
from gputel.telemetry.machine import GpuUser, GpuUsers, UserLook
from tests.telemetry.conftest import SteppedClock

STAT = """cpu  1000 10 200 5000 30 4 6 50 0 0
cpu0 600 5 100 2500 10 2 3 25 0 0
cpu1 400 5 100 2500 20 2 3 25 0 0
intr 1 2 3
procs_running 3
procs_blocked 1
"""
PRESSURE = (
    "some avg10=1.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={}\n"
)
MEMINFO = """MemTotal:       16000000 kB
MemFree:         1000000 kB
MemAvailable:   12000000 kB
Cached:          3000000 kB
SwapTotal:       2000000 kB
SwapFree:        1500000 kB
Dirty:               640 kB
Writeback:             0 kB
Shmem:           1000000 kB
"""
VMSTAT = """pswpin 100
pswpout 200
pgmajfault 7
allocstall_dma 1
allocstall_normal 4
workingset_refault_anon 5
workingset_refault_file 60
oom_kill 2
"""
SNMP = """Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoAlgorithm OutSegs RetransSegs
Tcp: 1 5000 12
"""
DISKSTATS = """   7       0 loop0 9 0 9 9 0 0 0 0 0 9 9
 259       0 nvme0n1 100 5 4096 50 20 1 2048 80 3 900 130
 259       1 nvme0n1p1 90 5 4000 40 20 1 2048 80 0 900 130
"""
NET = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  eth0:1048576 10 1 2 0 0 0 0 2097152 20 3 4 0 0 0 0
"""  # noqa: E501


def make(root: Path) -> Path:
    """Write the machine's files under `root`, which it returns."""
    files = {
        "proc/stat": STAT,
        "proc/pressure/cpu": PRESSURE.format(11, 0),
        "proc/pressure/io": PRESSURE.format(22, 21),
        "proc/pressure/memory": PRESSURE.format(33, 32),
        "proc/meminfo": MEMINFO,
        "proc/vmstat": VMSTAT,
        "proc/loadavg": "1.25 0.50 0.25 3/400 12345\n",
        "proc/net/snmp": SNMP,
        "proc/net/dev": NET,
        "proc/diskstats": DISKSTATS,
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "proc/self/ns").mkdir(parents=True, exist_ok=True)
    (root / "proc/self/ns/pid").symlink_to(INITIAL)
    (root / "sys/block/nvme0n1").mkdir(parents=True, exist_ok=True)
    (root / "sys/block/loop0").mkdir()
    return root


def write_process(
    root: Path,
    pid: int,
    parent: int,
    *,
    cpu: int = 0,
    state: str = "S",
    name: str = "python",
    threads: int = 4,
    ran: int = 1,
) -> None:
    """Write the files of a process; `ran` is the nanoseconds of its main thread."""
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    fields = [state, parent, 1, 1, 0, -1, 0, 0, 0, 3, 0, cpu, 0, 7, 0, 20, 0, threads, 0, 100 + pid, 0, 256]
    (folder / "stat").write_text(f"{pid} ({name}) {' '.join(map(str, fields))} 0 0\n")
    (folder / "io").write_text(
        "rchar: 3\nwchar: 4\nsyscr: 1\nsyscw: 1\nread_bytes: 8192\nwrite_bytes: 4096\ncancelled_write_bytes: 0\n"
    )
    (folder / "schedstat").write_text(f"{ran} 5000 2\n")
    (folder / "wchan").write_text("do_wait")


class MachineRecording:
    """Records ticks of the machine under `root`; `change` writes one of its files."""

    def __init__(self, tmp_path: Path, budget: float = recorder.BUDGET, command: int | None = None) -> None:
        self.folder, self.root = tmp_path / "run", make(tmp_path / "machine")
        self.events: list[tuple[str, str]] = []
        self.clock = SteppedClock()
        self.users: dict[str, UserLook] = {}
        self.recorder = HostRecorder(
            self.folder,
            self.clock,
            self._report,
            root=self.root,
            budget=budget,
            command=command,
            gpu_users=self.users,
        )
        self.recorder.open()
        self.ticks = 0

    def _report(self, kind: str, text: str, **facts: object) -> None:
        self.events.append((kind, text))

    def run(self, ticks: int) -> None:
        for _ in range(ticks):
            self.recorder.tick(self.ticks, self.clock.now)
            self.ticks += 1
            self.clock.advance(SECOND // 10)

    def use(self, gpu: str, *users: GpuUser) -> None:
        """Let the driver say from now on that these use a GPU."""
        self.users[gpu] = UserLook(GpuUsers(users), self.clock.now + 3600 * SECOND)

    def change(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def seconds(self, table: str) -> dict[str, list[object]]:
        return seconds.seconds(self.folder / table).to_dict(as_series=False)
