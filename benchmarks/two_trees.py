"""Commands of this tree beside those of another one, such as an older commit: whole processes, medians, ratios.

Both trees have their modules as byte code and one thread. CPU seconds are interleaved and depend on what else runs;
`--instructions` counts instructions under valgrind, which do not: two runs differ by less than 0.1 %.

    git worktree add /tmp/old COMMIT
    python benchmarks/two_trees.py /tmp/old --python /tmp/old/.venv/bin/python --instructions
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
LINES = 150_000  # 27 MB
LINE = (
    "step {0:05d}/150000 ({1:.2f}%) | loss: {2:.6f} | lrm: 1.00 | dt: {3:.2f}ms | tok/sec: {4:,} | bf16_mfu: 49.75 "
    "| epoch: 1 | total time: {5:.2f}m | eta: 183.2m\n"
)
TRAINING = (
    "import time\nfor i in range(300):\n    time.sleep(.05)\n"
    "    print(f'step {i:05d}/00300 | loss: {5-i/200:.6f} | dt: 50.00ms | tok/sec: 10,000', flush=True)"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("other", type=Path)
    parser.add_argument("--python", default=sys.executable, help="the other tree's Python")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--instructions", action="store_true")
    asked = parser.parse_args()
    trees = {HERE: sys.executable, asked.other.resolve(): asked.python}
    measure = instructions if asked.instructions else cpu_seconds
    with tempfile.TemporaryDirectory() as scratch:
        print(
            f"| command | other | this | ratio |  ({measure.__name__.replace('_', ' ')})\n|---|---|---|---|"
        )
        for name, words in jobs(Path(scratch), trees):
            this, other = compared(
                words, trees, Path(scratch), measure, 1 if asked.instructions else asked.rounds
            )
            print(f"| {name} | {other:,.3f} | {this:,.3f} | {this / other:.3f} |", flush=True)


def jobs(scratch: Path, trees: dict[Path, str]) -> Iterator[tuple[str, Callable[[Path], list[str]]]]:
    """The name of each command, and its words in a tree."""
    log = scratch / "big.log"
    with log.open("w") as file:
        for i in range(LINES):
            file.write(
                LINE.format(i, i / 1500, 11 - i / 20000, 600 + i % 97 / 3, 796_060 - i % 5000, i / 100)
            )
    for tree, python in trees.items():
        words = [python, "-m", "gputel", "record", "--simulate", "2xH100", "--out", str(scratch / tree.name)]
        command = [*words, "--", sys.executable, "-c", TRAINING]
        subprocess.run(command, cwd=tree, env=environment(tree, scratch), capture_output=True, check=True)
    d16, d24 = "sample_logs/d16-base.log.gz", "sample_logs/d24-base.log.gz"
    page = ["--html", "--force", "--out", str(scratch / "page.html")]
    yield "--help", lambda _: ["--help"]
    yield "parse, 12,800 steps", lambda _: ["parse", d16]
    yield "parse, 27 MB", lambda _: ["parse", str(log), "--json"]
    yield "compare", lambda _: ["compare", d16, d24]
    yield "report --html", lambda tree: ["report", str(scratch / tree.name), *page]


def environment(tree: Path, scratch: Path) -> dict[str, str]:
    """Byte code is kept, as where a package is installed; of threads, which wait for each other, there is one."""
    threads = {"POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    kept = {
        "PYTHONPYCACHEPREFIX": str(scratch / "code" / tree.name),
        "PYTHONHASHSEED": "0",
        "GPUTEL_CACHE": "0",
    }
    return {k: v for k, v in {**os.environ, **threads, **kept}.items() if k != "PYTHONDONTWRITEBYTECODE"}


def compared(
    words: Callable[[Path], list[str]],
    trees: dict[Path, str],
    scratch: Path,
    measure: Callable[[list[str], Path, dict[str, str]], float],
    rounds: int,
) -> list[float]:
    """The median of each tree; the first round warms files and byte code up, and does not count."""
    taken: dict[Path, list[float]] = {tree: [] for tree in trees}
    for turn in range(rounds + 1):
        for tree, python in trees.items():
            command = [python, "-m", "gputel", *words(tree)]
            how = measure if turn else cpu_seconds
            figure = how(command, tree, environment(tree, scratch))
            taken[tree] += [figure] if turn else []
    return [statistics.median(figures) for figures in taken.values()]


def cpu_seconds(command: list[str], tree: Path, env: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=tree, env=env, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def instructions(command: list[str], tree: Path, env: dict[str, str]) -> float:
    """Billions, as valgrind counts them."""
    counter = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    answer = subprocess.run(
        [*counter, *command], cwd=tree, env=env, capture_output=True, text=True, check=True
    )
    found = re.findall(r"I\s+refs:\s+([\d,]+)", answer.stderr)
    return int(found[-1].replace(",", "")) / 1e9


if __name__ == "__main__":
    main()
