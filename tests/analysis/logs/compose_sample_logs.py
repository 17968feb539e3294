"""Composes sample_logs/, one log a story, byte for byte the same on every machine: `python compose_sample_logs.py`.

Only + - * / and integers make the numbers, since libm may differ in the last bit. What each log must give stands in
sample_logs.toml. The two long runs go through the losses, times and throughputs that their owners published.
"""

from __future__ import annotations

import gzip
import random
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "sample_logs"
COMPOSED = "# COMPOSED, not printed by a program that trained: it shows {}\n"
BATCH = 524288
PEAK_OF_TWO_H100 = 2 * 989e12

Knots = Sequence[tuple[int, float]]
START: Knots = ((0, 11.090373), (20, 8.31), (60, 6.83), (150, 5.72), (300, 4.76), (550, 3.93))
D16: Knots = (*START, (1000, 3.462712), (2200, 3.251), (5000, 3.070391), (10000, 2.970015),
              (12000, 2.907160), (12799, 2.770214))  # fmt: skip
D24: Knots = (*START, (1000, 3.355294), (2200, 3.117), (5000, 2.927871), (10000, 2.813528),
              (12000, 2.815345), (12431, 2.809122))  # fmt: skip
MIDDLE: Knots = ((0, 2.084117), (30, 1.71), (150, 1.465), (400, 1.352), (812, 1.260338))


def curve(knots: Knots) -> list[float]:
    """A smooth line through the knots, one value a step (cubic Hermite, slopes by harmonic means)."""
    xs, ys = [x for x, _ in knots], [y for _, y in knots]
    rises = [(ys[i + 1] - ys[i]) / (xs[i + 1] - xs[i]) for i in range(len(xs) - 1)]
    inner = [2 * a * b / (a + b) if a * b > 0 else 0.0 for a, b in pairwise(rises)]
    slopes = [rises[0], *inner, rises[-1]]

    def at(step: int) -> float:
        i = min(bisect_right(xs, step), len(xs) - 1) - 1
        width = xs[i + 1] - xs[i]
        t = (step - xs[i]) / width
        start, end = (1 + 2 * t) * (1 - t) * (1 - t), t * t * (3 - 2 * t)
        leave, arrive = t * (1 - t) * (1 - t), t * t * (t - 1)
        return ys[i] * start + ys[i + 1] * end + width * (slopes[i] * leave + slopes[i + 1] * arrive)

    return [at(step) for step in range(xs[-1] + 1)]


def noise(chance: random.Random, count: int, memory: float = 0.0) -> list[float]:
    """About normal, mean 0; with memory, as an average over the last steps has it."""
    draws = [sum(chance.random() for _ in range(4)) * 2 - 4 for _ in range(count)]
    return list(accumulate(draws, lambda last, draw: memory * last + (1 - memory) * draw))


def losses(chance: random.Random, knots: Knots, spread: float) -> list[float]:
    """The curve and its noise, which is nil at the knots."""
    smooth, rough = curve(knots), noise(chance, knots[-1][0] + 1, memory=0.9)
    nearest = [min(abs(step - knot) for knot, _ in knots) for step in range(len(smooth))]
    return [y + spread * n * min(1.0, d / 8) for y, n, d in zip(smooth, rough, nearest, strict=True)]


def bisect(ask: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function crosses zero."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if ask(middle) < 0 else (low, middle)
    return high


def step_times(chance: random.Random, count: int, minutes: float, tok_per_sec: int) -> list[float]:
    """Milliseconds: the first steps compile and are left out of `minutes`; the spread makes the mean throughput."""
    compiling = [21043.66, 1391.2, *(1240.0 + 9 * chance.random() for _ in range(9))]
    rough = [n + (6.0 if chance.random() < 0.004 else 0.0) for n in noise(chance, count - len(compiling))]

    def times(spread: float) -> list[float]:
        shape = [1 + spread * n for n in rough]
        scale = minutes * 60000 / sum(shape)
        return [*compiling, *(scale * one for one in shape)]

    def too_fast(spread: float) -> float:
        return sum(int(BATCH * 1000 / dt) for dt in times(spread)) / count - tok_per_sec

    return times(bisect(too_fast, 0.0, 0.15))


def multiplier(step: int, steps: int) -> float:
    """Of the learning rate: constant, then down to 0 over the last fifth."""
    return min(1.0, (steps - step) / (steps // 5))


def base_lines(
    values: Sequence[float], times: Sequence[float], steps: int, flops: float, seed: int
) -> Iterator[str]:
    """nanochat's older grammar, which also printed the gradient norm; a validation every 250 steps."""
    chance = random.Random(seed)
    total = 0.0
    for step, (loss, dt) in enumerate(zip(values, times, strict=True)):
        if step % 250 == 0:
            yield f"Step {step:05d} | Validation bpb: {loss * 0.2876:.4f}\n"
        total += dt / 60000 if step > 10 else 0.0
        rate = int(BATCH * 1000 / dt)
        norm = 0.31 + 0.08 * chance.random() + 2.4 / (1 + step / 25)
        yield (
            f"step {step:05d}/{steps:05d} ({100 * step / steps:.2f}%) | loss: {loss:.6f} | grad norm: {norm:.4f} | "
            f"lrm: {multiplier(step, steps):.2f} | dt: {dt:.2f}ms | tok/sec: {rate:,} | "
            f"mfu: {100 * flops * rate / PEAK_OF_TWO_H100:.2f} | total time: {total:.2f}m\n"
        )


def banner(depth: int, parameters: int, flops: float, steps: int) -> str:
    return (
        "Autodetected device type: cuda\nVocab size: 65,536\n"
        f"num_layers: {depth}\nmodel_dim: {64 * depth}\nnum_heads: {depth // 2}\n"
        "Tokens / micro-batch / rank: 8 x 2048 = 16,384\n"
        f"Total batch size {BATCH:,} => gradient accumulation steps: 16\n"
        f"Number of parameters: {parameters:,}\nEstimated FLOPs per token: {flops:.6e}\n"
        f"Calculated number of iterations from target data:param ratio: {steps:,}\n"
        f"Total number of training tokens: {BATCH * steps:,}\n"
    )


def d16_base() -> Iterator[str]:
    chance = random.Random(16)
    yield COMPOSED.format("a base run from its first step to its last")
    yield banner(16, 335_544_320, 2.013266e9, 12800)
    values, times = losses(chance, D16, 0.03), step_times(chance, 12800, 259.23, 431_260)
    yield from base_lines(values, times, 12800, 2.013266e9, 160)
    best = f"{values[-1] * 0.2876:.4f}"
    yield f"Step 12800 | Validation bpb: {best}\n"
    yield "Saved model parameters to: base_checkpoints/model_012800.pt\nPeak memory usage: 41213.55MiB\n"
    yield f"Total training time: 259.23m\nMinimum validation bpb: {best}\n"


def d24_base() -> Iterator[str]:
    chance = random.Random(24)
    yield COMPOSED.format("a base run that has not ended")
    yield banner(24, 880_803_840, 5.586813e9, 33600)
    times = [2943.5 * (1 + 0.008 * n) for n in noise(chance, 12432)]
    yield from base_lines(losses(chance, D24, 0.03), [34518.2, *times[1:]], 33600, 5.586813e9, 240)


def mid_training() -> Iterator[str]:
    chance = random.Random(813)
    yield COMPOSED.format("a mid-training run, which announces no total")
    yield "Loading model from base_checkpoints with step 12800\n"
    values, times = losses(chance, MIDDLE, 0.04), step_times(chance, 813, 15.98, 438_000)
    total = 0.0
    for step, (loss, dt) in enumerate(zip(values, times, strict=True)):
        if step % 150 == 0:
            yield f"Step {step:05d} | Validation bpb: {0.31 + loss * 0.06:.4f}\n"
        total += dt / 60000 if step > 10 else 0.0
        rate = int(BATCH * 1000 / dt)
        yield (
            f"step {step:05d} ({100 * (step + 1) / 813:.2f}%) | loss: {loss:.6f} | "
            f"lrm: {multiplier(step, 813):.2f} | dt: {dt:.2f}ms | tok/sec: {rate:,} | "
            f"mfu: {100 * 2.013266e9 * rate / PEAK_OF_TWO_H100:.2f} | total time: {total:.2f}m\n"
        )
    yield "Step 00813 | Validation bpb: 0.3851\nPeak memory usage: 52114.80MiB\n"
    yield f"Total training time: {total:.2f}m\n"


def forbidden_data() -> Iterator[str]:
    yield COMPOSED.format("a job that ended before its first step: its data was an error page")
    yield "Downloading shard_00017.parquet...\nDownloaded shard_00017.parquet (243 bytes)\n"
    yield "Training the tokenizer on 2,000,000,000 characters\nTraceback (most recent call last):\n"
    yield '  File "tok_train.py", line 41, in <module>\n    for text in text_iterator():\n'
    yield '  File "dataset.py", line 58, in parquets_iter_batched\n    table = pq.ParquetFile(path)\n'
    yield "pyarrow.lib.ArrowInvalid: Parquet magic bytes not found in footer\n"


def evaluation_alone() -> Iterator[str]:
    yield COMPOSED.format("an evaluation of a finished model, which has no step")
    tasks = {
        "hellaswag_zeroshot (0-shot, type: multiple_choice)": (0.3311, 0.1081),
        "arc_easy (10-shot, type: multiple_choice)": (0.5362, 0.3816),
        "lambada_openai (0-shot, type: language_modeling)": (0.2563, 0.2563),
        "winograd (0-shot, type: schema)": (0.5788, 0.1575),
    }
    for at, (task, (accuracy, centered)) in enumerate(tasks.items(), 1):
        yield f"Evaluating: {task}... accuracy: {accuracy:.4f} | centered: {centered:.4f} | "
        yield f"time: {3.17 * at:.2f}s\n"


def out_of_memory() -> Iterator[str]:
    """nanoGPT's grammar; the traceback is glued to a progress bar that was being drawn."""
    chance = random.Random(3)
    yield COMPOSED.format("a run that ran out of memory")
    yield "tokens per iteration will be: 491,520\nnumber of parameters: 123.59M\n"
    values = losses(chance, ((0, 10.9886), (40, 6.9), (143, 5.31)), 0.05)
    for step, loss in enumerate(values):
        if step % 50 == 0:
            yield f"step {step}: train loss {loss - 0.0102:.4f}, val loss {loss + 0.0211:.4f}\n"
            yield "saving checkpoint to out\n" if step else ""
        mfu = -100.0 if step < 5 else 41.6 + chance.random()
        yield f"iter {step}: loss {loss:.4f}, time {248 + 6 * chance.random():.2f}ms, mfu {mfu:.2f}%\n"
    yield "sampling:  37%|███▋      | 3/8 [00:04<00:07,  1.47s/it]Traceback (most recent call last):\n"
    yield '  File "train.py", line 300, in <module>\n    logits, loss = model(X, Y)\n'
    yield "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 12.27 GiB. GPU 0 is full\n"


def resumed() -> Iterator[str]:
    """A GPT-2 with an epoch field: Ctrl-C at step 380, on again from the checkpoint of step 350."""
    yield COMPOSED.format("a run that was interrupted, went on from a checkpoint, and ended")
    values = losses(random.Random(380), ((0, 10.951), (60, 6.4), (599, 4.02)), 0.05)
    again = losses(random.Random(350), ((0, 10.951), (60, 6.4), (599, 4.02)), 0.05)

    def lines(loss: Sequence[float], steps: range) -> Iterator[str]:
        for step in steps:
            rate = 3e-4 * min(1.0, (step + 1) / 100)
            yield (
                f"step {step:5d} | epoch {step // 500} | loss: {loss[step]:.6f} | lr: {rate:.4e} | "
                f"norm: {0.6 + loss[step] / 20:.4f} | dt: {9480 + step % 37:.2f}ms | "
                f"tok/sec: {55000 + step % 91:.2f}\n"
            )
            if step and step % 175 == 0:
                yield f"Saved checkpoint: checkpoints/step_{step:06d}.pt\n"

    yield from lines(values, range(381))
    yield "^CTraceback (most recent call last):\n"
    yield '  File "train.py", line 412, in <module>\n    loss.backward()\nKeyboardInterrupt\n'
    yield "Resuming from checkpoint checkpoints/step_000350.pt at step 350\n"
    yield from lines(again, range(351, 600))
    yield "Training complete\n"


def not_a_number() -> Iterator[str]:
    """torchtitan's grammar."""
    chance = random.Random(61)
    yield COMPOSED.format("a loss that becomes NaN and stays so")
    values = losses(chance, ((0, 8.13), (20, 6.02), (60, 4.9)), 0.05)
    for step in range(1, 81):
        loss = f"{values[step]:8.5f}" if step <= 60 else "     nan"
        norm = f"{1.5 + 40 / (1 + (60 - step)):7.4f}" if step <= 60 else "    nan"
        yield (
            f"[titan] 2026-03-01 10:{step // 60:02d}:{step % 60:02d},250 - root - INFO - step: {step:2d}  "
            f"loss: {loss}  grad_norm: {norm}  memory: 47.51GiB(59.97%)  tps: {6100 + chance.randrange(90):,}  "
            "tflops: 312.40  mfu: 31.59%\n"
        )


def four_ranks() -> Iterator[str]:
    """Each rank prints every record; their losses differ in the fourth decimal."""
    chance = random.Random(4)
    yield COMPOSED.format("four ranks that print the same records")
    values = losses(chance, ((0, 10.94), (15, 8.4), (49, 6.33)), 0.03)
    for step, loss in enumerate(values):
        for rank in (0, 2, 1, 3):
            yield (
                f"[rank{rank}]: step {step:5d} | loss: {loss + rank * 0.0003:.6f} | "
                f"lr {6e-4 * (step + 1) / 715:.4e} | norm: {2 + loss / 9:.4f} | "
                f"dt: {251 + step % 7:.2f}ms | tok/sec: {2_088_000 + 100 * (step % 7):.2f}\n"
            )


def unknown_format() -> Iterator[str]:
    """A grammar that no program has; three of its lines are cut or torn."""
    chance = random.Random(2000)
    yield COMPOSED.format("a format that nothing knows: it is inferred")
    yield "trainer v0.3 | model 96M | 4 workers\n"
    values = losses(chance, ((0, 10.41), (80, 6.6), (999, 3.912)), 0.06)
    for step, loss in enumerate(values):
        line = (
            f"<{step * 10 // 3600:02d}:{step * 10 // 60 % 60:02d}:{step * 10 % 60:02d}> it={step:05d} of=01000 >> "
            f"nll {loss:.4f} ~ gnorm {1 + chance.random():.3f} ~ lr {3e-4 * min(1.0, (step + 1) / 50):.3e} ~ "
            f"{80 + 2 * chance.random():.1f}k tok/s"
        )
        yield (
            line[:41] if step in (333, 666) else line.replace("nll ", "nll ?") if step == 500 else line
        ) + "\n"
        if step % 200 == 199:
            yield f"   .. held-out nll {loss + 0.08:.4f}\n"


LOGS: dict[str, Callable[[], Iterator[str]]] = {
    "d16-base.log.gz": d16_base,
    "d24-base.log.gz": d24_base,
    "mid-training.log": mid_training,
    "no-step-forbidden-data.log": forbidden_data,
    "no-step-evaluation.log": evaluation_alone,
    "crashed-out-of-memory.log": out_of_memory,
    "resumed.log": resumed,
    "nan.log": not_a_number,
    "four-ranks.log": four_ranks,
    "unknown-format.log": unknown_format,
}


def compose(name: str) -> bytes:
    return "".join(LOGS[name]()).encode()


def write(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in LOGS:
        log = compose(name)
        (folder / name).write_bytes(gzip.compress(log, 9, mtime=0) if name.endswith(".gz") else log)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
