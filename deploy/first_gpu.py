"""What a machine with GPUs must show before this trainer is believed there: parts of about a minute, one Markdown
report that grows line by line.

    python deploy/first_gpu.py                     # every part, for at most seven minutes
    python deploy/first_gpu.py --only loss,resume

Needs `pip install "gputel[trainer]"`. The data are Python's standard library: nothing is fetched. Parts that
compare losses run at the same time; a part that measures time has the GPU to itself. What this machine cannot do is
skipped with the reason; a part that fails gives its command's last lines and does not stop the others.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

LIMIT_S = 420
AT_ONCE = 5
LAST_LINES = 25
GOALS = {12: 40.0, 16: 43.0, 20: 47.0}  # MFU in percent on H100s
WARM_STEPS = 10
LOSS = "largest difference of the mean loss of ten steps"
# Every run says how many tokens a step has: on a GPU the default is half a million, whatever the shape.
QUIET = "--eval-every 0 --save-every 0 --save-minutes 0 --total-batch-size".split()
TINY = (*"--depth 2 --steps 60 --device-batch-size 8 --seq 128".split(), *QUIET, "1024")
SMALL = (*"--depth 4 --steps 40 --device-batch-size 8 --seq 512".split(), *QUIET, "4096")
WIDE = (*"--depth 4 --dim 768 --steps 100 --no-compile".split(), *QUIET, "65536")
FULL = (*"--vocab 65536 --steps 20".split(), *QUIET, "131072")
D12 = ("--depth", "12", "--device-batch-size", "16")
FP32, EAGER = ("--dtype", "fp32"), "--no-compile"
# torchrun's only rank shards nothing: a group of one rank has to be made by hand.
SHARDED = """
import sys, tempfile, torch, torch.distributed as dist
from gputel.trainer.options import Options
from gputel.trainer.ranks import World, leave
from gputel.trainer.train import train
out, kind = sys.argv[1:]
place = dict(init_method=f"file://{tempfile.mkdtemp()}/group", rank=0, world_size=1)
dist.init_process_group("nccl" if kind == "cuda" else "gloo", **place)
size = dict(depth=4, seq=512, device_batch_size=8, total_batch_size=8192, steps=40, dtype="fp32")
quiet = dict(eval_every=0, save_every=20, save_minutes=0.0, compile=False, device=kind, shard="fsdp")
leave(train(Options(out=out, **size, **quiet), World(0, 0, 1, torch.device(kind))), failed=False)
"""


class PartError(Exception):
    """A command of a part failed; its last lines."""


class Machine(Protocol):
    gpus: list[str]  # as the driver lists them

    def run(self, command: Sequence[str], limit_s: float) -> str: ...


class RealMachine:
    def __init__(self) -> None:
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        try:
            self.gpus = self.run(query, 60).splitlines()
        except (PartError, FileNotFoundError):
            self.gpus = []

    def run(self, command: Sequence[str], limit_s: float) -> str:
        """What it printed; an error holds its last lines, also those of a command that does not end."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            with subprocess.Popen(command, stdout=out, stderr=err) as process:
                try:
                    fault = f"exit code {process.wait(limit_s)}"
                except subprocess.TimeoutExpired:
                    process.kill()
                    fault = f"did not end within {limit_s:.0f} s"
            texts = [(file.seek(0), file.read())[1] for file in (out, err)]
        if process.returncode:
            last = [line for text in texts for line in text.splitlines()[-LAST_LINES:]]
            raise PartError("\n".join([f"{fault}: {' '.join(command)}", *last]))
        return texts[0]


@dataclass
class Bench:
    """What the parts share: a folder, what is left of the time, and runs, of which none is made twice."""

    machine: Machine
    folder: Path
    ends_s: float
    runs: dict[tuple[str, ...], list[dict[str, Any]]] = field(default_factory=dict)

    def left_s(self) -> float:
        return self.ends_s - time.monotonic()

    def run(self, *command: str) -> str:
        print(f"{self.left_s():.0f} s left: {' '.join(command)}", file=sys.stderr, flush=True)
        return self.machine.run(command, max(1.0, self.left_s()))

    def train(
        self, name: str, *options: str, ranks: int = 1, recorded: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """The steps of a run of the trainer, as metrics.jsonl has them."""
        start = [sys.executable, "-m"]
        if ranks > 1:
            start += ["torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}", "-m"]
        out = str(self.folder / name)
        self.run(*recorded, *start, "gputel.trainer", "--out", out, *options)
        return self.rows(name, "step")

    def rows(self, name: str, event: str) -> list[dict[str, Any]]:
        lines = (self.folder / name / "metrics.jsonl").read_text().splitlines()
        return [row for row in map(json.loads, lines) if row["event"] == event]

    def once(self, name: str, *options: str) -> list[dict[str, Any]]:
        """As `train`, but a run that another part has made is taken from there."""
        if options not in self.runs:
            self.runs[options] = self.train(name, *options)
        return self.runs[options]

    def tried(self, name: str, option: str, *options: str) -> tuple[list[dict[str, Any]], str]:
        """The steps of a run, or the trainer's reason to refuse `option` on this machine."""
        try:
            return self.train(name, *options), ""
        except PartError as fault:
            refused = next((line for line in str(fault).splitlines() if line.startswith(option)), "")
            if not refused:
                raise
            return [], refused


def usual(steps: list[dict[str, Any]], figure: str) -> float | None:
    """The median after the first steps; None where it is not known."""
    values = [row[figure] for row in steps[WARM_STEPS:] if row[figure] is not None]
    return statistics.median(values) if values else None


def rate(steps: list[dict[str, Any]]) -> str:
    return f"{usual(steps, 'tok_per_sec'):,.0f} tokens a second"


def first_s(steps: list[dict[str, Any]]) -> str:
    return f"first step {steps[0]['dt_ms'] / 1e3:.1f} s"


def verdict(name: str, value: float | None, most: float, unit: str = "") -> str:
    """One line that says `ok` or `MISSED`; a figure that is not known is neither."""
    if value is None:
        return f"- {name}: not known"
    return f"- {name}: {value:.4g}{unit}, at most {most:g}{unit}: {'ok' if value <= most else '**MISSED**'}"


def largest_difference(steps: list[dict[str, Any]], others: list[dict[str, Any]]) -> float:
    """Of the mean losses of ten steps each, in percent of the second; infinite where one run is shorter: the loss
    of one step alone differs more between two runs that add in another order."""
    if len(steps) != len(others) or not steps:
        return float("inf")
    one, other = (
        [
            statistics.fmean(row["loss"] for row in rows[first : first + 10])
            for first in range(0, len(rows), 10)
        ]
        for rows in (steps, others)
    )
    return max(100 * abs(a - b) / b for a, b in zip(one, other, strict=True))


def different(steps: list[dict[str, Any]], others: list[dict[str, Any]]) -> int:
    """Steps whose loss is not the same to the last bit."""
    later = {row["step"]: row["loss"] for row in steps}
    return sum(later.get(row["step"]) != row["loss"] for row in others)


def loss(bench: Bench) -> Iterator[str]:
    """The GPU beside fp32 on the CPU: the same weights, data and steps, in fp32 and in bf16."""
    cpu = bench.train("cpu", *TINY, "--device", "cpu", *FP32, EAGER)
    for dtype, most in (("fp32", 0.2), ("bf16", 1.0)):
        gpu = bench.train(dtype, *TINY, "--device", "cuda", "--dtype", dtype, EAGER)
        yield verdict(f"{dtype}, {LOSS}", largest_difference(gpu, cpu), most, " %")


def compilation(bench: Bench) -> Iterator[str]:
    """Compiled beside eager."""
    eager, made = bench.train("eager", *SMALL, EAGER), bench.train("compiled", *SMALL, "--compile")
    yield verdict(LOSS, largest_difference(made, eager), 1.0, " %")
    yield f"- compiled: {first_s(made)}; eager: {first_s(eager)}"


def resume(bench: Bench) -> Iterator[str]:
    """Interrupted and resumed beside uninterrupted, to the last bit: eager, with attention by `math`, where kernels
    add in a fixed order."""
    fixed = (*SMALL, EAGER, "--attention", "math")
    whole = bench.train("whole", *fixed)
    bench.train("broken", *fixed, "--stop-at", "20")
    broken = bench.train("broken", *fixed, "--resume", "auto")
    yield verdict("steps whose loss differs in a bit", float(different(broken, whole)), 0)


def repeat(bench: Bench) -> Iterator[str]:
    """The same run twice, compiled: kernels that add in any order make its losses differ, and a resumed one too."""
    whole, again = bench.train("first", *SMALL), bench.train("second", *SMALL)
    yield f"- {different(again, whole)} of {len(whole)} steps differ in a bit"
    yield verdict(LOSS, largest_difference(again, whole), 0.5, " %")


def evaluation(bench: Bench) -> Iterator[str]:
    """Validation and a text sample, which a compiled training survives."""
    looks = "--eval-every 20 --eval-tokens 65536 --sample-prompt def --sample-tokens 16".split()
    bench.train("evaluated", *SMALL, *looks)
    ends = bench.rows("evaluated", "eval_end")
    yield verdict("evaluations that failed", float(sum(bool(row["fault"]) for row in ends)), 0)
    for row in ends:
        outcome = row["fault"] or f"validation loss {row['val_loss']:.4f}"
        yield f"- step {row['step']}: {outcome}, {row['seconds']:.1f} s"


def alone(bench: Bench) -> Iterator[str]:
    """FSDP and NCCL with a single rank, which one GPU can show, beside a run that is not sharded."""
    bench.run(sys.executable, "-c", SHARDED, str(bench.folder / "sharded"), "cuda")
    steps = bench.rows("sharded", "step")
    plain = bench.train("plain", *SMALL, "--total-batch-size", "8192", *FP32, EAGER)
    yield verdict(LOSS, largest_difference(steps, plain), 0.2, " %")


def ranks(bench: Bench) -> Iterator[str]:
    """All GPUs beside one that accumulates the same micro-batches; then sharded."""
    count = len(bench.machine.gpus)
    batch = (*SMALL, *FP32, "--total-batch-size", str(4096 * count))
    one = bench.train("one", *batch)
    for name, options in (("DDP", ()), ("FSDP", ("--shard", "fsdp"))):
        several = bench.train(name, *batch, *options, ranks=count)
        yield verdict(f"{name} on {count}, {LOSS}", largest_difference(several, one), 0.2, " %")
        yield f"- {name} on {count}: {rate(several)}; one alone {rate(one)}"
        travelled = usual(several, "communication_ms")
        yield f"- {name} on {count}: gradients travel for {travelled} ms of a step"


def memory(bench: Bench) -> Iterator[str]:
    """Peak memory beside the plan's range, at depth 12."""
    peak = usual(bench.once("d12", *FULL, *D12), "mem_gib")
    plan = "-m gputel plan --on 1xH100 --optimizer muon --loss chunked --json".split()
    row = json.loads(bench.run(sys.executable, *plan, *D12))["rows"][0]
    low, high = row["ranges"]["memory_gib"]
    yield verdict(f"peak memory, planned from {low:.1f} GiB", peak, round(high, 1), " GiB")


def mfu(bench: Bench) -> Iterator[str]:
    """The users' shapes on one GPU."""
    for depth, goal in GOALS.items():
        size = ("--depth", str(depth), "--device-batch-size", "8" if depth > 16 else "16")
        steps = bench.once(f"d{depth}", *FULL, *size)
        value = usual(steps, "mfu")
        reached = (
            f"{value:.1f} %, goal {goal:g} %: {'ok' if value >= goal else '**MISSED**'}"
            if value
            else "no mfu"
        )
        parts = (f"{part} {usual(steps, part + '_ms'):.1f}" for part in ("forward", "backward", "optimizer"))
        yield f"- depth {depth}: {reached}; {rate(steps)}; ms: {', '.join(parts)}; {first_s(steps)}"


def fp8(bench: Bench) -> Iterator[str]:
    """Matrices in eight bits beside bf16, at depth 12."""
    eight, refused = bench.tried("fp8", "--fp8", *FULL, *D12, "--fp8")
    if refused:
        yield f"- skipped: {refused}"
        return
    plain = bench.once("d12", *FULL, *D12)
    yield verdict(LOSS, largest_difference(eight, plain), 1.0, " %")
    yield f"- {rate(eight)} in FP8, {rate(plain)} in bf16"


def attention(bench: Bench) -> Iterator[str]:
    """Tokens a second by kernel of attention, and the loss beside that of torch's choice: no further from it than
    twice what rounding alone does, in the same run again and in smaller micro-batches."""
    plain = bench.once("wide", *WIDE)
    rounded = {"again": (), "halves": ("--device-batch-size", "8")}
    noise = max(largest_difference(bench.train(f"wide-{n}", *WIDE, *o), plain) for n, o in rounded.items())
    yield f"- auto: {rate(plain)}; by rounding alone, {LOSS}: {noise:.3g} %"
    for kernel in ("cudnn", "fa3"):
        steps, refused = bench.tried(kernel, "--attention", *WIDE, "--attention", kernel)
        if refused:
            yield f"- {kernel} skipped: {refused}"
            continue
        yield f"- {kernel}: {rate(steps)}"
        yield verdict(f"{kernel}, {LOSS}", largest_difference(steps, plain), max(0.5, 2 * noise), " %")


def recording(bench: Bench) -> Iterator[str]:
    """A training's own speed while it is recorded, and its energy by integral and by counter."""
    before = usual(bench.once("wide", *WIDE), "dt_ms")
    for hz in (100, 1000):
        recorder = f"-m gputel record --hz {hz} --out {bench.folder / 'recorded'}-{hz} --".split()
        step = usual(bench.train(f"at-{hz}", *WIDE, recorded=[sys.executable, *recorder]), "dt_ms")
        slower = None if step is None or not before else 100 * (step / before - 1)
        yield verdict(f"slower at {hz} Hz", slower, 1.0, " %")
    report = bench.run(sys.executable, "-m", "gputel", "report", str(bench.folder / "recorded-100"))
    yield from (f"    {line}" for line in report.splitlines() if "energy" in line or "counter" in line)


@dataclass(frozen=True)
class Part:
    """`timed`: it measures time, so nothing else may run."""

    measure: Callable[[Bench], Iterator[str]]
    gpus: int = 1
    timed: bool = False


PARTS = {
    "loss": Part(loss),
    "compile": Part(compilation),
    "resume": Part(resume),
    "repeat": Part(repeat),
    "evaluation": Part(evaluation),
    "alone": Part(alone),
    "ranks": Part(ranks, gpus=2, timed=True),
    "memory": Part(memory, timed=True),
    "fp8": Part(fp8, timed=True),
    "attention": Part(attention, timed=True),
    "recording": Part(recording, timed=True),
    "mfu": Part(mfu, timed=True),
}


class Report:
    """Lines go into the file and onto the screen as they come: a script that is killed leaves what it had."""

    def __init__(self, path: Path) -> None:
        self.path, self.failed = path, False

    def add(self, *lines: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)
        print(*lines, sep="\n", flush=True)
        self.failed |= any("**" in line for line in lines)


def measured(name: str, bench: Bench) -> Iterator[str]:
    """A part's section of the report, line by line."""
    part, began = PARTS[name], time.monotonic()
    yield from (f"## {name}", "", " ".join((part.measure.__doc__ or "").split()), "")
    if len(bench.machine.gpus) < part.gpus:
        yield f"Skipped: needs {part.gpus} GPUs, this machine has {len(bench.machine.gpus)}.\n"
        return
    if bench.left_s() <= 0:
        yield "**Not begun**: the time is up.\n"
        return
    try:
        yield from part.measure(bench)
    except (PartError, OSError, KeyError, ValueError, TypeError) as fault:
        yield f"**Failed**: {type(fault).__name__}\n\n```\n{fault}\n```"
    yield f"\n{time.monotonic() - began:.0f} s\n"


def run_parts(wanted: Sequence[str], machine: Machine, report: Report, limit_s: float) -> None:
    """First those at the same time that ask for losses alone, each reported when it is whole; then the others."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        bench = Bench(machine, Path(folder), time.monotonic() + limit_s)
        together = [name for name in wanted if not PARTS[name].timed]
        started = [pool.submit(list, measured(name, bench)) for name in together]
        for section in as_completed(started):
            report.add(*section.result())
        for name in (name for name in wanted if PARTS[name].timed):
            for line in measured(name, bench):
                report.add(line)


def header(machine: Machine) -> str:
    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    gpus = ", ".join(machine.gpus) or "no GPU"
    return f"# First contact with a GPU\n\n{now}, {gpus}, Python {sys.version.split()[0]}\n"


def main(words: Sequence[str] | None = None, machine: Machine | None = None) -> int:
    """Write the report; 1 where a part failed or missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas: " + ", ".join(PARTS))
    parser.add_argument("--out", type=Path, default=Path("first-gpu.md"))
    parser.add_argument("--seconds", type=float, default=LIMIT_S, help="for all parts together")
    given = parser.parse_args(words)
    wanted = given.only.split(",")
    if unknown := sorted(set(wanted) - set(PARTS)):
        parser.error(f"--only: there is no part {', '.join(unknown)}; one of {', '.join(PARTS)}")
    machine, report = machine or RealMachine(), Report(given.out)
    report.add(header(machine))
    run_parts(wanted, machine, report, given.seconds)
    return int(report.failed)


if __name__ == "__main__":
    sys.exit(main())
