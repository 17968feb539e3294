"""Measures the readers of stores, in CPU seconds: event files beside TensorBoard's own reader, `.wandb`, the index.

`python benchmarks/stores.py`; every checksum is checked. The stores are composed here, in a temporary folder.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the tests are, which compose stores

TAGS = ("train/loss", "train/lr", "train/grad_norm", "perf/tok_per_sec", "eval/loss")
ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gputel-stores-") as name:
        folder = Path(name)
        event_files(folder, options.steps)
        wandb_files(folder, options.steps)
        index(folder, options.runs)


def best(work: Callable[[], int]) -> tuple[int, float]:
    """What the work counted, and the least CPU time of several rounds."""
    counted, least = 0, float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        counted = work()
        least = min(least, time.process_time() - begun)
    return counted, least


def event_files(folder: Path, steps: int) -> None:
    from gputel.analysis.stores.event_files import EventDecoder
    from tests.analysis.stores import compose_events as tb

    path = folder / "events.out.tfevents.1.host.1.0"
    with path.open("wb") as file:
        file.write(tb.version())
        for step in range(steps):
            for number, tag in enumerate(TAGS):
                file.write(tb.event(step, [tb.simple(tag, 8 / (step + 1) + number)], 1.7e9 + step / 10))
    data = path.read_bytes()
    show("event files, gputel", *best(lambda: len(EventDecoder().feed(data).tag)), "scalars")
    try:
        from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
    except ImportError:
        print("TensorBoard is not installed: nothing to compare with")
        return

    def library() -> int:
        return sum(len(event.summary.value) for event in LegacyEventFileLoader(str(path)).Load())

    show("event files, TensorBoard's loader", *best(library), "scalars")


def wandb_files(folder: Path, steps: int) -> None:
    from gputel.analysis.stores.wandb import FileReader
    from tests.analysis.stores import compose_wandb as wb

    records = []
    for step in range(steps // 2):
        cells = dict.fromkeys(TAGS, 8 / (step + 1)) | {"_timestamp": 1.7e9 + step, "_runtime": float(step)}
        records += [wb.history(cells, step), wb.summary(cells), wb.summary(cells)]
    path = folder / "run-a.wandb"
    path.write_bytes(wb.framed(records))

    def read() -> int:
        reader = FileReader(path)
        reader.advance()
        return len(reader.run().points)

    show(".wandb, with two summaries a row", *best(read), "values")


def index(folder: Path, runs: int) -> None:
    """Logs of 100 steps: computed, and looked at again where nothing has changed."""
    from gputel.analysis.catalogue import index as catalogue

    logs = folder / "logs"
    logs.mkdir()
    for number in range(runs):
        lines = (f"step {step} | loss {8 / (step + 1) + number:.4f} | lr 0.001\n" for step in range(100))
        (logs / f"{number}.log").write_text("".join(lines))
    for what in ("computed", "unchanged"):
        with catalogue.opened(folder / "catalogue.db") as base:
            begun = time.process_time()
            catalogue.update(base, [logs])
            each = (time.process_time() - begun) / runs
        print(f"{'index, ' + what:36} {1e3 * each:10.3f} ms a run")


def show(what: str, count: int, seconds: float, unit: str) -> None:
    print(f"{what:36} {count / seconds:10,.0f} {unit}/s   ({count:,} in {seconds:.2f} s of CPU)")


if __name__ == "__main__":
    main()
