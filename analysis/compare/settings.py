"""What a run was set to: what its log and its recording say of it; and of several runs, only what differs.

What a reader of a comparison must know to trust its figures, in sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis import text
from gputel.analysis.columns import UNKNOWN_DIRECTION
from gputel.analysis.compare import axes
from gputel.analysis.runs.facts import FLOPS_PER_PARAMETER, PRINTED, RECORDED

if TYPE_CHECKING:
    from gputel.analysis.compare.axes import Prices
    from gputel.analysis.compare.curves import RunPhase
    from gputel.analysis.runs import RunData

ABSENT = {"composed", "flops_per_token"}  # a caution, and what follows from the shape
SCHEMA = {"setting": pl.String, "run": pl.String, "value": pl.String}


def run_settings(subject: RunData) -> dict[str, Any]:
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


def tokenisers(subjects: Sequence[RunData]) -> str | None:
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


def caveats(tracks: Sequence[RunPhase], prices: Prices, *, grouped: bool) -> Iterator[str]:
    yield from _of_time(tracks)
    yield from _of_energy(tracks)
    yield from _of_rates(tracks)
    numbered = [track.name for track in tracks if track.numbered]
    if numbered:
        yield f"{text.names(numbered)}: no steps are printed, so records are counted"
    rough = [t.name for t in tracks if "flops" in t.costs and not t.subject.facts.flops_per_token]
    if rough:
        yield f"FLOPs of {text.names(rough)}: {FLOPS_PER_PARAMETER} x parameters x tokens, attention left out"
    if prices.hour is not None:
        yield from _of_gpus(tracks)
    if grouped:
        yield "a group's value is the mean of its runs, ± one standard deviation (n - 1)"


def without_best(validations: pl.DataFrame) -> Iterator[str]:
    """Why the best value of a validation metric is left out."""
    unknown = validations.filter(pl.col("best").is_null())["name"]
    for name in unknown.unique(maintain_order=True).to_list():
        yield f"no best {name}: {UNKNOWN_DIRECTION}; add --lower {name} or --higher {name}"


def _tokeniser(subject: RunData) -> Any:
    said = run_settings(subject)
    names = ("tokenizer", "tokenizer_name", "tokenizer_path", "tokeniser")
    return next((said[name] for name in names if name in said), None)


def _recorded(description: Mapping[str, Any]) -> dict[str, Any]:
    said = dict(description.get("tags") or {})
    said["host"] = (description.get("host") or {}).get("name")
    said["command"] = " ".join(description.get("argv") or []) or None
    said["commit"] = ((description.get("git") or {}).get("commit") or "")[:12] or None
    said |= description.get("packages") or {}
    return {name: value for name, value in said.items() if value is not None}


def _of_time(tracks: Sequence[RunPhase]) -> Iterator[str]:
    told = {track.name: track.clock for track in tracks if track.clock}
    for clock in dict.fromkeys(told.values()):
        runs = text.names(name for name, own in told.items() if own == clock)
        of_whom = f" of {runs}" if len(set(told.values())) > 1 else ""
        yield f"time{of_whom} is {axes.CLOCKS[clock]}"


def _of_energy(tracks: Sequence[RunPhase]) -> Iterator[str]:
    if any("energy" in track.costs for track in tracks):
        yield "energy counts as time does: since the first step began; J/token and W are of training alone"


def _of_rates(tracks: Sequence[RunPhase]) -> Iterator[str]:
    """`gputel report` sets what really passed beside what was printed; here runs without stamps stand too."""
    printed = [track.name for track in tracks if "tok_per_sec" in track.rows.columns]
    if printed:
        of_whom = f" of {text.names(printed)}" if len(printed) < len(tracks) else ""
        yield f"tok/s{of_whom} is the mean of what was printed"


def _of_gpus(tracks: Sequence[RunPhase]) -> Iterator[str]:
    """Their number, which the price is taken times, where nobody has printed or recorded it."""
    counted = {track.name: fact for track in tracks if (fact := track.subject.facts.gpus)}
    for origin in dict.fromkeys(fact.origin for fact in counted.values()):
        if origin not in (PRINTED, RECORDED):
            runs = text.names(name for name, fact in counted.items() if fact.origin == origin)
            yield f"GPUs of {runs}: {origin}"
