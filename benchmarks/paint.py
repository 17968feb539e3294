"""What pages cost to paint beside the first one, in turn: seconds of CPU of the page's thread, and ratios of pairs.

git worktree add /tmp/old COMMIT      # and `gputel compare A B --html --out /tmp/old.html` there
python benchmarks/paint.py /tmp/old.html /tmp/new.html
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests import browser

PIXELS = (1440, 900)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    seconds: dict[Path, list[float]] = {page: [] for page in asked.pages}
    with browser.started() as chromium:
        for number in range(asked.rounds):
            for page in asked.pages[:: -1 if number % 2 else 1]:
                seconds[page].append(painted(chromium, page))
    first = seconds[asked.pages[0]]
    print("| page | bytes | ms of CPU | of the first | quarter to quarter |\n|---|---|---|---|---|")
    for page, costs in seconds.items():
        ratios = [cost / beside for cost, beside in zip(costs, first, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        milliseconds = 1000 * statistics.median(costs)
        size = page.stat().st_size
        print(f"| {page.name} | {size:,} | {milliseconds:.0f} | {middle:.2f} | {low:.2f} to {high:.2f} |")


def painted(chromium: browser.Browser, page: Path) -> float:
    """From the navigation to the second frame after the page has drawn."""
    tab = chromium.tab(*PIXELS)
    try:
        tab.call("Performance.enable", timeDomain="threadTicks")
        tab.open(page.resolve())
        tab.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        metrics = {each["name"]: each["value"] for each in tab.call("Performance.getMetrics")["metrics"]}
        return float(metrics["TaskDuration"])
    finally:
        tab.close()


if __name__ == "__main__":
    main()
