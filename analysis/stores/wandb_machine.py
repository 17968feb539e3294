"""What W&B notes of the machine and the command -> where and how a run ran; and its readings of the machine.

The notes are in the `.wandb` file; older versions have them in `files/wandb-metadata.json` alone. Secrets are
masked. The machine is read every 15 s, unless the run asked for more.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from gputel.analysis.logs.log import Provenance
from gputel.analysis.stores.points import number
from gputel.analysis.stores.protobuf import BYTES, fields, moment_ns, text
from gputel.analysis.stores.system_metrics import SystemMetrics
from gputel.telemetry.characters import parse_json
from gputel.telemetry.own_files import is_foreign, read_own
from gputel.telemetry.secrets import mask, mask_argv

METADATA = Path("files", "wandb-metadata.json")
ARGUMENT, PROGRAM, GIT, HOST, GPU = 5, 6, 9, 12, 18
COMMIT = 2  # in what it notes of git
LARGEST = 1 << 20


def add(known: Provenance, data: bytes, at: int, end: int) -> Provenance:
    """Adds what one record says of the machine, which may come in pieces."""
    arguments: list[str] = []
    program: list[str] = []
    for part in fields(data, at, end):
        if part.kind != BYTES:
            continue
        if part.number == ARGUMENT:
            arguments.append(text(data, part))
        elif part.number == PROGRAM:
            program.append(text(data, part))
        elif part.number == HOST:
            known = replace(known, host=text(data, part) or None)
        elif part.number == GPU:
            known = replace(known, gpu=text(data, part) or None)
        elif part.number == GIT:
            known = replace(known, commit=_commit(data, part.start, part.end))
    return replace(known, command=_masked([*program, *arguments])) if program else known


def take_readings(data: bytes, at: int, end: int, metrics: SystemMetrics) -> None:
    """Takes one record of readings."""
    moment, cells = 0, dict[str, float | None]()
    for part in fields(data, at, end):
        if part.number == 2 and part.kind == BYTES:
            moment = moment_ns(data, part)
        elif part.number == 3 and part.kind == BYTES:
            name, value = _reading(data, part.start, part.end)
            cells[name] = value
    for name, value in cells.items():
        metrics.take(moment, name, value)


def beside(wandb_file: Path) -> Provenance | None:
    """Reads `wandb-metadata.json`; None without it."""
    file = wandb_file.parent / METADATA
    if is_foreign(file.parent, folder=True):
        return None
    try:
        said = parse_json(read_own(file, LARGEST))
    except (OSError, ValueError):
        return None
    if not isinstance(said, dict):
        return None
    git, arguments, program = said.get("git"), said.get("args"), _word(said.get("program"))
    words = [word for word in arguments if isinstance(word, str)] if isinstance(arguments, list) else []
    return Provenance(
        host=_word(said.get("host")),
        command=_masked([program, *words]) if program else (),
        commit=_word(git.get("commit")) if isinstance(git, dict) else None,
        gpu=_word(said.get("gpu")),
    )


def _reading(data: bytes, at: int, end: int) -> tuple[str, float | None]:
    name, value = "", None
    for part in fields(data, at, end):
        if part.number == 1 and part.kind == BYTES:
            name = text(data, part)
        elif part.number == 16 and part.kind == BYTES:
            value = number(json.loads(data[part.start : part.end]))
    return name, value


def _commit(data: bytes, at: int, end: int) -> str | None:
    found = (text(data, part) for part in fields(data, at, end) if part.number == COMMIT)
    return next(found, None) or None


def _word(said: object) -> str | None:
    return said if isinstance(said, str) and said else None


def _masked(words: list[str]) -> tuple[str, ...]:
    return tuple(mask(word) for word in mask_argv(words))
