"""`gputel parse` beside a script per format: the shipped formats of one line a record, 200 MB of each.

Every script is one compiled `re` and a dict a row, as people write it for the log that they have; both sides in CPU
seconds to rows in memory, interleaved, medians.

    python benchmarks/parse_formats.py          all of them
    python benchmarks/parse_formats.py llm.c    some
"""

from __future__ import annotations

import io
import json
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "parse_formats.md"
SIZE, ROUNDS = 200_000_000, 3
BEGAN = datetime(2026, 3, 1, tzinfo=timezone.utc)


class Step(NamedTuple):
    """What one step of the training that all of the logs tell of was like."""

    step: int
    loss: float
    norm: float
    lr: float
    ms: float
    mfu: float
    time: datetime


class Story(NamedTuple):
    """How a framework prints a step, and the pattern of the script that reads it, whose groups are numbers."""

    line: Callable[[Step], str]
    pattern: str


def _json(s: Step) -> str:
    return json.dumps(
        {"step": s.step, "loss": s.loss, "lr": s.lr, "grad_norm": s.norm, "tok_per_sec": 5e8 / s.ms}
    )


N = r"([-+.\deE]+|nan|inf)"
STORIES = {
    "gputel-trainer": Story(
        lambda s: f"step {s.step:05d}/9999999 ({s.step / 1e5:.2f}%) | loss: {s.loss:.6f} "
        f"| grad norm: {s.norm:.4f} | lrm: {s.lr * 100:.2f} | dt: {s.ms:.2f}ms | tok/sec: {int(5e8 / s.ms):,} "
        f"| mfu: {s.mfu:.2f} | total time: {s.step * 0.01:.2f}m | lr: {s.lr:.2e} | data: 3.10ms | epoch: 0 "
        f"| eta: {99_000 - s.step * 0.01:.1f}m",
        rf"step (\d+)/(\d+) .*?loss: {N} \| grad norm: {N} \| lrm: {N} \| dt: {N}ms \| tok/sec: ([\d,]+) "
        rf"\| mfu: {N} \| total time: {N}m \| lr: {N} \| data: {N}ms \| epoch: (\d+) \| eta: {N}m",
    ),
    "nanogpt": Story(
        lambda s: f"iter {s.step}: loss {s.loss:.4f}, time {s.ms:.2f}ms, mfu {s.mfu:.2f}%",
        rf"iter (\d+): loss {N}, time {N}ms, mfu {N}%",
    ),
    "build-nanogpt": Story(
        lambda s: f"step {s.step:5d} | loss: {s.loss:.6f} | lr {s.lr:.4e} | norm: {s.norm:.4f} "
        f"| dt: {s.ms:.2f}ms | tok/sec: {5e8 / s.ms:.2f}",
        rf"step +(\d+) \| loss: {N} \| lr {N} \| norm: {N} \| dt: {N}ms \| tok/sec: {N}",
    ),
    "build-nanogpt log.txt": Story(lambda s: f"{s.step} train {s.loss:.6f}", rf"^(\d+) train {N}"),
    "gpt-2 with epoch": Story(
        lambda s: f"step {s.step} | epoch 1 | loss: {s.loss:.3f} | lr: {s.lr:.1e} | norm: {s.norm:.2f} "
        f"| dt: {s.ms:.0f}ms | tok/sec: {5e8 / s.ms:.0f}",
        rf"step (\d+) \| epoch (\d+) \| loss: {N} \| lr: {N} \| norm: {N} \| dt: {N}ms \| tok/sec: {N}",
    ),
    "llm.c": Story(
        lambda s: f"step {s.step:4d}/9999999 | loss {s.loss:.6f} ({s.norm - 1:+.2f}z)| norm {s.norm:.4f} "
        f"({s.loss - 3:+.2f}z)| lr {s.lr:.2e} | {s.ms:.2f} ms | {s.mfu:.1f}% bf16 MFU | {5e8 / s.ms:.0f} tok/s",
        rf"step +(\d+)/(\d+) \| loss {N} \({N}z\)\| norm {N} \({N}z\)\| lr {N} \| {N} ms "
        rf"\| {N}% bf16 MFU \| {N} tok/s",
    ),
    "modded-nanogpt": Story(
        lambda s: f"step:{s.step}/9999999 train_loss:{s.loss:.4f} train_time:{s.step * 655}ms "
        f"step_avg:{s.ms:.2f}ms",
        rf"step:(\d+)/(\d+) train_loss:{N} train_time:{N}ms step_avg:{N}ms",
    ),
    "hf-trainer": Story(
        lambda s: f"{{'loss': {round(s.loss, 4)}, 'grad_norm': {s.norm}, 'learning_rate': {s.lr}, "
        f"'epoch': {round(s.step / 1e4, 2)}}}",
        rf"'loss': {N}, 'grad_norm': {N}, 'learning_rate': {N}, 'epoch': {N}",
    ),
    "megatron": Story(
        lambda s: f"[{s.time:%Y-%m-%d %H:%M:%S}] iteration {s.step:8d}/ 9999999 | consumed samples: "
        f"{s.step * 128:12d} | elapsed time per iteration (ms): {s.ms:.1f} | throughput per GPU (TFLOP/s/GPU): "
        f"{s.mfu * 5:.1f} | learning rate: {s.lr:.6E} | global batch size:   128 | lm loss: {s.loss:.6E} "
        f"| loss scale: 1.0 | grad norm: {s.norm:.3f} | number of skipped iterations:   0 | number of nan "
        "iterations:   0 |",
        rf"iteration +(\d+)/ *(\d+) \| consumed samples: +(\d+) \| elapsed time per iteration \(ms\): {N} "
        rf"\| throughput per GPU \(TFLOP/s/GPU\): {N} \| learning rate: {N} \| global batch size: +(\d+) "
        rf"\| lm loss: {N} \| loss scale: {N} \| grad norm: {N} \| number of skipped iterations: +(\d+) "
        r"\| number of nan iterations: +(\d+) \|",
    ),
    "torchtitan": Story(
        lambda s: f"[rank0]:[titan] {s.time:%Y-%m-%d %H:%M:%S},250 - root - INFO - step: {s.step:2d}  "
        f"loss: {s.loss:8.5f}  grad_norm: {s.norm:7.4f}  memory: 47.51GiB(59.97%)  tps: {int(4e6 / s.ms):,}  "
        f"tflops: {s.mfu * 9.9:,.2f}  mfu: {s.mfu:.2f}%",
        rf"step: +(\d+)  loss: +{N}  grad_norm: +{N}  memory: +{N}GiB\({N}%\)  tps: ([\d,]+)  "
        rf"tflops: ([\d,.]+)  mfu: {N}%",
    ),
    "maxtext": Story(
        lambda s: f"completed step: {s.step}, seconds: {s.ms / 1000:.3f}, TFLOP/s/device: {s.mfu * 5:.3f}, "
        f"Tokens/s/device: {4e6 / s.ms:.3f}, total_weights: 30193, loss: {s.loss:.3f}",
        rf"completed step: (\d+), seconds: {N}, TFLOP/s/device: {N}, Tokens/s/device: {N}, "
        rf"total_weights: (\d+), loss: {N}",
    ),
    "json-lines": Story(
        _json, rf'"step": (\d+), "loss": {N}, "lr": {N}, "grad_norm": {N}, "tok_per_sec": {N}'
    ),
    "logfmt": Story(
        lambda s: f"time={s.time:%Y-%m-%dT%H:%M:%SZ} level=info msg=train step={s.step} loss={s.loss:.4f} "
        f"lr={s.lr:.2e} grad_norm={s.norm:.2f}",
        rf"step=(\d+) loss={N} lr={N} grad_norm={N}",
    ),
}  # fmt: skip


def steps() -> Iterator[Step]:
    rng = random.Random(1)
    step = 0
    while True:
        ms = rng.gauss(1900 if rng.random() < 0.01 else 655, 6)
        lr = 6e-4 * (1 - step / 1e7)
        time = BEGAN + timedelta(seconds=step * 0.655)
        yield Step(step, rng.gauss(3, 0.4), rng.expovariate(1) + 0.1, lr, ms, 32_600 / ms, time)
        step += 1


def write(path: Path, story: Story) -> None:
    size = 0
    with path.open("w") as log:
        for step in steps():
            size += log.write(story.line(step) + "\n")
            if size > SIZE:
                return


def per_line(pattern: str, path: str) -> int:
    """What people have today."""
    search = re.compile(pattern).search
    rows = []
    with open(path) as log:  # noqa: PTH123
        for line in log:
            found = search(line)
            if found:
                rows.append({i: float(text.replace(",", "")) for i, text in enumerate(found.groups())})
    return len(rows)


def gputel(_pattern: str, path: str) -> int:
    from gputel.analysis.logs import files
    from gputel.analysis.runs import paths

    assert files.stream(io.BytesIO(b"step 1: loss 2.5"), "warm", "warm").records.height
    before = time.process_time()
    log = paths.parse(path)
    rows = log.records.height
    print(json.dumps([time.process_time() - before, rows, log.format]))
    return rows


def measured(way: str, name: str, path: str) -> list[float]:
    environment = {**os.environ, "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--measure", way, name, path]
    answer: list[float] = json.loads(subprocess.check_output(command, env=environment))
    return answer


def compare(name: str) -> str:
    taken: dict[str, list[list[float]]] = {"per-line": [], "gputel": []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.log")
        write(path, STORIES[name])
        size = path.stat().st_size
        for _ in range(ROUNDS):
            for way, answers in taken.items():
                answers.append(measured(way, name, str(path)))
    script, ours = (statistics.median(answer[0] for answer in answers) for answers in taken.values())
    assert taken["per-line"][0][1] == taken["gputel"][0][1], (name, taken)
    line = (
        f"| {name} | {taken['gputel'][0][2]} | {taken['gputel'][0][1]:,} | {script:.3f} | {ours:.3f} "
        f"| {size / ours / 1e6:,.0f} | {script / ours:.1f} |"
    )
    print(line, flush=True)
    return line


def main() -> None:
    if sys.argv[1:2] == ["--measure"]:
        way, name, path = sys.argv[2:]
        if way == "gputel":
            gputel("", path)
            return
        before = time.process_time()
        rows = per_line(STORIES[name].pattern, path)
        print(json.dumps([time.process_time() - before, rows, None]))
        return
    names = sys.argv[1:] or list(STORIES)
    table = [compare(name) for name in names]
    where = (
        f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    )
    head = "| printed by | read as | records | script, CPU s | gputel, CPU s | MB/s | x script |"
    text = [
        "# Parsing, format by format",
        "",
        f"{where}; {SIZE // 10**6} MB of each",
        "",
        head,
        "|" + "---|" * 7,
        *table,
        "",
    ]
    if names == list(STORIES):
        RESULTS.write_text("\n".join(text))


if __name__ == "__main__":
    main()
