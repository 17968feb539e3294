"""What a run was set to: what its log and its recording say of it; and of several runs, only what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from gputel.analysis.subjects import Subject

ABSENT = {"composed", "flops_per_token"}  # a caution, and what follows from the shape
SCHEMA = {"setting": pl.String, "run": pl.String, "value": pl.String}


def of(subject: Subject) -> dict[str, Any]:
    """By name: the configuration that was printed, the machine, and the tags and versions that were recorded."""
    said: dict[str, Any] = {name: value for name, value in subject.log.config.items() if name not in ABSENT}
    for name in ("gpu", "gpus"):
        fact = getattr(subject.facts, name)
        if fact is not None:
            said[name] = fact.value
    if "gpus" in said:
        said.pop("world_size", None)
    for description in subject.recording.descriptions if subject.recording else ():
        said |= _recorded(description)  # of a run that went on, what was said last
    return {name: whole(value) for name, value in said.items()}


def differing(settings: Mapping[str, Mapping[str, Any]]) -> pl.DataFrame:
    """`setting`, `run`, `value`: what two runs say differently; null where a run does not say it."""
    names = dict.fromkeys(name for own in settings.values() for name in own)
    said = {name: {run: shown(own[name]) for run, own in settings.items() if name in own} for name in names}
    rows = [
        (name, run, values.get(run))
        for name, values in said.items()
        if len(set(values.values())) > 1
        for run in settings
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def tokenisers(subjects: Sequence[Subject]) -> str | None:
    """Why these runs' losses cannot be compared; None where nothing says that their tokenisers differ."""
    stated = {_tokeniser(subject) for subject in subjects} - {None}
    if len(stated) > 1:
        return f"their tokenisers differ ({', '.join(sorted(map(str, stated)))})"
    sizes = {int(subject.facts.vocab.value) for subject in subjects if subject.facts.vocab}
    if len(sizes) > 1:
        return f"their tokenisers differ (vocabularies of {' and '.join(f'{n:,}' for n in sorted(sizes))})"
    return None


def whole(value: Any) -> Any:
    """A depth of 24 is 24 and not 24.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def shown(value: Any) -> str:
    """One line: a command may hold a whole script."""
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else " ".join(str(value).split())


def _tokeniser(subject: Subject) -> Any:
    said = of(subject)
    names = ("tokenizer", "tokenizer_name", "tokenizer_path", "tokeniser")
    return next((said[name] for name in names if name in said), None)


def _recorded(description: Mapping[str, Any]) -> dict[str, Any]:
    said = dict(description.get("tags") or {})
    said["host"] = (description.get("host") or {}).get("name")
    said["command"] = " ".join(description.get("argv") or []) or None
    said["commit"] = ((description.get("git") or {}).get("commit") or "")[:12] or None
    said |= description.get("packages") or {}
    return {name: value for name, value in said.items() if value is not None}
