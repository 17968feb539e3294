"""What `gputel runs` costs: `python benchmarks/catalogue.py RUN [COUNT]`.

RUN is a recording; COUNT small run folders with its facts.json are made, indexed, looked at again, and asked in
processes of their own. The recording itself is copied 300 times without facts.json, and compared twice: the copies
are computed, then known.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gputel.analysis.catalogue import facts_file, index

QUESTIONS = (
    ("--where", "lr < 1e-3 and gpu = 'H100'", "--sort", "val_loss_min", "--limit", "20", "--json"),
    ("--where", "lr < 1e-3 and gpu = 'H100'", "--limit", "20", "--json", "--no-update"),
    ("--by", "gpu", "--json", "--no-update"),
)
COPIES = 300


def main(run: Path, count: int = 10_000) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        (folder / "copies").mkdir()
        for number in range(COPIES):
            shutil.copytree(
                run, folder / "copies" / f"run{number}", ignore=shutil.ignore_patterns(facts_file.NAME)
            )
        for what in ("compare, first", "compare, second"):
            cost = ask(("compare", str(folder / "copies"))) / COPIES
            print(f"{what:36} {1e3 * cost:10.3f} ms of CPU a run, with the command's start")
        many = with_facts(run, folder / "many", count)
        look("with facts.json", many, count)
        look("unchanged", many, count)
        for words in QUESTIONS:
            print(f"{' '.join(words):75} {min(ask(('runs', *words)) for _ in range(4)):.3f} s of CPU")


def with_facts(run: Path, folder: Path, count: int) -> Path:
    """Run folders that hold a description and a facts.json alone, with other losses and settings."""
    said = json.loads((run / facts_file.NAME).read_text())
    draw = random.Random(1)
    for number in range(count):
        path = folder / f"run{number}"
        path.mkdir(parents=True)
        (path / "run.json").write_text("{}\n")
        row = {**said, "files": {"run.json": 3}}
        row["facts"] = {**said["facts"], "loss": 3 * draw.random(), "val_loss_min": 3 * draw.random()}
        row["settings"] = {**said["settings"], "config.lr": 10 ** draw.uniform(-5, -2), "config.seed": number}
        (path / facts_file.NAME).write_text(json.dumps(row))
    return folder


def look(what: str, folder: Path, count: int) -> None:
    with index.opened(index.default_file()) as base:
        begun = time.process_time()
        index.update(base, [folder])
        each = (time.process_time() - begun) / count
    print(f"{what:36} {1e3 * each:10.3f} ms of CPU a run")


def ask(words: tuple[str, ...]) -> float:
    before = os.times()
    command = [sys.executable, "-m", "gputel", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
