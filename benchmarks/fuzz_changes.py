"""Small recordings, and the changes that a fuzzer makes to their files and to texts."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gputel.telemetry import run_folder
from gputel.telemetry.clock import SECOND, Stamp
from gputel.telemetry.process import output_index
from gputel.telemetry.store import parquet
from gputel.telemetry.store.journal import Writer
from gputel.telemetry.store.part_writer import PartWriter
from gputel.telemetry.store.tiers import Tier, TierColumn

START = 10**18
READINGS: tuple[tuple[str, str | None, int], ...] = (
    ("power_w", "W", 1000),
    ("energy_j", "J", 1000),
    ("temp_c", "C", 1),
    ("throttle", None, 1),
)
TIERS = [
    Tier("fast", 10.0, tuple(TierColumn(*reading, gpu) for gpu in "01" for reading in READINGS)),
    Tier("slow", 1.0, (TierColumn("fan", "%", 1, "0"),)),
]
VALUES: tuple[object, ...] = (
    None,
    0,
    -1,
    2**63,
    2**200,
    1e308,
    float("inf"),
    float("nan"),
    True,
    "",
    "x",
    "\x1b]52;c;x",
    [],
    {},
    [[]],
    {"a": {"b": []}},
    "../x",
)
EVENT = '{"time": "2001-09-09T01:46:41.000000000Z", "kind": "mark", "text": "here"}\n'


class GivenClock:
    now = 0

    def stamp(self) -> Stamp:
        return Stamp(self.now + START, self.now, self.now)

    def monotonic(self) -> int:
        return self.now

    def sleep_until(self, monotonic: int) -> None:
        self.now = max(self.now, monotonic)


def recording(folder: Path, *, compacted: bool) -> None:
    """Twelve seconds of two GPUs in three parts, with steps and an event."""
    moments = {"started": _moment(0), "ended": _moment(12 * SECOND)}
    gpus = [{"gpu": gpu, "name": "H100", "uuid": f"GPU-{gpu}", "limits": {"power_w": 700}} for gpu in "01"]
    facts = {"run": folder.name, "argv": ["train"], "gpus": gpus, "exit_code": 0, **moments}
    segment = run_folder.create(
        folder, {**facts, "sampling": {"hz": 10, "statistics": None}, "tags": {"lr": "1"}}
    )
    clock = GivenClock()
    writer = Writer(PartWriter(segment.gpu, TIERS, clock, on_trouble=print, compactor=None, seal_after_s=4))
    for n in range(120):
        clock.now = n * SECOND // 10
        writer.append(0, clock.now, clock.now, [300_000 + n, n * 30_000, 50, n % 4] * 2)
        if n % 10 == 0:
            writer.append(1, clock.now, clock.now, [n])
    writer.close()
    with segment.output.open("wb") as output, segment.index.open("wb") as index:
        for step in range(40):
            output.write(f"step {step} loss {5 - step / 20:.3f} lr 0.001 dt 290ms tok/s 1000\n".encode())
            index.write(output_index.pack(START + step * 300_000_000, output.tell()))
    (folder / "events.jsonl").write_text(EVENT)
    _what_the_training_said(segment)
    _source(folder)
    if compacted:
        parquet.compact(segment.gpu, everything=True)


def _what_the_training_said(segment: run_folder.Segment) -> None:
    """Rows of `gputel.log`, steps of the hooks, and an incident, as the recorder and its watcher write them."""
    from gputel.analysis.incidents import incident
    from gputel.analysis.incidents.process_states import standings
    from gputel.analysis.incidents.verdict import judge
    from tests.analysis.incidents.processes import ALL_REDUCE, READS, later, process
    from tests.recordings.step_files import step_file

    written = step_file(segment.path, [0.3 * n for n in range(40)], rank=0)
    rows: list[dict[str, object]] = [{"kind": "open", "rank": 0}, {"kind": "config", "settings": {"lr": 0.1}}]
    for step in range(40):
        now = START + step * 300_000_000
        rows.append({"kind": "log", "step": step, "ns": now, "values": {"loss": 5 - step / 20, "note": "x"}})
        rows.append({"kind": "span", "name": "eval", "began_ns": now, "ns": now + 10**8})
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    written.with_suffix(".jsonl").write_text(text)
    looks = [process(0, *ALL_REDUCE, last="all_reduce"), process(1, *READS), process(2, *ALL_REDUCE)]
    found = standings([looks, [later(each) for each in looks]])
    verdict = judge(found)
    assert verdict
    incident.write(segment.path, START + 10 * SECOND, START + 4 * SECOND, verdict, found)


def _source(folder: Path) -> None:
    """What the code was, as another process of the recorder saves it."""
    (folder / "source" / "files").mkdir(parents=True)
    (folder / "source" / "files" / "train.py").write_text("print('step')\n")
    (folder / "source" / "diff.patch").write_text("--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-x\n+y\n")
    facts = {"schema": 1, "commit": "a" * 40, "files": ["train.py"], "diff": "diff.patch", "left_out": []}
    (folder / "source" / "source.json").write_text(json.dumps(facts))


def _moment(ns: int) -> dict[str, int]:
    return {"wall_ns": START + ns, "monotonic_ns": ns, "boot_ns": ns}


def truncate(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size + 1)])


def flip(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(chance.randrange(1, 20) if data else 0):
        data[chance.randrange(len(data))] = chance.randrange(256)
    path.write_bytes(data)


def overwrite(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    at, length = chance.randrange(len(data) + 1), chance.randrange(1, 400)
    data[at : at + length] = chance.choice((bytes(length), b"\xff" * length, chance.randbytes(length)))
    path.write_bytes(data)


def remove(path: Path, _chance: random.Random) -> None:
    path.unlink()


def exchange(path: Path, chance: random.Random) -> None:
    others = sorted(other for other in path.parent.iterdir() if other.is_file())
    path.write_bytes(chance.choice(others).read_bytes())


def nest(path: Path, _chance: random.Random) -> None:
    path.write_text("[" * 100_000)


def _facts(text: str) -> Any:
    """What a text says as JSON; None of another text."""
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return facts if isinstance(facts, (dict, list)) else None


def change_json(path: Path, chance: random.Random) -> None:
    """One value anywhere in a file of JSON, or in one of its lines, becomes one of another type."""
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else []
    at = chance.randrange(len(lines)) if lines else 0
    is_json = path.suffix in (".json", ".jsonl")
    facts: Any = _facts(lines[at] if lines else path.read_text()) if is_json else None
    place = facts
    if not facts:
        flip(path, chance)
        return
    while True:
        key = chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
        if isinstance(place[key], (dict, list)) and place[key] and chance.random() < 0.6:
            place = place[key]
            continue
        place[key] = chance.choice(VALUES)
        break
    changed_text = json.dumps(facts)
    path.write_text("\n".join([*lines[:at], changed_text, *lines[at + 1 :]]))


def replace(path: Path, chance: random.Random) -> None:
    """A link out of the folder, a link to another of its files, a pipe or a folder takes the file's place."""
    path.unlink()
    kind = chance.randrange(6)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.mkdir()
    else:
        others = sorted(other.name for other in path.parent.iterdir())
        targets = ("/dev/zero", "/etc/passwd", path.name, chance.choice(others or ["x"]))
        path.symlink_to(targets[kind - 2])


def rename(path: Path, chance: random.Random) -> None:
    numbers = (0, 1, 9, 10**6, 10**12 - 1, 10**14)
    name = f"{path.stem.partition('-')[0]}-{chance.choice(numbers):06d}-{chance.choice(numbers):06d}{path.suffix}"
    path.rename(
        path.with_name(name if chance.random() < 0.6 else chance.choice(("²", "run.json", "-", "a\nb")))
    )


def duplicate(path: Path, chance: random.Random) -> None:
    """The file's folder becomes another segment or node of the run as well."""
    home = path.parent if path.parent.name != "gpu" else path.parent.parent
    copy = home / chance.choice(("segments", "nodes")) / chance.choice(("1", "2", "7", "²", "999999999"))
    if home.parent.name not in ("segments", "nodes") and not copy.exists():
        shutil.copytree(home, copy, symlinks=True, ignore=shutil.ignore_patterns("segments", "nodes"))


WHOLE = (
    truncate,
    flip,
    overwrite,
    remove,
    exchange,
    nest,
    change_json,
    change_json,
    replace,
    rename,
    duplicate,
)
CHANGES: tuple[Callable[[Path, random.Random], None], ...] = WHOLE


def damage(folder: Path, chance: random.Random) -> list[str]:
    """Changes some files; says which and how."""
    made = []
    for _ in range(chance.randrange(1, 4)):
        files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        described = [path for path in files if path.suffix in (".json", ".jsonl")]
        if files:
            path = chance.choice(described if described and chance.random() < 0.4 else files)
            change = chance.choice(CHANGES)
            with contextlib.suppress(ValueError, IndexError, OSError):  # already damaged by the change before
                change(path, chance)
            made.append(f"{change.__name__} {path.relative_to(folder)}")
    return made


HOSTILE = (
    b"\x1b]52;c;eA==\x07", b"\x00" * 40, b"\xff\xfe", "\u202e\u200b\x9b31m".encode(), b"9" * 5000, b"1e999",
    b"nan", b"-inf", b"[" * 3000, b"{" * 3000, b"\r" * 50, b"\n" * 50, b"=cmd|' /C calc'!A0", b"%s%n", b"../../x",
    b" " * 20000, "٣²½".encode(), b"0x1p9999", b"99999999999999999999999999", b"-1", b"\"\"\"",
    b"(a+)+$", b"[[", b"]]", b"step",
)  # fmt: skip


def changed(data: bytes, chance: random.Random) -> bytes:
    """A text with a few bytes, words or lines changed, taken out, repeated or exchanged."""
    for _ in range(chance.randrange(1, 8)):
        at = chance.randrange(len(data) + 1)
        to = min(len(data), at + chance.randrange(1, 200))
        kind = chance.randrange(6)
        if kind == 0:
            data = data[:at] + chance.choice(HOSTILE) + data[at:]
        elif kind == 1:
            data = data[:at] + data[to:]
        elif kind == 2:
            data = data[:to] + data[at:to] * chance.randrange(1, 20) + data[to:]
        elif kind == 3:
            data = data[:at] + chance.randbytes(to - at) + data[to:]
        elif kind == 4:
            words = data.split(b" ")
            words[chance.randrange(len(words))] = chance.choice((*HOSTILE, *words[:50]))
            data = b" ".join(words)
        else:
            lines = data.split(b"\n")
            chance.shuffle(lines)
            data = b"\n".join(lines)
    return data


def changed_toml(data: bytes, chance: random.Random) -> bytes:
    """One or two values of another type; sometimes the text is garbled as well."""
    lines = data.split(b"\n")
    places = [at for at, line in enumerate(lines) if b" = " in line]
    for at in chance.sample(places, min(len(places), chance.randrange(1, 3))):
        lines[at] = lines[at].partition(b" = ")[0] + b" = " + chance.choice(TOML_VALUES)
    text = b"\n".join(lines)
    return changed(text, chance) if chance.random() < 0.3 else text


TOML_VALUES = (
    b"5", b"-1", b"1e400", b"nan", b"true", b'""', b'"x"', b"'(a+)+$'", b"[]", b"[1]", b"['a']", b"{}",
    b"{a = 1}", b"[{}]", b"1979-05-27", b"07:32:00", b"99999999999999999999",
    b"'8 GB'", b"'\\u202e'", b"['a', 2, []]", b"'%s {x} <loss>'",
)  # fmt: skip
