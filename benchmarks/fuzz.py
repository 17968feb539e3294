"""Damages all that gputel reads and runs its commands on it: none may end in a traceback, or run for a minute.

Each round takes a run folder, a log, a store of another tool, a facts.json, the index of runs, a settings file, a
log format or the positions that `tail` has saved, changes it at random, and runs commands on it in this process. A
seed makes a round again: `python benchmarks/fuzz.py --seconds 3600 --seed 1`, and `--seed 4711 --rounds 1` what it
printed of seed 4711.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from fuzz_changes import change_json, changed, changed_toml, damage, recording
from fuzz_stores import composed_stores

from gputel.analysis.catalogue import facts_file, index

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # where the tests are, which compose stores
TAIL_S = 0.5  # after which tail gets a Ctrl-C, as it waits for more of a damaged run
COMMAND_S = 60.0
MEMORY = 16 << 30  # bytes of addresses, of which polars reserves many
LINES = 150  # of a sample log

Commands = list[list[str]]


class Overdue(BaseException):
    """A command has run for a minute."""


def a_run_folder(home: Path, chance: random.Random) -> tuple[list[str], Commands]:
    run = home / "damaged"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(home / chance.choice(("journals", "parquet")), run)
    made = damage(run, chance)
    return made, [
        ["info", str(run), "--json"],
        ["nodes", str(run), "--json"],
        ["report", str(run), "--json"],
        ["parse", str(run), "--json"],
        ["compare", str(run), str(home / "other")],
        ["report", str(run), "--html", "--out", str(home / "out"), "--force"],
        ["runs", str(run), "--html", "--out", str(home / "out"), "--force"],
        ["export", str(run), "--csv", str(home / "x.csv"), "--force"],
        ["tail", "--plain", str(run)],
    ]


def a_log(home: Path, chance: random.Random) -> tuple[list[str], Commands]:
    name, text = chance.choice(logs())
    data = changed(text, chance)
    if chance.random() < 0.1:
        data = gzip.compress(data)[: chance.randrange(20, 2000)]
    log = home / f"damaged{chance.choice(('.log', '.csv', '.jsonl', '.txt', '.ipynb'))}"
    log.write_bytes(data)
    commands = [
        ["parse", str(log), "--json"],
        ["parse", str(log), "--rows"],
        ["parse", str(log), "--rejects", "--csv", "--out", str(home / "out"), "--force"],
        ["report", str(log), "--html", "--out", str(home / "out"), "--force"],
        ["compare", str(log), str(home / "whole.log"), "--json"],
        ["gate", str(log), str(home / "whole.log")],
        ["tail", "--plain", str(log)],
    ]
    return [f"changed {name}"], commands


def settings(home: Path, chance: random.Random) -> tuple[list[str], Commands]:
    """They are read from the working folder."""
    (home / "gputel.toml").write_bytes(changed_toml(SETTINGS, chance))
    log = str(home / "whole.log")
    words: Commands = [
        ["settings", "--json"],
        ["parse", log],
        ["tail", "--plain", log],
        ["gate", log, log],
        ["plan"],
    ]
    return ["changed gputel.toml"], words


def a_format(home: Path, chance: random.Random) -> tuple[list[str], Commands]:
    shipped = sorted((ROOT / "analysis" / "logs" / "formats").glob("*.toml"))
    source = chance.choice(shipped)
    format_file = home / "damaged.toml"
    format_file.write_bytes(changed_toml(source.read_bytes(), chance))
    log = str(home / "whole.log")
    words = [
        ["parse", log, "--format", str(format_file)],
        ["tail", "--plain", "--format", str(format_file), log],
    ]
    return [f"changed {source.name}"], words


def saved_positions(home: Path, chance: random.Random) -> tuple[list[str], Commands]:
    state = home / "state"
    shutil.rmtree(state, ignore_errors=True)
    log = str(home / "whole.log")
    fault_of(["tail", "--plain", log])
    files = sorted(path for path in state.rglob("*") if path.is_file())
    made = []
    for path in files:
        if path.stat().st_size:
            path.write_bytes(changed(path.read_bytes(), chance))
            made.append(f"changed {path.name}")
    return made, [["tail", "--plain", log], ["tail", "--json", log]]


def a_store(home: Path, chance: random.Random) -> tuple[list[str], Commands]:
    """One file of a small store is changed, mostly the one with the values."""
    folder = home / "stores"
    shutil.rmtree(folder, ignore_errors=True)
    files = chance.choice(composed_stores(home))
    name = chance.choice([next(iter(files)), *files])
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(changed(data, chance) if path == name else data)
    store = str(folder)
    return [f"changed {name}"], [
        ["parse", store, "--json"],
        ["parse", store, "--rows"],
        ["report", store, "--json"],
        ["compare", store, str(home / "whole.log")],
        ["runs", store, "--json"],
        ["tail", "--plain", store],
    ]


QUESTIONS: Commands = [
    ["--json", "--columns", "all"],
    ["--where", "loss < 3 and lr > 1e-4", "--sort", "-energy_j"],
    ["--by", "settings", "--csv", "--out", "out", "--force"],
    ["--html", "--out", "out", "--force"],
    ["--sql", "SELECT * FROM runs r JOIN settings s ON s.run = r.id JOIN metrics m ON m.run = r.id"],
]


def a_facts_file(home: Path, chance: random.Random) -> tuple[list[str], Commands]:
    """A facts.json that is believed, for no other file of its run changes."""
    run = home / "facts"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(home / "parquet", run)
    path = run / facts_file.NAME
    if chance.random() < 0.6:
        change_json(path, chance)
    else:
        path.write_bytes(changed(path.read_bytes(), chance))
    return ["changed facts.json"], [["runs", str(run), *words] for words in QUESTIONS]


def an_index(home: Path, chance: random.Random) -> tuple[list[str], Commands]:
    """The database that `gputel runs` keeps; it may lose all that it knows, and must answer."""
    fault_of(["runs", str(home / "whole.log"), str(home / "parquet")])
    file = index.default_file()
    data = file.read_bytes()
    file.write_bytes(changed(data, chance) if chance.random() < 0.8 else data[: chance.randrange(len(data))])
    words = [["runs", *question] for question in QUESTIONS]
    return ["changed the index"], [*words, ["compare", "--where", "steps > 0", "--json"]]


KINDS: Sequence[Callable[[Path, random.Random], tuple[list[str], Commands]]] = (
    a_run_folder, a_run_folder, a_log, a_log, a_store, a_store, a_facts_file, an_index, settings, a_format,
    saved_positions,
)  # fmt: skip
SETTINGS = b"""
[parse]
format = "nanochat"
csv = true
verbose = true
[tail]
hours = 8.0
price = 2.5
preset = "strict"
[gate]
max-regress = ["loss=2%"]
target = 3.0
[plan]
depth = 20
on = "8xH100"
[record]
hz = 100
max-overhead = "1%"
[alarms.spike]
deviations = 8
metric = "loss"
[alarms.nan]
metrics = ["loss"]
off = false
[alarms.traceback]
unless = "KeyboardInterrupt"
"""


def logs() -> list[tuple[str, bytes]]:
    """The beginnings of the sample logs and of the small logs of the tests."""
    if not _logs:
        paths = [*(ROOT / "sample_logs").iterdir(), *(ROOT / "tests" / "logs").rglob("*.*")]
        for path in sorted(path for path in paths if path.is_file() and path.suffix not in (".toml", ".md")):
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            _logs.append((path.name, b"\n".join(data.split(b"\n")[:LINES])))
    return _logs


_logs: list[tuple[str, bytes]] = []


def fault_of(arguments: list[str]) -> str | None:
    """The last line of an exception that is no GputelError; None if the command ended as it should."""
    from gputel.cli import main

    shown = io.TextIOWrapper(io.BytesIO())
    is_tail = arguments[0] == "tail"
    end = time.monotonic() + COMMAND_S

    def look(*_: object) -> None:
        if time.monotonic() > end:
            raise Overdue
        if is_tail and signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            signal.raise_signal(signal.SIGINT)  # which ends tail as Ctrl-C does, and raises nothing

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, TAIL_S if is_tail else COMMAND_S + 1, 1.0)
    try:
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            main(arguments)
    except SystemExit:
        return None
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        if time.monotonic() > end:  # polars makes another error of Overdue
            return f"{arguments[0]}: takes over a minute"
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "gputel" in f.filename]
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
        return f"{arguments[0]}: {type(error).__name__} at {place}: {str(error).splitlines()[:1]}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return None


def prepare(home: Path) -> None:
    for kind in ("journals", "parquet", "other"):
        recording(home / kind, compacted=kind != "journals")
        facts_file.write_facts(home / kind)
    (home / "whole.log").write_bytes(next(text for name, text in logs() if name == "trainer-depth2.log"))
    (home / ".git").mkdir()  # a folder's settings count within a repository
    places = {"XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config", "XDG_CACHE_HOME": "cache"}
    os.environ.update({name: str(home / place) for name, place in places.items()})
    home.chmod(0o755)
    os.chdir(home)


def fuzz(
    seed: int, seconds: float, rounds: int | None = None, only: str | None = None
) -> tuple[Counter[str], Counter[str]]:
    """Rounds by what was damaged, and each fault with how often it came; prints the first round of each."""
    done: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    kinds = [kind for kind in KINDS if only in (None, kind.__name__)]
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="gputel-fuzz-", dir=Path.home()) as name:
        home = Path(name)
        prepare(home)
        while time.monotonic() < end and (rounds is None or done.total() < rounds):
            this = seed + done.total()
            chance = random.Random(this)
            (home / "gputel.toml").unlink(missing_ok=True)
            kind = chance.choice(kinds)
            made, commands = kind(home, chance)
            for arguments in commands:
                fault = fault_of(arguments)
                if fault and not faults[fault]:
                    print(f"seed {this}: {', '.join(made)}: {fault}", file=sys.__stderr__, flush=True)
                faults.update([fault] if fault else [])
            done[kind.__name__] += 1
        os.chdir("/")
    return done, faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", choices=sorted({kind.__name__ for kind in KINDS}), help="of one kind")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("once")
    done, faults = fuzz(options.seed, options.seconds, options.rounds, options.only)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(done.items()))
    print(
        f"{done.total()} rounds ({kinds}): {faults.total()} commands ended in {len(faults)} kinds of faults"
    )
    for fault, count in faults.most_common():
        print(f"{count:6d}  {fault}")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
