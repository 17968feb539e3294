"""Runs whose truth is known, in users' layouts: logs with and without stamps, recordings, tables of GPUs.

A run is planned with steps, evaluations, checkpoints and a start; its log, its stamps and the readings of its GPUs
follow from that plan and a seed, so every figure has a true value.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

import long_recordings
import numpy as np
from truth_layouts import LAYOUTS, NAME, Layout, lines

from gputel.analysis import runs
from gputel.telemetry import run_folder
from gputel.telemetry.clock import SECOND, Stamp
from gputel.telemetry.process import output_index
from gputel.telemetry.store.journal import Writer
from gputel.telemetry.store.part_writer import PartWriter
from gputel.telemetry.store.tiers import Tier, TierColumn

START = datetime(2026, 10, 3, 7, 3, 19, tzinfo=timezone.utc)
START_NS = int(START.timestamp()) * SECOND
LIMIT_W, MEMORY_MIB = 700, 81_559
READINGS = (("power_w", "W", 1000), ("energy_j", "J", 1000), ("mem_used_mib", "MiB", 1), ("util", "%", 1))
WATTS = {"start": 90.0, "train": 560.0, "eval": 420.0, "checkpoint": 120.0, "idle": 75.0}
DOWN_S = 75.0  # between a crash and the restart
DIP = 0.2  # share of a step at the power of a checkpoint: the optimizer's, or the network's


@dataclass(frozen=True)
class Case:
    """A planned run. `inside`: dt holds the evaluation before it. `thousandth`: tok/s divides by milliseconds."""

    name: str
    seed: int
    steps: int
    step_s: float
    tokens: int
    every: int = 1
    eval_every: int = 100
    eval_s: float = 12.0
    save_every: int = 150
    save_s: float = 6.0
    start_s: float = 30.0
    compile_s: float = 0.0  # within the first step of every start
    second_every: int = 0  # every so many evaluations, a longer one of another kind follows
    first: int = 0  # the step at which the run goes on from another's checkpoint
    gpus: int = 1
    style: str = "desired"  # a name of LAYOUTS
    stamps: str | None = "s"  # or ms, iso; recorded lines have none of their own
    readings: str | None = None  # recording, or one of TABLES
    hz: float = 10.0
    inside: bool = False
    thousandth: bool = False
    late: float = 0.0  # share of the next step after which a line comes out, unless a pause is next
    queued: bool = False  # the line of the step before a pause comes behind it
    banner: str = "top"  # or late: after the first step; each line behind its stamp
    gap: tuple[float, float] | None = None  # in the readings, as shares of the run
    lost: float | None = None  # share of the run after which the last GPU answers nothing
    offset_h: int = 0  # the readings' clock is in another time zone
    crash: float | None = None  # share of the steps after which it dies, to resume from its last checkpoint

    @cached_property
    def spans(self) -> list[tuple[str, float, float, int]]:
        """Kind, begin, end and step of everything the run does, in seconds since its start."""
        rng = random.Random(self.seed)
        started = self.start_s + self.compile_s
        now, spans = started, [("start", 0.0, started, self.first)]

        def add(kind: str, seconds: float, step: int) -> None:
            nonlocal now
            spans.append((kind, now, now + seconds, step))
            now += seconds

        crashed = None if self.crash is None else round(self.crash * self.steps)
        step = saved = self.first
        while step < self.steps:
            if step == crashed:
                crashed = None
                add("idle", DOWN_S, step)
                add("start", started, saved)
                step = saved
            if step and step % self.eval_every == 0 and spans[-1][0] != "start":
                add("eval", self.eval_s * rng.uniform(0.97, 1.03), step)
                if self.second_every and step % (self.second_every * self.eval_every) == 0:
                    add("eval", 2 * self.eval_s * rng.uniform(0.97, 1.03), step)
            if step and step % self.save_every == 0 and spans[-1][0] != "start":
                add("checkpoint", self.save_s * rng.uniform(0.9, 1.1), step)
                saved = step
            add("train", self.step_s * rng.uniform(0.99, 1.01), step)
            step += 1
        return spans

    @property
    def layout(self) -> Layout:
        return LAYOUTS[self.style]

    def seconds(self, kind: str) -> float:
        return sum(end - begin for this, begin, end, _ in self.spans if this == kind)

    @property
    def end(self) -> float:
        return self.spans[-1][2]

    @property
    def done(self) -> int:
        """Steps that were done, those that a crash discarded too."""
        return sum(kind == "train" for kind, *_ in self.spans)

    def loss(self, step: int) -> float:
        return round(2.5 + 8.5 / (1 + step / 20), self.layout.digits)


def true_watts(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Edges in seconds, and joules of one GPU used until each of them."""
    edges, watts = [0.0], []
    for kind, begin, end, _ in case.spans:
        if kind == "train":
            edges.append(begin + (1 - DIP) * (end - begin))
            watts.append(WATTS["train"])
        edges.append(end)
        watts.append(WATTS["checkpoint"] if kind == "train" else WATTS[kind])
    edges.append(case.end + 20)
    watts.append(WATTS["idle"])
    return np.array(edges), np.append(0.0, np.cumsum(np.diff(edges) * watts))


def joules(case: Case, begin: float, end: float) -> float:
    edges, used = true_watts(case)
    return float(np.interp(end, edges, used) - np.interp(begin, edges, used))


def sampled(case: Case) -> list[tuple[float, list[tuple[float, float, float] | None]]]:
    """Each tick with each GPU's instantaneous power, one-second average and counter; None for a lost GPU."""
    edges, used = true_watts(case)
    times = np.arange(0.0, case.end + 10, 1 / case.hz)
    if case.gap:
        times = times[(times < case.gap[0] * case.end) | (times > case.gap[1] * case.end)]
    refreshed = np.floor(times * 10) / 10
    until = np.interp(refreshed, edges, used)
    instant = (until - np.interp(refreshed - 0.025, edges, used)) / 0.025
    average = (until - np.interp(refreshed - 1, edges, used)) / np.minimum(np.maximum(refreshed, 0.1), 1.0)
    rows = []
    for at, row in zip(times.tolist(), zip(instant, average, until, strict=True), strict=True):
        gone = case.lost is not None and at > case.lost * case.end
        rows.append((at, [None if gone and gpu == case.gpus - 1 else row for gpu in range(case.gpus)]))
    return rows


def write(case: Case, folder: Path) -> runs.RunData:
    """Writes the run as its user has it, and opens it."""
    if case.readings == "recording":
        return runs.read_run(_recording(case, folder / case.name))
    log = folder / f"{case.name}.log"
    log.write_text("".join(f"{_stamp(case, at)}{line}\n" for at, line in lines(case)))
    if case.readings is None:
        return runs.read_run(log)
    table = folder / f"{case.name}.csv"
    table.write_text(TABLES[case.readings](case))
    return runs.from_table_and_log(table, log, -3600.0 * case.offset_h)


def source(case: Case, folder: Path) -> Path:
    """What `tail` follows of a written case."""
    return folder / case.name if case.readings == "recording" else folder / f"{case.name}.log"


def write_half(case: Case, folder: Path, until: float) -> Path:
    """Writes the log as it stands at a second of a run that goes on now."""
    log = folder / f"{case.name}-half.log"
    start = datetime.now(timezone.utc) - timedelta(seconds=until)
    log.write_text("".join(f"{_stamp(case, at, start)}{line}\n" for at, line in lines(case) if at <= until))
    return log


def _stamp(case: Case, at: float, start: datetime = START) -> str:
    moment = start + timedelta(seconds=at)
    forms = {
        "s": f"{moment:%Y-%m-%d %H:%M:%S} ",
        "iso": f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond:06d}000Z ",
        "ms": f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d} ",
    }
    return forms.get(case.stamps or "", "")


def _smi(case: Case) -> str:
    head = ("timestamp, index, name, power.draw [W], power.limit [W], utilization.gpu [%], temperature.gpu, "
            "memory.used [MiB], memory.total [MiB]")  # fmt: skip
    rows = [head]
    for at, gpus in sampled(case):
        moment = START + timedelta(seconds=at, hours=case.offset_h)
        for gpu, row in enumerate(gpus):
            draw = "[GPU is lost]" if row is None else f"{row[1]:.2f} W"
            busy = 98 if case.start_s < at < case.end else 0
            rows.append(f"{moment:%Y/%m/%d %H:%M:%S}.{moment.microsecond // 1000:03d}, {gpu}, {NAME}, {draw}, "
                        f"{LIMIT_W:.2f} W, {busy} %, 61, 60000 MiB, {MEMORY_MIB} MiB")  # fmt: skip
    return "\n".join(rows) + "\n"


def _wide(case: Case) -> str:
    names = [
        f"gpu{gpu}_{name}"
        for gpu in range(case.gpus)
        for name in ("power_w", "temp_c", "util", "mem_used_mib")
    ]
    rows = [",".join(["timestamp", "elapsed_sec", *names])]
    for at, gpus in sampled(case):
        moment = START + timedelta(seconds=at, hours=case.offset_h)
        cells = [
            cell
            for row in gpus
            for cell in (["", "", "", ""] if row is None else [f"{row[1]:.2f}", "61", "97", "60000"])
        ]
        rows.append(",".join([f"{moment:%Y-%m-%d %H:%M:%S.%f}", f"{at:.3f}", *cells]))
    return "\n".join(rows) + "\n"


def _long(case: Case) -> str:
    """A sampler of one's own: seconds since 1970, a row for each GPU, names as people write them."""
    rows = ["unix_time,gpu_id,power_watts,temperature_c,gpu_util_pct,memory_used_mb"]
    for at, gpus in sampled(case):
        moment = START.timestamp() + at + 3600 * case.offset_h
        rows += [
            f"{moment:.3f},{gpu},{row[1]:.2f},61,97,60000" for gpu, row in enumerate(gpus) if row is not None
        ]
    return "\n".join(rows) + "\n"


def _milli(case: Case) -> str:
    """Units in the header, power in thousandths of a watt, time in milliseconds since 1970."""
    rows = ["time [ms],gpu,power [mW],temperature [C],utilization [%],memory used [MiB]"]
    for at, gpus in sampled(case):
        moment = 1000 * (START.timestamp() + at + 3600 * case.offset_h)
        rows += [
            f"{moment:.0f},{gpu},{1000 * row[1]:.0f},61,97,60000"
            for gpu, row in enumerate(gpus)
            if row is not None
        ]
    return "\n".join(rows) + "\n"


TABLES = {"smi": _smi, "wide": _wide, "long": _long, "milli": _milli}


def _recording(case: Case, folder: Path) -> Path:
    def clock(second: float) -> dict[str, int]:
        return {"wall_ns": START_NS + round(second * SECOND)}

    gpus = [{"gpu": str(gpu), "name": NAME, "uuid": str(gpu), "limits": {"power_w": LIMIT_W},
             "memory_total_mib": MEMORY_MIB} for gpu in range(case.gpus)]  # fmt: skip
    facts = {"run": case.name, "argv": ["python", "train.py"], "gpus": gpus, "started": clock(0),
             "ended": clock(case.end + 1), "exit_code": 0, "sampling": {"hz": case.hz}}  # fmt: skip
    segment = run_folder.create(folder, facts)
    columns = tuple(
        TierColumn(name, unit, per, str(gpu)) for gpu in range(case.gpus) for name, unit, per in READINGS
    )
    tier, now = Tier("fast", case.hz, columns), Clock()
    writer = Writer(PartWriter(segment.gpu, [tier], now, on_trouble=print, compactor=None))
    for at, rows in sampled(case):
        now.now = round(at * SECOND)
        values = [
            cell
            for row in rows
            for cell in (
                [None] * 4 if row is None else [round(1000 * row[0]), round(1000 * row[2]), 60000, 97]
            )
        ]
        writer.append(0, now.now, now.now, values)
    writer.close()
    printed = list(lines(case))
    segment.output.write_text("".join(f"{line}\n" for _, line in printed))
    ends = np.cumsum([len(line) + 1 for _, line in printed]).tolist()
    reads = zip(printed, ends, strict=True)
    segment.index.write_bytes(
        b"".join(output_index.pack(START_NS + round(at * SECOND), end) for (at, _), end in reads)
    )
    return folder


class Clock(long_recordings.GivenClock):
    def stamp(self) -> Stamp:
        return Stamp(self.now + START_NS, self.now, self.now)


def cases(seed: int, count: int) -> list[Case]:
    """Runs of every layout in turn, with random sizes."""
    rng = random.Random(seed)
    return [_case(seed, number, rng) for number in range(count)]


def _case(seed: int, number: int, rng: random.Random) -> Case:
    readings = (None, "recording", "smi", "wide", "long", None, "milli", "recording")[number % 8]
    style = rng.choice(["desired", *LAYOUTS])
    options: dict[str, Any] = {
        "steps": rng.randint(160, 420),
        "step_s": rng.choice([0.307, 0.645, 1.217, 2.94]) * rng.uniform(0.98, 1.02),
        "tokens": rng.choice([65_536, 524_288]),
        "every": rng.choice([1, 1, 1, 10]),
        "eval_every": rng.choice([20, 50, 100, 10_000]),
        "eval_s": rng.uniform(6, 20) if rng.random() < 0.8 else rng.uniform(0.2, 1.0),
        "save_every": rng.choice([80, 150, 10_000]),
        "save_s": rng.uniform(3, 9) if rng.random() < 0.8 else rng.uniform(0.3, 1.5),
        "start_s": rng.uniform(15, 60),
        "compile_s": rng.choice([0.0, 0.0, rng.uniform(8, 60)]),
        "second_every": rng.choice([0, 0, 2]),
        "gpus": rng.choice([1, 2, 2, 4]),
        "style": style,
        "stamps": _stamps(readings, style, rng),
        "readings": readings,
        "hz": rng.choice([1.0, 10.0, 100.0]) if readings != "recording" else 10.0,
        "inside": LAYOUTS[style].inside or (style == "desired" and rng.random() < 0.7),
        "thousandth": style == "desired" and rng.random() < 0.4,
        "banner": rng.choice(["top", "late"]),
    }
    if readings and rng.random() < 0.2:
        options["gap"] = (0.5, 0.5 + rng.uniform(0.05, 0.2))
    elif readings and options["gpus"] > 1 and rng.random() < 0.25:
        options["lost"] = rng.uniform(0.4, 0.7)
    if readings in TABLES:
        options["offset_h"] = rng.choice([0, 0, 2])
    if options["stamps"] and options["save_every"] < 160 and rng.random() < 0.25:
        options |= {"crash": rng.uniform(0.6, 0.9), "every": 1}
    elif style not in ("nanogpt", "tokens") and rng.random() < 0.15:
        options["first"] = options["every"] * rng.randint(3, 9)
        options["steps"] += options["first"]
    if options["every"] == 1 and not options["inside"] and rng.random() < 0.4:
        options |= rng.choice([{"late": rng.uniform(0.3, 0.95)}, {"late": 0.9}, {"queued": True}])
    options |= _planted(number, options)
    kind = "-late" if options.get("late") else "-queued" if options.get("queued") else ""
    name = f"r{number:02d}-{options['style']}-{readings or 'log'}-{options['stamps'] or 'none'}{kind}"
    return Case(name, seed + number, **options)


def _planted(number: int, options: dict[str, Any]) -> dict[str, Any]:
    """What chance seldom draws: one of each in twenty runs."""
    plain = {"every": 1, "inside": False, "thousandth": False, "late": 0.0, "queued": False, "crash": None,
             "gap": None, "lost": None}  # fmt: skip
    saved = {
        "save_every": 80,
        "stamps": options["stamps"] or (options["readings"] != "recording" and "s") or None,
    }
    steps = options["steps"]
    match number % 20:
        case 2:  # a save that is announced before the line of the step that precedes it
            return {**plain, **saved, "style": "keyed", "queued": True}
        case 5:  # a log without stamps that prints as often as it evaluates, within the printed time
            pauses = {"every": 10, "eval_every": 10, "inside": True, "save_every": 10_000, "first": 0}
            return {**plain, **pauses, "style": "nanogpt", "stamps": None}
        case 8:  # a GPU is lost early in the training
            first = options["start_s"] / (options["start_s"] + steps * options["step_s"])
            return {"gap": None, "gpus": max(2, options["gpus"]), "lost": first + 0.3 * (1 - first)}
        case 14:  # the first step behind a save is lost, and done once more
            return {**plain, **saved, "style": "desired", "crash": (steps // 80 * 80 + 0.6) / steps}
    return {}


def _stamps(readings: str | None, style: str, rng: random.Random) -> str | None:
    if readings == "recording":
        return None
    if style == "pod":
        return "iso"
    return rng.choice(["s", "s", "ms"] if readings else ["s", "ms", None])
