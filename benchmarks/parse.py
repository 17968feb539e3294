"""`gputel parse` beside the script that people have today, `grep -c` and a plain C program, on generated logs.

CPU seconds to rows in memory, of one core, without imports; every way in a process of its own, interleaved,
medians; peak memory is what the process held at most beyond what it held before it read. The per-line script is one
compiled `re`, a dict a row, nothing written; ours makes the frames of records and evaluations, and has no cache.
Both engines must agree on every cell of a part of the log.

    python benchmarks/parse.py                  10 MB and 200 MB, a known, a user's and an unknown format
    python benchmarks/parse.py --all            also 1 GB, and 5,000 files of 200 KB
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import parse_logs

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "parse.md"
MB = 1_000_000
Answer = dict[str, float]


def per_line(story: str, paths: list[str]) -> tuple[int, float]:
    """What people have today."""
    search, row = parse_logs.SCRIPTS[story]
    count = 0
    kept = []
    for path in paths:
        rows = []
        with open(path) as log:  # noqa: PTH123
            for line in log:
                found = search(line)
                if found:
                    rows.append(row(found.groups()))
        kept.append(rows)
        count += len(rows)
    return count, 0


def gputel(story: str, paths: list[str]) -> tuple[int, float]:
    from gputel.analysis.runs.paths import parse_all

    place = Path(paths[0]).parent if len(paths) > 1 else paths[0]
    kept = parse_all(place, format=parse_logs.chosen(story, paths[0]))
    size = sum(frame.estimated_size() for log in kept for frame in (log.records, log.evals))
    return sum(log.records.height for log in kept), size / 2**20


WAYS: dict[str, Callable[[str, list[str]], tuple[int, float]]] = {"per-line re": per_line, "gputel": gputel}


def measured(way: str, story: str, paths: list[str]) -> None:
    """In a process of its own: reads, and prints what it took."""
    warm_up(way)
    held, before = peak(), resource.getrusage(resource.RUSAGE_SELF)
    rows, result_mib = WAYS[way](story, paths)
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak_mib = peak() - held
    print(json.dumps({"cpu_s": cpu, "rows": rows, "peak_mib": peak_mib, "beyond_mib": peak_mib - result_mib}))


def peak() -> float:
    """MiB that this program held at most; `getrusage` would count what its parent held before the exec."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def warm_up(way: str) -> None:
    """Every module that parsing imports."""
    if way == "gputel":
        from gputel.analysis.logs import files

        log = files.stream(io.BytesIO(b"step 1: loss 2.5"), "warm", "warm")
        assert log.records.height == 1


def run(way: str, story: str, folder: Path, program: Path) -> Answer:
    """One measurement of one way."""
    paths = sorted(str(path) for path in folder.glob("logs/*.log"))
    if way in WAYS:
        (folder / "paths.json").write_text(json.dumps(paths))
        command = [sys.executable, __file__, "--measure", way, story, str(folder / "paths.json")]
        answer: Answer = json.loads(subprocess.check_output(command, env=one_core()))
        return answer
    command = [str(program)] if way == "C" else ["grep", "-hcE", parse_logs.grepped(story)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = subprocess.run(
        [*command, *paths], capture_output=True, text=True, check=False, env=one_core()
    ).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    rows = sum(int(line.split()[0]) for line in output.splitlines())
    return {"cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, "rows": rows}


def one_core() -> dict[str, str]:
    threads = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return {**os.environ, **threads, "LC_ALL": "C"}


def installed(home: Path) -> dict[str, str]:
    """Environment in which modules are compiled to byte code, as they are where gputel has been used before."""
    compiled = {**one_core(), "PYTHONPYCACHEPREFIX": str(home / "code")}
    return {name: text for name, text in compiled.items() if name != "PYTHONDONTWRITEBYTECODE"}


def compare(name: str, story: str, folder: Path, program: Path, rounds: int) -> list[str]:
    """Rows of the table: every way on this folder of logs."""
    paths = list(folder.glob("logs/*.log"))
    size = sum(path.stat().st_size for path in paths)
    lines = sum(path.read_bytes().count(b"\n") for path in paths)
    ways = ["per-line re", "grep -c", *(["C"] if story != "unknown" else []), "gputel"]
    answers: dict[str, list[Answer]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            answers[way].append(run(way, story, folder, program))
    base = statistics.median(answer["cpu_s"] for answer in answers["per-line re"])
    return [row(name, way, answers[way], base, size, lines) for way in ways]


def row(name: str, way: str, answers: list[Answer], base: float, size: int, lines: int) -> str:
    cpu = statistics.median(answer["cpu_s"] for answer in answers)
    most, beyond = (_mib(name, answers) for name in ("peak_mib", "beyond_mib"))
    line = (
        f"| {name} | {way} | {cpu:.3f} | {size / cpu / MB:,.0f} | {lines / cpu / 1000:,.0f} "
        f"| {base / cpu:.1f} | {most} | {beyond if way == 'gputel' else ''} | {answers[0]['rows']:,.0f} |"
    )
    print(line, flush=True)
    return line


def _mib(name: str, answers: list[Answer]) -> str:
    found = [answer[name] for answer in answers if name in answer]
    return f"{statistics.median(found):,.0f}" if found else ""


def agree(folder: Path) -> str:
    """Both engines, cell by cell, on the first two megabytes."""
    from gputel.analysis.logs import formats, numpy_engine, regex_engine

    data = min(folder.glob("logs/*.log")).read_bytes()[: 2 * MB]
    patterns = formats.patterns(formats.shipped())
    ours, theirs = numpy_engine.read(data, patterns), regex_engine.read(data, patterns)
    assert ours.rejects == theirs.rejects
    cells = 0
    for mine, other in zip(ours.hits, theirs.hits, strict=True):
        assert mine.lines.tolist() == other.lines.tolist()
        for what, values in other.values.items():
            assert mine.values[what].numbers.tobytes() == values.numbers.tobytes()
            assert mine.values[what].present.tobytes() == values.present.tobytes()
            cells += len(values.numbers)
    return f"The two engines agree on {cells:,} cells of {ours.lines:,} lines."


def start_up(log: Path, home: Path) -> str:
    """A whole process that parses 10 MB, beside one that imports the libraries and reads the file."""
    least = f"import click, numpy, polars; open({str(log)!r}, 'rb').read()"
    whole = f"import click; from gputel.analysis.runs import paths; paths.parse({str(log)!r}).records"
    taken: dict[str, list[float]] = {least: [], whole: []}
    for turn in range(12):
        for code in (least, whole):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", code], check=True, env=installed(home))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            if turn:
                taken[code].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    imports, parsed = (statistics.median(taken[code]) for code in (least, whole))
    return (
        f"10 MB from the start of the process: {parsed:.3f} s; importing click, numpy and polars and reading the "
        f"file: {imports:.3f} s; {parsed / imports:.2f} times."
    )


def looking_for_escapes(log: Path) -> str:
    """What it costs to look for ANSI and CR where there are none, against all of the parsing.

    They are found with the line feeds: what counts is how much longer that takes than finding those alone.
    """
    from gputel.analysis.logs import lines
    from gputel.analysis.runs import paths

    def taken(do: Callable[[], object]) -> float:
        times = []
        for _ in range(15):
            began = time.process_time()
            do()
            times.append(time.process_time() - began)
        return statistics.median(times)

    data = log.read_bytes()
    whole = data[: lines.CHUNK]
    every = taken(lambda: (lines._controls(whole), b"^" in whole))
    controls, lines._CONTROLS = lines._CONTROLS, lines._FEED + 1
    feeds = taken(lambda: lines._controls(whole))
    lines._CONTROLS = controls
    looked = max(every - feeds, 0.0) * len(data) / len(whole)
    parsed = taken(lambda: paths.parse(log).records)
    return f"Looking for escapes and carriage returns: {100 * looked / parsed:.2f} % of parsing."


def comparisons(everything: bool) -> Iterator[tuple[str, str, int, int, int]]:
    """Name, story, megabytes, files and rounds."""
    yield "10 MB, known", "known", 10, 1, 5
    yield "200 MB, known", "known", 200, 1, 3
    yield "50 MB, a user's pattern", "user", 50, 1, 3
    yield "50 MB, unknown", "unknown", 50, 1, 3
    if everything:
        yield "1 GB, known", "known", 1000, 1, 1
        yield "5,000 x 200 KB, known", "known", 1000, 5000, 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--measure", nargs=3, metavar=("WAY", "STORY", "PATHS"))
    options = parser.parse_args()
    if options.measure:
        way, story, paths = options.measure
        measured(way, story, json.loads(Path(paths).read_text()))
        return
    table, notes = [], []
    with tempfile.TemporaryDirectory() as home:
        program = Path(home, "plain_parser")
        subprocess.run(["cc", "-O2", "-o", program, ROOT / "benchmarks" / "plain_parser.c"], check=True)
        for name, story, megabytes, files, rounds in comparisons(options.all):
            with tempfile.TemporaryDirectory() as folder:
                parse_logs.write(Path(folder, "logs"), story, megabytes * MB, files)
                table += compare(name, story, Path(folder), program, rounds)
                if story == "known" and megabytes == 10:
                    log = next(Path(folder).glob("logs/*.log"))
                    notes = [agree(Path(folder)), start_up(log, Path(home)), looking_for_escapes(log)]
            RESULTS.write_text(report(table, notes))


def report(table: list[str], notes: list[str]) -> str:
    """What is kept: with date and machine."""
    where = (
        f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    )
    head = "| log | way | CPU s | MB/s | k lines/s | x per-line | peak MiB | beyond the result | rows |"
    return "\n".join(
        ["# Parsing, side by side", "", where, "", head, "|" + "---|" * 9, *table, "", *notes, ""]
    )


if __name__ == "__main__":
    main()
