"""How many composed logs are read as meant: `python benchmarks/composed.py --first 20000 --logs 1500`.

The tests read some of them; here any number of others is counted, with what is wrong in each that is not right.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gputel.analysis.logs import files
from tests.analysis.logs.composed_logs import composed
from tests.analysis.logs.test_composed_logs import faults, is_said


@click.command()
@click.option("--first", default=20_000, help="The seed of the first log.")
@click.option("--logs", default=1500)
def main(first: int, logs: int) -> None:
    """Prints each log that is not right, and how many there are of each kind."""
    kinds: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.log"
        for seed in range(first, first + logs):
            meant = composed(seed)
            path.write_text(meant.text)
            log = files.read_file(path)
            wrong = [*faults(log, meant)]
            doubts = ", ".join(doubt.what for doubt in log.doubts)
            said = "wrong, and said" if is_said(log) else "wrong without a word"
            kind = said if wrong else "right, but doubtful" if doubts else "right"
            kinds[kind] += 1
            if kind != "right":
                print(f"{seed}: {kind}: {'; '.join(wrong[:2]) or doubts}")
    print(", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common()))


if __name__ == "__main__":
    main()
