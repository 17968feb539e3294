"""A recorded training whose steps are slowed for a while -> the cause that the report gives, one row a cause.

`python benchmarks/slow_steps.py --out FOLDER --seed 1 [CAUSE ...]`, as root: it makes control groups of version 1.
The slow stretch begins at a moment of the seed. The training has a large share of the CPU, so that what else runs
on the machine does not slow it; the neighbors that are planted share it with the training.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from gputel.analysis.report.run_report import make_report
from gputel.analysis.runs import read_run

TRAINING = Path(__file__).parent / "plants" / "slow_training.py"
GROUPS = Path("/sys/fs/cgroup")
SAMPLES_MIB = 256
SLOW_S = 20.0
LIMIT = 1 << 30
CAUSES = {
    "undisturbed": (),
    "quota": ("throttled by its own limit of CPU",),
    "storage": ("input: slow storage",),
    "neighbors": ("starved by other programs",),
    "memory": ("killed by its limit of memory",),
}
"""What is planted, and the answers that are right."""


@contextlib.contextmanager
def control_group(controller: str, name: str) -> Iterator[Path]:
    group = GROUPS / controller / name
    group.mkdir()
    try:
        yield group
    finally:
        for _ in range(50):
            for pid in (group / "cgroup.procs").read_text().split():  # workers whose trainer was killed
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


def record(cause: str, folder: Path, rng: random.Random) -> Path:
    """Records the training in groups of its own, and slows it."""
    data, run = folder / "data", folder / cause
    if not data.exists():
        data.write_bytes(os.urandom(SAMPLES_MIB << 20))
    with contextlib.ExitStack() as stack:
        groups = {
            controller: stack.enter_context(control_group(controller, f"gputel-why-{os.getpid()}"))
            for controller in ("cpu", "memory", "blkio")
        }
        (groups["cpu"] / "cpu.shares").write_text("20000")
        joined = " && ".join(f"echo $$ > {group}/cgroup.procs" for group in groups.values())
        words = [
            sys.executable,
            "-m",
            "gputel",
            "record",
            "--out",
            str(run),
            "--",
            sys.executable,
            str(TRAINING),
        ]
        command = f"{joined} && exec {' '.join(words)} 1000000 {data}"
        process = subprocess.Popen(
            ["sh", "-c", command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(12 + rng.uniform(SLOW_S, 1.5 * SLOW_S))
        with plant(cause, groups, data), contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(SLOW_S)
        time.sleep(3)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(60)
    return run


@contextlib.contextmanager
def plant(cause: str, groups: dict[str, Path], data: Path) -> Iterator[None]:
    """Slows the training while the context is open."""
    if cause == "quota":
        (groups["cpu"] / "cpu.cfs_quota_us").write_text("30000")
        yield
        (groups["cpu"] / "cpu.cfs_quota_us").write_text("-1")
    elif cause == "storage":
        limit = groups["blkio"] / "blkio.throttle.read_bps_device"
        limit.write_text(f"{device(data)} 2097152")
        yield
        limit.write_text(f"{device(data)} 0")
    elif cause == "neighbors":
        loop = f"echo $$ > {groups['cpu']}/cgroup.procs; while :; do :; done"
        loops = [subprocess.Popen(["sh", "-c", loop]) for _ in range(6)]
        yield
        for process in loops:
            process.kill()
            process.wait()
    elif cause == "memory":
        (groups["memory"] / "memory.limit_in_bytes").write_text(str(LIMIT))
        data.with_suffix(".grow").touch()
        yield
        data.with_suffix(".grow").unlink()
    else:
        yield


def device(path: Path) -> str:
    number = path.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def answer(run: Path) -> tuple[str, list[str]]:
    verdicts = {verdict.question: verdict for verdict in make_report(read_run(run)).verdicts}
    found = verdicts["bottleneck"]
    return found.answer, list(found.evidence)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("causes", nargs="*", choices=[*CAUSES, []], default=[])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="where recordings are kept, and found again")
    options = parser.parse_args()
    if os.geteuid() or not (GROUPS / "blkio").is_dir():
        print("not measured: it takes root and control groups of version 1")
        return
    options.out = options.out or Path(tempfile.mkdtemp())
    options.out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(options.seed)
    for cause in options.causes or CAUSES:
        run = options.out / cause
        found, evidence = answer(run if run.exists() else record(cause, options.out, rng))
        print(f"| {cause} | {found} | {'; '.join(evidence)} |", flush=True)


if __name__ == "__main__":
    main()
