"""Runs -> their settings, the settings that differ, and the caveats that a reader needs to trust the figures."""

from __future__ import annotations

import re
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

ABSENT = {"composed", "flops_per_token"}  # a caution, and a figure that follows from the shape
SPELLINGS = {
    "depth": r"(?:n|num)_?(?:hidden_)?layers?|depth",
    "dim": r"(?:model|hidden|embed)_?(?:dim|size)|n_embd|d_model|dim",
    "heads": r"(?:n|num)_?(?:attention_)?heads?|heads",
    "parameters": r"(?:number_of_|num_|n_|total_|trainable_|model_)*param(?:eter)?s",
    "vocab_size": r"vocab(?:ulary)?(?:_size)?",
    "seq": r"(?:max_)?seq(?:uence)?_?len(?:gth)?|block_size|context_length|seq",
    "total_steps": r"(?:max|num|total)_(?:steps|iters|iterations)",
}
"""How scripts spell the figures that a log's banner gives: a second row with the same values says nothing."""
SCHEMA = {"setting": pl.String, "run": pl.String, "value": pl.String}


def run_settings(subject: RunData) -> dict[str, Any]:
    """Returns settings by name: the printed configuration, the machine, recorded tags and versions."""
    stated: dict[str, Any] = {name: value for name, value in subject.log.config.items() if name not in ABSENT}
    for name in ("gpu", "gpus"):
        fact = getattr(subject.facts, name)
        if fact is not None:
            stated[name] = fact.value
    if "gpus" in stated:
        stated.pop("world_size", None)
    for description in subject.recording.descriptions if subject.recording else ():
        stated |= _recorded(description)  # the last segment wins
    return {name: whole(value) for name, value in stated.items()}


def differing(settings: Mapping[str, Mapping[str, Any]]) -> pl.DataFrame:
    """Returns the settings in which runs differ: `setting`, `run`, `value`; null if a run lacks it."""
    names = dict.fromkeys(name for values_of_run in settings.values() for name in values_of_run)
    by_name = {
        name: {
            run: shown(values_of_run[name])
            for run, values_of_run in settings.items()
            if name in values_of_run
        }
        for name in names
    }
    rows = [
        (name, run, values.get(run))
        for name, values in by_name.items()
        if len(set(values.values())) > 1 and not _repeats(name, by_name)
        for run in settings
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _repeats(name: str, by_name: Mapping[str, Mapping[str, str]]) -> bool:
    """Returns whether a setting is a figure in the words of the script."""
    return any(
        name != figure
        and by_name.get(figure) == by_name[name]
        and re.fullmatch(spelling, name.rstrip("_"), re.I)
        for figure, spelling in SPELLINGS.items()
    )


def tokenizers(subjects: Sequence[RunData]) -> str | None:
    """Returns why the losses cannot be compared; None unless the runs' tokenizers are known to differ."""
    stated = {_tokenizer(subject) for subject in subjects} - {None}
    if len(stated) > 1:
        return f"their tokenizers differ ({', '.join(sorted(map(str, stated)))})"
    sizes = {int(subject.facts.vocab.value) for subject in subjects if subject.facts.vocab}
    if len(sizes) > 1:
        return f"their tokenizers differ (vocabularies of {' and '.join(f'{n:,}' for n in sorted(sizes))})"
    return None


def whole(value: Any) -> Any:
    """Turns 24.0 into 24."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def shown(value: Any) -> str:
    """Formats a value on one line: a command may contain a script."""
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else " ".join(str(value).split())


def caveats(tracks: Sequence[RunPhase], prices: Prices, *, grouped: bool) -> Iterator[str]:
    """Yields what a reader must know about the figures of these runs."""
    yield from _of_time(tracks)
    yield from _of_energy(tracks)
    yield from _of_rates(tracks)
    numbered = [track.name for track in tracks if track.numbered]
    if numbered:
        yield f"{text.names(numbered)}: no steps are printed, so records are counted"
    rough = [t.name for t in tracks if "flops" in t.costs and not t.subject.facts.flops_per_token]
    if rough:
        yield f"FLOPs of {text.names(rough)}: {FLOPS_PER_PARAMETER} x parameters x tokens, without attention"
    if prices.hour is not None:
        yield from _of_gpus(tracks)
    if grouped:
        yield "a group's value is the mean of its runs, ± one standard deviation (n - 1)"


def without_best(validations: pl.DataFrame) -> Iterator[str]:
    """Says why the best value of a validation metric is left out."""
    unknown = validations.filter(pl.col("best").is_null())["name"]
    for name in unknown.unique(maintain_order=True).to_list():
        yield f"no best {name}: {UNKNOWN_DIRECTION}; add --lower {name} or --higher {name}"


def _tokenizer(subject: RunData) -> Any:
    stated = run_settings(subject)
    names = ("tokenizer", "tokenizer_name", "tokenizer_path", "tokeniser")
    return next((stated[name] for name in names if name in stated), None)


def _recorded(description: Mapping[str, Any]) -> dict[str, Any]:
    stated = dict(description.get("tags") or {})
    stated["host"] = (description.get("host") or {}).get("name")
    stated["command"] = " ".join(description.get("argv") or []) or None
    stated["commit"] = ((description.get("git") or {}).get("commit") or "")[:12] or None
    stated |= description.get("packages") or {}
    return {name: value for name, value in stated.items() if value is not None}


def _of_time(tracks: Sequence[RunPhase]) -> Iterator[str]:
    clocks = {track.name: track.clock for track in tracks if track.clock}
    for clock in dict.fromkeys(clocks.values()):
        runs = text.names(name for name, clock_of_run in clocks.items() if clock_of_run == clock)
        of_whom = f" of {runs}" if len(set(clocks.values())) > 1 else ""
        yield f"time{of_whom} is {axes.CLOCKS[clock]}"


def _of_energy(tracks: Sequence[RunPhase]) -> Iterator[str]:
    if any("energy" in track.costs for track in tracks):
        yield "energy counts from the beginning of the first step, like time; J/token and W are of training alone"


def _of_rates(tracks: Sequence[RunPhase]) -> Iterator[str]:
    """Says that rates are printed ones; `gputel report` measures them, but not every run has timestamps."""
    printed = [track for track in tracks if "tok_per_sec" in track.rows.columns]
    scales = {track.name: f"{track.subject.step_tokens.rate_scale:,.4g}" for track in printed}
    for scale in dict.fromkeys(scales.values()):
        runs = [name for name, each in scales.items() if each == scale]
        of_whom = f" of {text.names(runs)}" if len(runs) < len(tracks) else ""
        yield f"tok/s{of_whom} is the mean of the printed values" + (
            f", times {scale}" if scale != "1" else ""
        )


def _of_gpus(tracks: Sequence[RunPhase]) -> Iterator[str]:
    """Says how the number of GPUs was determined, if it was neither printed nor recorded."""
    counted = {track.name: fact for track in tracks if (fact := track.subject.facts.gpus)}
    for origin in dict.fromkeys(fact.origin for fact in counted.values()):
        if origin not in (PRINTED, RECORDED):
            runs = text.names(name for name, fact in counted.items() if fact.origin == origin)
            yield f"GPUs of {runs}: {origin}"
