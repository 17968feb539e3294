"""An hour of training, compressed: a log is rotated and cut, its tail killed and stopped; no row is lost."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from gputel.analysis.live import files, lines
from gputel.analysis.live.follower import Follower
from gputel.analysis.live.resume import Positions
from gputel.analysis.logs import result, summary
from gputel.analysis.logs.parser import make_parser

HOUR_S = 3600
ROTATIONS, CUTS, KILLS, STOPS = 100, 20, 50, 20
READ_S = 0.4  # between two readings, so that some are not followed by saving the positions
KILLED = "killed"  # a line in the output that only this test writes


class KilledError(Exception):
    """kill -9: nothing is closed, nothing is said."""


class Training:
    """Prints as a training does; remembers all that it ever printed, and whether the tail has seen it."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        self.path, self.written = path, b""
        self._chance, self._step, self._half = chance, 0, b""
        path.touch()

    def print_some(self) -> None:
        for _ in range(self._chance.randint(1, 6)):
            self._write(self._line())

    def rotate(self) -> None:
        """As logrotate does: older ones are moved up, and the sixth goes."""
        for number in range(5, 0, -1):
            old = self.path.with_name(f"{self.path.name}.{number}")
            if old.exists():
                old.rename(old.with_name(f"{self.path.name}.{number + 1}"))
        self.path.rename(self.path.with_name(f"{self.path.name}.1"))
        self.path.touch()

    def cut(self) -> None:
        """Ends the line that was begun, as the result of half a line is unknown."""
        self.end_line()
        os.truncate(self.path, 0)

    def end_line(self) -> None:
        self._write(b"")

    def _line(self) -> bytes:
        self._step += 1
        if self._step % 37 == 0:
            return b"Step %05d | Validation bpb: %.6f\n" % (self._step, 3 - self._step / 1000)
        if self._step % 101 == 0:
            return b"saved checkpoint to out/step_%d.pt\n" % self._step
        if self._chance.random() < 0.004:
            self._step -= 21
            return b"Resuming from checkpoint out/step_%d.pt\n" % self._step
        loss = b"nan" if self._chance.random() < 0.01 else b"%.6f" % (10 - self._step / 1000)
        return b"step %05d/90000 (0.1%%) | loss: %b | lrm: 1.00 | dt: 658.60ms | tok/sec: 796,060\n" % (
            self._step,
            loss,
        )

    def _write(self, line: bytes) -> None:
        """Half a line now and then, the rest later."""
        data = self._half + line
        keep = self._chance.randint(1, 20) if line and self._chance.random() < 0.2 else 0
        now, self._half = data[: len(data) - keep], data[len(data) - keep :]
        with self.path.open("ab") as log:
            log.write(now)
        self.written += now


class Tail:
    """What the command does, with the test's clock; it can be killed between any two of its steps."""

    def __init__(self, log: Path, out: Path, memory: Path, clock: list[float], chance: random.Random) -> None:
        self._log, self._out, self._memory, self._clock, self._chance = log, out, memory, clock, chance
        self._dies = ""
        self.kills = 0
        self._begin()

    def read(self) -> bool:
        """Whether there was anything new, or may be for the next tail after a kill."""
        self._clock[0] += READ_S
        news = self._follower.read()
        try:
            self._show(news)
        except KilledError:
            self._die()
            return True
        return bool(news)

    def catch_up(self) -> None:
        while self.read():
            pass

    def kill_soon(self) -> None:
        self._dies = self._chance.choice(
            ["before it is shown", "in the midst", "before it is saved", "at rest"]
        )

    def stop(self) -> None:
        """Ends as Ctrl-C does, and begins again."""
        self.close()
        self._begin()

    def close(self) -> None:
        self._follower.close()
        os.close(self._output)

    def _begin(self) -> None:
        self._output = os.open(self._out, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._positions = Positions(self._memory, now=lambda: self._clock[0])
        self._follower = Follower([str(self._log)], positions=self._positions, now=lambda: self._clock[0])
        self._printer = lines.Printer(lines.rows_json)

    def _show(self, news: list[Any]) -> None:
        text = "".join(f"{line}\n" for one in news for line in self._printer.lines(one)).encode()
        if self._dies == "before it is shown":
            raise KilledError
        if self._dies == "in the midst" and text:
            os.write(self._output, text[: self._chance.randint(1, len(text))])
            raise KilledError
        os.write(self._output, text)
        if self._dies == "before it is saved":
            raise KilledError
        self._follower.shown()
        if self._dies == "at rest":
            raise KilledError

    def _die(self) -> None:
        """Closes only what the kernel would close."""
        self._dies = ""
        self.kills += 1
        self._positions.close()
        self._follower.wakeups.close()
        os.write(self._output, f"\n{KILLED}\n".encode())
        os.close(self._output)
        self._begin()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_hour_of_rotations_cuts_and_kills_gives_the_rows_of_everything_that_was_written(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "notifies", lambda name: False)
    chance = random.Random(seed)
    log, out, memory = tmp_path / "train.log", tmp_path / "rows.jsonl", tmp_path / "memory"
    memory.mkdir()
    training, tail = Training(log, chance), Tail(log, out, memory, [0.0], chance)
    rotations, cuts, kills, stops = (
        set(chance.sample(range(10, HOUR_S), n)) for n in (ROTATIONS, CUTS, KILLS, STOPS)
    )
    kills -= {cut + after for cut in cuts for after in range(-5, 10)}  # line numbers would begin too low
    for second in range(HOUR_S):
        if chance.random() < 0.3:
            training.print_some()
        if second in kills:
            tail.kill_soon()
        if second in stops:
            tail.stop()
        if second in rotations:
            training.rotate()
        if second in cuts:
            training.end_line()
            tail.catch_up()
            training.cut()
        if chance.random() < 0.5:
            tail.read()
    training.end_line()
    tail.catch_up()
    tail.close()
    assert tail.kills > KILLS * 0.7
    assert said(out) == parsed(training.written)


def said(out: Path) -> list[dict[str, Any]]:
    """Each row as it was printed last; only after a kill may one be printed again that is not revised."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    repeated: set[tuple[Any, ...]] = set()
    lines = out.read_text().splitlines()
    for at, text in enumerate(lines):
        if text == KILLED:
            repeated = set(rows)
        elif text and KILLED not in lines[at + 1 : at + 2]:
            row = json.loads(text)
            revised = row.pop("revised", False)
            key = (row["kind"], row["line"], row.get("name"), row.get("event"))
            assert revised or key not in rows or key in repeated, text
            rows[key] = row
    return ordered(rows.values())


def parsed(data: bytes) -> list[dict[str, Any]]:
    parser = make_parser()
    parser.feed(data)
    parser.finish()
    log = result.conclude(parser, "train", "train.log")
    return ordered({**row, "run": "train"} for row in summary.rows(log))


def ordered(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what only earlier files tell, which a tail that starts again does not read."""
    told_by_a_line = (row for row in rows if row.get("event") in (None, "checkpoint"))
    return sorted(
        ({name: value for name, value in row.items() if name != "attempt"} for row in told_by_a_line),
        key=lambda row: (row["line"], row["kind"], str(row.get("name")), str(row.get("event"))),
    )
