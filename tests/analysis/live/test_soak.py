"""An hour of training, compressed: a log that is rotated and cut, a tail that is killed; no row lost or doubled."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from gputel.analysis import formats
from gputel.analysis.live import mounts, plain, printed
from gputel.analysis.live.follow import Follower
from gputel.analysis.live.kept import Kept
from gputel.analysis.parse import engine, listing, result

HOUR_S = 3600
ROTATIONS, CUTS, KILLS = 100, 20, 50


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
        """The line that is begun has been ended: what would be of a half is nobody's to know."""
        self.end_line()
        os.truncate(self.path, 0)

    def end_line(self) -> None:
        self._write(b"")

    def _line(self) -> bytes:
        self._step += 1
        if self._step % 37 == 0:
            return b"Step %05d | Validation bpb: %.6f\n" % (self._step, 3 - self._step / 1000)
        if self._step % 101 == 0:
            return b"saved checkpoint to out/ckpt_%d.pt\n" % self._step
        if self._chance.random() < 0.004:
            self._step -= 20  # a restart
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
        """Whether there was anything new."""
        self._clock[0] += 1
        news = self._follower.read()
        self._show(news)
        return bool(news)

    def catch_up(self) -> None:
        while self.read():
            pass

    def kill_soon(self) -> None:
        self._dies = self._chance.choice(
            ["before it is said", "in the midst", "before it is marked", "at rest"]
        )

    def close(self) -> None:
        self._follower.close()
        os.close(self._output)

    def _begin(self) -> None:
        self._output = os.open(self._out, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._kept = Kept(self._memory, formats.shipped(), self._output)
        self._follower = Follower([str(self._log)], kept=self._kept, now=lambda: self._clock[0])
        for news in self._follower.again():
            self._say(news)

    def _show(self, news: list[Any]) -> None:
        try:
            self._say(news)
            if self._dies == "before it is marked":
                raise KilledError
            self._follower.shown()
            if self._dies == "at rest":
                raise KilledError
        except KilledError:
            self._die()

    def _say(self, news: list[Any]) -> None:
        text = "".join(f"{line}\n" for one in news for line in plain.lines(one, printed.as_json)).encode()
        text = text[self._follower.already :]
        if self._dies == "before it is said":
            raise KilledError
        if self._dies == "in the midst" and text:
            os.write(self._output, text[: self._chance.randint(1, len(text))])
            raise KilledError
        os.write(self._output, text)

    def _die(self) -> None:
        """Nothing is remembered but what was written; only what the kernel would close is closed."""
        self._dies = ""
        self.kills += 1
        self._kept.close()
        self._follower.watch.close()
        os.close(self._output)
        self._begin()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_an_hour_of_rotations_cuts_and_kills_gives_the_rows_of_everything_that_was_written(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "is_told", lambda name: False)
    chance = random.Random(seed)
    log, out, memory = tmp_path / "train.log", tmp_path / "rows.jsonl", tmp_path / "memory"
    memory.mkdir()
    training, tail = Training(log, chance), Tail(log, out, memory, [0.0], chance)
    rotations, cuts, kills = (set(chance.sample(range(10, HOUR_S), n)) for n in (ROTATIONS, CUTS, KILLS))
    for second in range(HOUR_S):
        if chance.random() < 0.3:
            training.print_some()
        if second in kills:
            tail.kill_soon()
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
    assert tail.kills > KILLS * 0.8
    assert said(out) == parsed(training.written)


def said(out: Path) -> list[dict[str, Any]]:
    """Each row as it was said last."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for text in out.read_text().splitlines():
        row = json.loads(text)
        if row["kind"] == "afresh":
            rows.clear()
            continue
        revised = row.pop("revised", False)
        key = (row["kind"], row["line"], row.get("name"), row.get("event"))
        assert revised == (key in rows), text
        rows[key] = row
    return ordered(rows.values())


def parsed(data: bytes) -> list[dict[str, Any]]:
    parser = engine.parser()
    parser.feed(data)
    parser.finish()
    log = result.conclude(parser, "train", "train.log")
    return ordered({**row, "run": "train"} for row in listing.rows(log))


def ordered(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(
        rows, key=lambda row: (row["line"], row["kind"], str(row.get("name")), str(row.get("event")))
    )
