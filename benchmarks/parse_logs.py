"""Logs for `benchmarks/parse.py`, and for each the script that people would have."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Row = Callable[[tuple[Any, ...]], dict[str, Any]]
EVAL_EVERY = 250
POOL = 20_000

_KNOWN = re.compile(
    r"step (\d+)/(\d+) \(([\d.]+)%\) \| loss: ([\d.]+) \| lrm: ([\d.]+) \| dt: ([\d.]+)ms \| tok/sec: ([\d,]+) "
    r"\| (?:bf16_)?mfu: ([\d.]+) \| epoch: (\d+) \| total time: ([\d.]+)m(?: \| eta: ([\d.]+)m)?"
)
_USER = re.compile(r"step (\d+)/(\d+) \([\d.]+%\) \| loss: ([\d.]+) \| lrm: ([\d.]+) \| dt: ([\d.]+)ms")
_UNKNOWN = re.compile(
    r"\[train\] u=(\d+) ; objective=([\d.]+) ; gnorm=([\d.]+) ; speed=([\d.]+) ; took=([\d.]+)ms"
)
_SLOTS = r"step <step>/<total_steps> \([\d.]+%\) \| loss: <loss> \| lrm: <lrm> \| dt: <dt_ms:ms>ms"


def _known(g: tuple[str, ...]) -> dict[str, float]:
    return {
        "step": int(g[0]),
        "total_steps": int(g[1]),
        "percent": float(g[2]),
        "loss": float(g[3]),
        "lrm": float(g[4]),
        "dt_ms": float(g[5]),
        "tok_per_sec": float(g[6].replace(",", "")),
        "mfu": float(g[7]),
        "epoch": int(g[8]),
        "total_time_min": float(g[9]),
        "eta_min": float(g[10]),
    }


def _user(g: tuple[str, ...]) -> dict[str, float]:
    return {
        "step": int(g[0]), "total_steps": int(g[1]), "loss": float(g[2]), "lrm": float(g[3]), "dt_ms": float(g[4]),
    }  # fmt: skip


def _unknown(g: tuple[str, ...]) -> dict[str, float]:
    return {
        "u": int(g[0]),
        "objective": float(g[1]),
        "gnorm": float(g[2]),
        "speed": float(g[3]),
        "took": float(g[4]),
    }


SCRIPTS: dict[str, tuple[Callable[[str], re.Match[str] | None], Row]] = {
    "known": (_KNOWN.search, _known),
    "user": (_USER.search, _user),
    "unknown": (_UNKNOWN.search, _unknown),
}


def grepped(story: str) -> str:
    """The same pattern as `grep -E` wants it."""
    pattern = {"known": _KNOWN, "user": _USER, "unknown": _UNKNOWN}[story].pattern
    return pattern.replace("(?:", "(").replace(r"[\d", "[0-9").replace(r"\d", "[0-9]")


def chosen(story: str, path: str) -> Path | None:
    """The user's own format, where the story has one."""
    return Path(path).parent / "users.toml" if story == "user" else None


def write(folder: Path, story: str, size: int, files: int) -> None:
    """`size` bytes of logs in `files` files; each goes on where the one before ended."""
    folder.mkdir(exist_ok=True)
    lines = _lines(story)
    for number in range(files):
        with Path(folder, f"{number:05d}.log").open("w") as log:
            written = 0
            while written < size // files:
                written += log.write(next(lines))
    if story == "user":
        Path(folder, "users.toml").write_text(
            f"title = 'mine'\n[[lines]]\nname = 'train'\nrole = 'train'\nneedle = 'step '\nline = '{_SLOTS}'\n"
        )


def _lines(story: str) -> Iterator[str]:
    rng = random.Random(1)
    tails = [_tail(story, rng) for _ in range(POOL)]
    step, total = 0, 9_999_999
    while True:
        if story == "unknown":
            yield f"[train] u={step} ; {tails[step * 7919 % POOL]}\n"
        else:
            minutes = step * 0.0109
            yield (
                f"step {step:05d}/{total} ({step / total:.2%}) | {tails[step * 7919 % POOL]} | epoch: 1 "
                f"| total time: {minutes:.2f}m | eta: {109_000 - minutes:.1f}m\n"
            )
            if step % EVAL_EVERY == 0:
                yield f"Step {step:05d} | Validation bpb: {0.7 + 2 / (step + 1):.6f}\n"
        step += 1


def _tail(story: str, rng: random.Random) -> str:
    loss, slow = rng.gauss(3, 0.4), rng.random() < 0.01
    ms = rng.gauss(1900 if slow else 655, 6)
    if story == "unknown":
        return (
            f"objective={loss:.4f} ; gnorm={rng.expovariate(2):.3f} ; speed={5e8 / ms:.1f} ; took={ms:.1f}ms"
        )
    return (
        f"loss: {loss:.6f} | lrm: {rng.random():.2f} | dt: {ms:.2f}ms | tok/sec: {int(5.24e8 / ms):,} "
        f"| bf16_mfu: {32_600 / ms:.2f}"
    )
