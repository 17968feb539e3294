"""What a machine with GPUs must show before this trainer is believed there: parts of a few minutes, one Markdown
report.

python deploy/first_gpu.py # every part; the report grows as they end python deploy/first_gpu.py --only loss,resume

Needs `pip install "gputel[trainer]"`. The data are Python's standard library: nothing is fetched. A part that this
machine cannot run says why; one that fails says so and does not stop the others. Paste the report into an issue.
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
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

LIMIT_S = 480
GOALS = {12: 40.0, 16: 43.0, 20: 47.0}  # MFU in percent on H100s
WARM_STEPS = 10
QUIET = ("--eval-every", "0", "--save-every", "0", "--save-minutes", "0")
SMALL = ("--depth", "4", "--seq", "512", "--device-batch-size", "8", "--steps", "40", *QUIET)
FP32 = ("--dtype", "fp32")
KERNELS = ("--depth", "12", "--vocab", "65536", "--total-batch-size", "32768", "--steps", "40", *QUIET)


class PartError(Exception):
    """A command of a part failed; its last lines."""


class Machine(Protocol):
    """What runs commands; `gpus` as the driver lists them."""

    gpus: list[str]

    def run(self, command: Sequence[str], limit_s: float) -> str: ...


class RealMachine:
    def __init__(self) -> None:
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        try:
            self.gpus = self.run(query, 60).splitlines()
        except (PartError, FileNotFoundError):
            self.gpus = []

    def run(self, command: Sequence[str], limit_s: float) -> str:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
        except subprocess.TimeoutExpired as late:
            raise PartError(f"did not end within {limit_s:.0f} s: {' '.join(command)}") from late
        if done.returncode:
            last = (done.stderr or done.stdout).splitlines()[-8:]
            raise PartError("\n".join([f"exit code {done.returncode}: {' '.join(command)}", *last]))
        return done.stdout


@dataclass
class Bench:
    """One part's means: a folder of its own, and what is left of its time."""

    machine: Machine
    folder: Path
    ends_s: float

    def run(self, *command: str) -> str:
        return self.machine.run(command, max(1.0, self.ends_s - time.monotonic()))

    def train(
        self, name: str, *options: str, ranks: int = 1, recorded: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """The steps of a run of the trainer, as metrics.jsonl has them."""
        start = [sys.executable, "-m"]
        if ranks > 1:
            start += ["torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}", "-m"]
        out = self.folder / name
        self.run(*recorded, *start, "gputel.trainer", "--out", str(out), *options)
        rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        return [row for row in rows if row["event"] == "step"]

    def tried(self, name: str, option: str, *options: str) -> tuple[list[dict[str, Any]], str]:
        """The steps of a run, or the trainer's reason to refuse `option` on this machine."""
        try:
            return self.train(name, *options), ""
        except PartError as fault:
            refused = next((line for line in str(fault).splitlines() if line.startswith(option)), "")
            if not refused:
                raise
            return [], refused


def losses(steps: list[dict[str, Any]]) -> list[float]:
    return [row["loss"] for row in steps]


def usual(steps: list[dict[str, Any]], figure: str) -> float | None:
    """The median after the first steps; None where it is not known."""
    values = [row[figure] for row in steps[WARM_STEPS:] if row[figure] is not None]
    return statistics.median(values) if values else None


def verdict(name: str, value: float | None, most: float, unit: str = "") -> str:
    """One line that says `ok` or `MISSED`; a figure that is not known is neither."""
    if value is None:
        return f"- {name}: not known"
    return f"- {name}: {value:.4g}{unit}, at most {most:g}{unit}: {'ok' if value <= most else '**MISSED**'}"


def largest_difference(one: list[float], other: list[float]) -> float:
    """In percent of the second; infinite where one run is shorter."""
    if len(one) != len(other) or not one:
        return float("inf")
    return max(100 * abs(a - b) / b for a, b in zip(one, other, strict=True))


def loss(bench: Bench) -> Iterator[str]:
    """bf16 on the GPU beside fp32 on the CPU: the same weights, data and steps."""
    tiny = ("--depth", "2", "--seq", "128", "--device-batch-size", "4", "--steps", "60", *QUIET)
    gpu = bench.train("gpu", *tiny, "--device", "cuda", "--no-compile")
    cpu = bench.train("cpu", *tiny, "--device", "cpu", *FP32)
    yield verdict(
        "largest difference of a step's loss", largest_difference(losses(gpu), losses(cpu)), 1.0, " %"
    )


def compilation(bench: Bench) -> Iterator[str]:
    """Compiled beside eager."""
    eager, made = bench.train("eager", *SMALL, "--no-compile"), bench.train("compiled", *SMALL, "--compile")
    yield verdict(
        "largest difference of a step's loss", largest_difference(losses(made), losses(eager)), 1.0, " %"
    )
    yield f"- first step: {made[0]['dt_ms'] / 1e3:.1f} s compiled, {eager[0]['dt_ms'] / 1e3:.1f} s eager"
    yield f"- tokens a second: {usual(made, 'tok_per_sec'):,.0f} compiled, {usual(eager, 'tok_per_sec'):,.0f} eager"


def ranks(bench: Bench) -> Iterator[str]:
    """All GPUs beside one that accumulates the same micro-batches; then sharded."""
    count = len(bench.machine.gpus)
    batch = (*SMALL, *FP32, "--total-batch-size", str(8 * 512 * count))
    one = bench.train("one", *batch)
    for name, options in (("DDP", ()), ("FSDP", ("--shard", "fsdp"))):
        several = bench.train(name, *batch, *options, ranks=count)
        difference = largest_difference(losses(several), losses(one))
        yield verdict(f"{name} on {count}: largest difference of a step's loss", difference, 0.1, " %")
        rates = [f"{usual(steps, 'tok_per_sec'):,.0f}" for steps in (several, one)]
        yield f"- {name} on {count}: {rates[0]} tokens a second; one alone {rates[1]}"
    travelled = usual(bench.train("timed", *batch, ranks=count), "communication_ms")
    yield f"- gradients travel for {travelled} ms of a step"


def resume(bench: Bench) -> Iterator[str]:
    """Interrupted and resumed beside uninterrupted, to the last bit."""
    whole = bench.train("whole", *SMALL)
    bench.train("broken", *SMALL, "--stop-at", "20")
    broken = bench.train("broken", *SMALL, "--resume", "auto")
    later = {row["step"]: row["loss"] for row in broken}
    different = [row["step"] for row in whole if later.get(row["step"]) != row["loss"]]
    yield verdict("steps whose loss differs in a bit", float(len(different)), 0)


def memory(bench: Bench) -> Iterator[str]:
    """Peak memory beside the plan's range."""
    options = ("--depth", "12", "--device-batch-size", "16")
    steps = bench.train(
        "d12", *options, "--total-batch-size", str(16 * 2048), "--vocab", "65536", "--steps", "15", *QUIET
    )
    plan = bench.run("gputel", "plan", "--on", "1xH100", *options, "--optimizer", "muon", "--loss", "chunked")
    yield f"- peak: {usual(steps, 'mem_gib')} GiB; the plan of the same run:\n\n```\n{plan.strip()}\n```"


def mfu(bench: Bench) -> Iterator[str]:
    """The users' shapes at full batch, one GPU each."""
    for depth, goal in GOALS.items():
        size = ("--depth", str(depth), "--vocab", "65536", "--device-batch-size", "8" if depth > 16 else "16")
        steps = bench.train(f"d{depth}", *size, "--total-batch-size", "131072", "--steps", "30", *QUIET)
        value = usual(steps, "mfu")
        reached = (
            "not known"
            if value is None
            else f"{value:.1f} %, goal {goal:g} %: {'ok' if value >= goal else '**MISSED**'}"
        )
        yield f"- depth {depth}: {reached}"


def fp8(bench: Bench) -> Iterator[str]:
    """Matrices in eight bits beside bf16: the mean loss of the last ten steps, and the speed."""
    eight, refused = bench.tried("fp8", "--fp8", *KERNELS, "--fp8")
    if refused:
        yield f"- skipped: {refused}"
        return
    plain = bench.train("bf16", *KERNELS)
    means = [statistics.fmean(losses(steps)[-10:]) for steps in (eight, plain)]
    yield verdict("loss", largest_difference(means[:1], means[1:]), 1.0, " %")
    rates = [f"{usual(steps, 'tok_per_sec'):,.0f}" for steps in (eight, plain)]
    yield f"- tokens a second: {rates[0]} in FP8, {rates[1]} in bf16"


def attention(bench: Bench) -> Iterator[str]:
    """Tokens a second by kernel of attention, and the loss beside that of torch's choice."""
    own = bench.train("auto", *KERNELS)
    yield f"- auto: {usual(own, 'tok_per_sec'):,.0f} tokens a second"
    for kernel in ("flash", "cudnn", "fa3"):
        steps, refused = bench.tried(kernel, "--attention", *KERNELS, "--attention", kernel)
        if refused:
            yield f"- {kernel} skipped: {refused}"
            continue
        yield f"- {kernel}: {usual(steps, 'tok_per_sec'):,.0f} tokens a second"
        yield verdict(
            f"{kernel}: largest difference of a step's loss",
            largest_difference(losses(steps), losses(own)),
            1.0,
            " %",
        )


def recording(bench: Bench) -> Iterator[str]:
    """A training's own speed while it is recorded, and its energy by integral and by counter."""
    alone = usual(bench.train("alone", *SMALL), "dt_ms")
    for hz in (100, 1000):
        folder = str(bench.folder / f"recorded-{hz}")
        recorder = ("gputel", "record", "--hz", str(hz), "--out", folder, "--")
        step = usual(bench.train(f"at-{hz}", *SMALL, recorded=recorder), "dt_ms")
        slower = None if step is None or not alone else 100 * (step / alone - 1)
        yield verdict(f"slower at {hz} Hz", slower, 1.0, " %")
    report = bench.run("gputel", "report", str(bench.folder / "recorded-100"))
    yield from (f"    {line}" for line in report.splitlines() if "energy" in line or "counter" in line)


@dataclass(frozen=True)
class Part:
    measure: Callable[[Bench], Iterator[str]]
    gpus: int = 1


PARTS = {
    "loss": Part(loss),
    "compile": Part(compilation),
    "ranks": Part(ranks, gpus=2),
    "resume": Part(resume),
    "memory": Part(memory),
    "mfu": Part(mfu),
    "fp8": Part(fp8),
    "attention": Part(attention),
    "recording": Part(recording),
}


def measured(name: str, machine: Machine) -> str:
    """A part's section of the report."""
    part, began = PARTS[name], time.monotonic()
    lines = [f"## {name}", "", (part.measure.__doc__ or "").strip(), ""]
    if len(machine.gpus) < part.gpus:
        return "\n".join(
            [*lines, f"Skipped: needs {part.gpus} GPUs, this machine has {len(machine.gpus)}.", ""]
        )
    with tempfile.TemporaryDirectory() as folder:
        try:
            for line in part.measure(Bench(machine, Path(folder), began + LIMIT_S)):
                lines.append(line)
        except (PartError, OSError, KeyError, ValueError, TypeError) as fault:
            lines.append(f"**Failed**: {type(fault).__name__}\n\n```\n{fault}\n```")
    return "\n".join([*lines, "", f"{time.monotonic() - began:.0f} s", ""])


def header(machine: Machine) -> str:
    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    gpus = ", ".join(machine.gpus) or "no GPU"
    return f"# First contact with a GPU\n\n{now}, {gpus}, Python {sys.version.split()[0]}\n"


def main(words: Sequence[str] | None = None, machine: Machine | None = None) -> int:
    """Write the report, a part at a time; 1 where a part failed or missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas: " + ", ".join(PARTS))
    parser.add_argument("--out", type=Path, default=Path("first-gpu.md"))
    given = parser.parse_args(words)
    wanted = given.only.split(",")
    if unknown := sorted(set(wanted) - set(PARTS)):
        parser.error(f"--only: there is no part {', '.join(unknown)}; one of {', '.join(PARTS)}")
    machine = machine or RealMachine()
    sections = [header(machine)]
    with given.out.open("a", encoding="utf-8") as report:
        for name in [None, *wanted]:
            if name:
                sections.append(measured(name, machine))
            report.write(sections[-1] + "\n")
            report.flush()
            print(sections[-1])
    return int(any("**" in section for section in sections))


if __name__ == "__main__":
    sys.exit(main())
