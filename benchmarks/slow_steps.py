"""Why were steps slow? Recorded trainings are slowed for a while on purpose, and the report's cause is checked.

    python benchmarks/slow_steps.py [--seed N] [--each N] [--causes quota,storage,...] [--out FOLDER]

Without root or control groups of version 1 it plants only what needs neither. When the slow stretch begins,
and how hard it is, follow from the seed. As root, the training has a large share of the CPU, so that what else runs
on the machine does not slow it; the neighbors that are planted share it with the training. Recordings are kept in
build/: the same command again goes on where it was stopped, and judges anew what is recorded. Prints a row a
training, then what came of each cause; `--keep` appends the figures to results/slow_steps.jsonl, by which a test
judges each change of the rules; `--sum SEED,SEED,...` only prints what came of those that were kept, with recall
and precision of each cause; `--check` fails unless every plant slowed the steps and was answered right.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import polars as pl
from plants.slow_causes import CAUSES, NO_CAUSE, UNDISTURBED, Place, Plant, run

from gputel.analysis.report.machine_seconds import Figures, figures, open_machine, slow_seconds
from gputel.analysis.report.run_report import make_report
from gputel.analysis.report.verdicts import UNKNOWN, Case
from gputel.analysis.runs import read_run

PLANTS = Path(__file__).parent / "plants"
RESULTS = Path(__file__).parent / "results" / "slow_steps.jsonl"
GROUPS = Path("/sys/fs/cgroup")
KEPT = Path(__file__).parents[1] / "build" / "slow_steps"
SAMPLES_MIB, SWAP_MIB = 256, 512
START_S, USUAL_S, SLOW_S = 6.0, (8.0, 14.0), 10.0
TORCH_S = 6.0
"""How much longer a training with PyTorch takes to start."""
ADDRESS, PEER, PORT = "10.211.{}.1", "10.211.{}.2", 29_500


@dataclass(frozen=True)
class Judged:
    """`slowed` is the mean step of the slow stretch by that of the one before; None if the run ended before it.

    `slow` and `usual` are the figures of the slow seconds and of the others, empty where no steps were slow.
    """

    cause: str
    number: int
    slowed: float | None
    answer: str
    evidence: tuple[str, ...] = ()
    slow: Figures = field(default_factory=dict)
    usual: Figures = field(default_factory=dict)


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


@contextlib.contextmanager
def late_files(data: Path) -> Iterator[Path]:
    """The data in a file system of another program."""
    folder = data.with_suffix(".mounted")
    folder.mkdir(exist_ok=True)
    process = subprocess.Popen([sys.executable, str(PLANTS / "late_files.py"), str(folder), str(data)])
    try:
        while not (folder / data.name).exists():
            time.sleep(0.05)
        yield folder / data.name
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)
        process.kill()
        process.wait()


@contextlib.contextmanager
def swap_file(folder: Path) -> Iterator[None]:
    file = folder / "swap"
    run("fallocate", "-l", f"{SWAP_MIB}M", str(file))
    file.chmod(0o600)
    subprocess.run(["mkswap", str(file)], check=True, stdout=subprocess.DEVNULL)
    run("swapon", str(file))
    try:
        yield
    finally:
        run("swapoff", str(file))
        file.unlink()


@contextlib.contextmanager
def other_host(number: int) -> Iterator[str]:
    """A network namespace at the end of a link; yields this end."""
    name, ends = f"gputel{number}", (f"gt{number}a", f"gt{number}b")
    run("ip", "netns", "add", name)
    try:
        run("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1], "netns", name)
        run("ip", "addr", "add", f"{ADDRESS.format(number)}/24", "dev", ends[0])
        run("ip", "link", "set", ends[0], "up")
        run("ip", "-n", name, "addr", "add", f"{PEER.format(number)}/24", "dev", ends[1])
        for interface in (ends[1], "lo"):
            run("ip", "-n", name, "link", "set", interface, "up")
        with socket.socket(type=socket.SOCK_DGRAM) as first:  # a link that carried nothing is not recorded
            first.sendto(b"", (PEER.format(number), PORT))
        yield ends[0]
    finally:
        run("ip", "netns", "del", name)


def is_privileged() -> bool:
    return os.geteuid() == 0 and (GROUPS / "blkio").is_dir()


def command(plant: Plant, data: Path, host: int) -> str:
    """The training as words of a shell: one process, or a rank here and one in the other namespace."""
    train = shlex.join(
        [sys.executable, str(PLANTS / "slow_training.py"), "1000000", str(data), str(plant.workers)]
    )
    train = f"{train} {plant.words}"
    if "ranks" not in plant.words:
        return train
    meet = f"MASTER_ADDR={ADDRESS.format(host)} MASTER_PORT={PORT + host} WORLD_SIZE=2 OMP_NUM_THREADS=1"
    there = f"RANK=1 GLOO_SOCKET_IFNAME=gt{host}b ip netns exec gputel{host} {train} > {data}.rank1 2>&1"
    here = f"RANK=0 GLOO_SOCKET_IFNAME=gt{host}a exec {train}"
    return f"sh -c {shlex.quote(f'export {meet}; {there} & {here}')}"


def record(plant: Plant, folder: Path, run_folder: Path, chance: random.Random) -> float | None:
    """Records the training in groups of its own and slows it; returns when, in seconds since 1970."""
    data = folder / "data"
    if not data.exists():
        data.write_bytes(os.urandom(SAMPLES_MIB << 20))
    host = os.getpid() % 250
    with contextlib.ExitStack() as stack:
        groups = {
            controller: stack.enter_context(control_group(controller, f"gputel-why-{os.getpid()}"))
            for controller in (("cpu", "memory", "blkio") if is_privileged() else ())
        }
        if "cpu" in groups:
            (groups["cpu"] / "cpu.shares").write_text("20000")
        read = stack.enter_context(late_files(data)) if "remote" in plant.words else data
        if "swap" in plant.words:
            stack.enter_context(swap_file(folder))
        interface = stack.enter_context(other_host(host)) if "ranks" in plant.words else ""
        joined = "".join(f"echo $$ > {group}/cgroup.procs && " for group in groups.values())
        level = "steps" if "torch" in plant.words else "off"
        recorder = f"{sys.executable} -m gputel record --inside {level} --out {run_folder} --"
        process = subprocess.Popen(
            ["sh", "-c", f"{joined}exec {recorder} {command(plant, read, host)}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        started = START_S + ("torch" in plant.words) * TORCH_S
        time.sleep(started + chance.uniform(*USUAL_S))
        began = time.time()
        place = Place(groups, data, interface)
        with plant.change(place, chance), contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(SLOW_S)
        time.sleep(2)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(60)
    return began


def judge(cause: str, number: int, recording: Path) -> Judged:
    subject = read_run(recording)
    began = float((recording / "slowed_at").read_text())
    records = subject.log.records.select("dt_ms", at=pl.col("time").dt.epoch("us") / 1e6)
    before = records.filter(pl.col("at") < began)["dt_ms"].mean()
    during = records.filter(pl.col("at").is_between(began + 1, began + SLOW_S))["dt_ms"].mean()
    slowed = float(during) / float(before) if during and before else None  # type: ignore[arg-type]
    report = make_report(subject)
    found = next(verdict for verdict in report.verdicts if verdict.question == "bottleneck")
    answer = NO_CAUSE if found.answer == UNKNOWN else found.answer
    return Judged(cause, number, slowed, answer, found.evidence, *both_figures(report.case))


def both_figures(case: Case) -> tuple[Figures, Figures]:
    """The figures of the slow seconds and of the others, with four digits."""
    seconds = slow_seconds(case.steps, case.clock_error_s)
    machine = open_machine(case.subject.recording) if case.subject.recording else None
    if seconds is None or machine is None:
        return {}, {}
    both = figures(machine, seconds.slow, seconds.step_s), figures(machine, seconds.usual)
    slow, usual = (
        {name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in each.items()}
        for each in both
    )
    return slow, usual


def judgments(folder: Path, seed: int, causes: Sequence[str], each: int) -> Iterator[Judged]:
    """Records what is missing, a training of each cause in turn, and judges all."""
    for number, cause in enumerate(list(causes) * each):
        recording = folder / f"{number:03d}-{cause}"
        if not recording.exists():
            unfinished = folder / "unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            chance = random.Random(f"{seed} {recording.name}")
            began = record(CAUSES[cause], folder, unfinished, chance)
            (unfinished / "slowed_at").write_text(str(began))
            unfinished.rename(recording)
        yield judge(cause, number, recording)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=10)
    parser.add_argument("--most", type=int, help="trainings in all")
    parser.add_argument("--causes", default=",".join([*CAUSES, UNDISTURBED, UNDISTURBED]))
    parser.add_argument("--out", type=Path, default=KEPT)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--sum", metavar="SEEDS")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    if asked.sum:
        print("\n".join(shares(kept([int(seed) for seed in asked.sum.split(",")]))))
        return
    wanted = asked.causes.split(",")
    causes = [cause for cause in wanted if is_privileged() or not CAUSES[cause].privileged]
    if missing := sorted({*wanted} - {*causes}):
        print(f"not planted, as that takes root and control groups of version 1: {', '.join(missing)}")
    folder = asked.out / str(asked.seed)
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    trainings = judgments(folder, asked.seed, causes, asked.each)
    for each in islice(trainings, asked.most):
        found.append(each)
        slowed = "ended" if each.slowed is None else f"{each.slowed:.2f}"
        evidence = "; ".join(each.evidence)
        print(f"| {each.number} | {each.cause} | {slowed} | {each.answer} | {evidence} |", flush=True)
    print("\n".join(matrix(found)))
    if asked.keep:
        with RESULTS.open("a") as file:
            for each in found:
                rows = {"seed": asked.seed, **vars(each)}
                del rows["evidence"]
                file.write(json.dumps(rows) + "\n")
    if asked.check and not all(is_right(each) for each in found):
        sys.exit("a plant did not slow the steps, or its answer is wrong")


def kept(seeds: Sequence[int]) -> list[Judged]:
    """The judged trainings of these seeds that count."""
    rows = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    found = [Judged(**each) for each in rows if each.pop("seed") in seeds]
    return [each for each in found if CAUSES[each.cause].counts(each.slowed)]


def shares(found: Sequence[Judged]) -> list[str]:
    """A row a cause: how often its plants were named, and how often its name was right.

    A slow GPU and an undisturbed training are right if nothing is named.
    """
    rows = [
        "| planted | slowed | right | no cause | another cause | recall, % | named in all | precision, % |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for cause, plant in CAUSES.items():
        answers = [each.answer for each in found if each.cause == cause]
        hits, silent = sum(map(plant.answers.__contains__, answers)), answers.count(NO_CAUSE)
        is_silent = NO_CAUSE in plant.answers
        others = len(answers) - hits - silent * (not is_silent)
        row = f"| {cause} | {len(answers)} | {hits} | {silent} | {others} | {share(hits, len(answers))} |"
        named = sum(each.answer in plant.answers for each in found)
        rows.append(f"{row}  |  |" if is_silent else f"{row} {named} | {share(hits, named)} |")
    planted = [each for each in found if NO_CAUSE not in CAUSES[each.cause].answers]
    given = [each for each in found if each.answer != NO_CAUSE]
    right = sum(each.answer in CAUSES[each.cause].answers for each in given)
    return [
        *rows,
        "",
        f"All causes: {right} of {len(planted)} are named ({share(right, len(planted))} %), and "
        f"{right} of {len(given)} names are right ({share(right, len(given))} %).",
    ]


def share(hits: int, of: int) -> str:
    """A share with the interval of Wilson that holds it 19 times in 20."""
    if not of:
        return ""
    z, part = 1.96, hits / of
    middle, half = part + z * z / (2 * of), z * math.sqrt(part * (1 - part) / of + z * z / (4 * of * of))
    low, high = ((middle + sign * half) / (1 + z * z / of) for sign in (-1, 1))
    return f"{100 * part:.0f}, {100 * low:.0f} to {100 * min(high, 1):.0f}"


def is_right(judged: Judged) -> bool:
    plant = CAUSES[judged.cause]
    return plant.counts(judged.slowed) and judged.answer in plant.answers


def matrix(found: Sequence[Judged]) -> list[str]:
    """A row a cause: how many slowed the steps, what was answered, and how often each answer was right."""
    rows = ["| planted | slowed | right | no cause | another cause |", "|---|---|---|---|---|"]
    named, right = 0, 0
    for cause, plant in CAUSES.items():
        judged = [each for each in found if each.cause == cause and plant.counts(each.slowed)]
        answers = Counter(each.answer for each in judged)
        hits = sum(answers.pop(answer, 0) for answer in plant.answers)
        silent = answers.pop(NO_CAUSE, 0)
        others = ", ".join(f"{answer} {count}" for answer, count in answers.most_common()) or "0"
        rows.append(f"| {cause} | {len(judged)} | {hits} | {silent} | {others} |")
        if NO_CAUSE not in plant.answers:
            right += hits
        named += answers.total() + (NO_CAUSE not in plant.answers) * hits
    return [*rows, "", f"Of {named} causes that were named, {right} were right."]


if __name__ == "__main__":
    main()
