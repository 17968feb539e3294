"""How long `gputel --help` takes beside `import click`, on an installed wheel. To reach: at most 2.5 times.

Interleaved in one run; medians. Run it on a quiet machine: python benchmarks/startup.py
"""

import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 21


def seconds(arguments: list[str], site: str) -> float:
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments],
        env={"PYTHONPATH": site},
        cwd=site,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - began


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", folder, str(ROOT)]
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (wheel,) = Path(folder).glob("*.whl")
        zipfile.ZipFile(wheel).extractall(folder)
        subprocess.run([sys.executable, "-m", "compileall", "-q", folder], check=True)
        ways = {
            "python -c pass": ["-c", "pass"],
            "import click": ["-c", "import click"],
            "import gputel": ["-c", "import gputel"],
            "gputel --help": ["-m", "gputel", "--help"],
            "gputel --version": ["-m", "gputel", "--version"],
        }
        rounds = [{name: seconds(way, folder) for name, way in ways.items()} for _ in range(ROUNDS)]
    medians = {name: statistics.median(round_[name] for round_ in rounds) for name in ways}
    for name, median in medians.items():
        print(f"{name:<18} {1000 * median:7.1f} ms   {median / medians['import click']:.2f} x import click")


main()
