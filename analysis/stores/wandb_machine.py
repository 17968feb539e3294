"""What W&B notes of the machine and the command -> where and how a run ran.

It is in the `.wandb` file; older versions have it in `files/wandb-metadata.json` alone. Secrets are masked.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gputel.analysis.logs.log import Provenance
from gputel.analysis.stores.protobuf import BYTES, fields, text
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


def _commit(data: bytes, at: int, end: int) -> str | None:
    found = (text(data, part) for part in fields(data, at, end) if part.number == COMMIT)
    return next(found, None) or None


def _word(said: object) -> str | None:
    return said if isinstance(said, str) and said else None


def _masked(words: list[str]) -> tuple[str, ...]:
    return tuple(mask(word) for word in mask_argv(words))
