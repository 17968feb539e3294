"""What a reader of a comparison must know to trust its figures, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import polars as pl

from gputel.analysis import text
from gputel.analysis.columns import UNKNOWN_DIRECTION
from gputel.analysis.comparing import clocks
from gputel.analysis.facts import FLOPS_PER_PARAMETER, PRINTED, RECORDED

if TYPE_CHECKING:
    from gputel.analysis.comparing.axes import Prices
    from gputel.analysis.comparing.tracks import Track


def of(tracks: Sequence[Track], prices: Prices, *, grouped: bool) -> Iterator[str]:
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


def _of_time(tracks: Sequence[Track]) -> Iterator[str]:
    told = {track.name: track.clock for track in tracks if track.clock}
    for clock in dict.fromkeys(told.values()):
        runs = text.names(name for name, own in told.items() if own == clock)
        of_whom = f" of {runs}" if len(set(told.values())) > 1 else ""
        yield f"time{of_whom} is {clocks.CLOCKS[clock]}"


def _of_energy(tracks: Sequence[Track]) -> Iterator[str]:
    if any("energy" in track.costs for track in tracks):
        yield "energy counts as time does: since the first step began; J/token and W are of training alone"


def _of_rates(tracks: Sequence[Track]) -> Iterator[str]:
    """`gputel report` sets what really passed beside what was printed; here runs without stamps stand too."""
    printed = [track.name for track in tracks if "tok_per_sec" in track.rows.columns]
    if printed:
        of_whom = f" of {text.names(printed)}" if len(printed) < len(tracks) else ""
        yield f"tok/s{of_whom} is the mean of what was printed"


def _of_gpus(tracks: Sequence[Track]) -> Iterator[str]:
    """Their number, which the price is taken times, where nobody has printed or recorded it."""
    counted = {track.name: fact for track in tracks if (fact := track.subject.facts.gpus)}
    for origin in dict.fromkeys(fact.origin for fact in counted.values()):
        if origin not in (PRINTED, RECORDED):
            runs = text.names(name for name, fact in counted.items() if fact.origin == origin)
            yield f"GPUs of {runs}: {origin}"
