"""What is compared: names that tell the runs apart, and the metric that they share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gputel.analysis.comparing import curves
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.comparing.tracks import Track
    from gputel.analysis.subjects import Subject

FIRST = ("loss", "val_loss", "val_bpb")
BITS = "bpb"
LOSS = re.compile(r"(?:^|_)loss(?:_avg)?$")


@dataclass(frozen=True)
class Metric:
    name: str
    notes: list[str]


def names(subjects: Sequence[Subject]) -> list[str]:
    """Their own names; where several have one, as much of their paths as tells them apart, else a number."""
    own = [subject.name for subject in subjects]
    counts = Counter(own)
    rivals = {i: _path(subject) for i, subject in enumerate(subjects) if counts[own[i]] > 1}
    told = {**dict(enumerate(own)), **_apart(rivals)}
    taken: Counter[str] = Counter()
    found = []
    for i in range(len(own)):
        taken[told[i]] += 1
        found.append(told[i] if taken[told[i]] == 1 else f"{told[i]} ({taken[told[i]]})")
    return found


def _apart(paths: dict[int, tuple[str, ...]]) -> dict[int, str]:
    """The shortest ends of paths that no other has; those of one path have none."""
    found: dict[int, str] = {}
    for deep in range(1, max(map(len, paths.values()), default=0)):
        counts = Counter(path[-deep:] for path in paths.values())
        found |= {
            i: "/".join(p[-deep:]) for i, p in paths.items() if i not in found and counts[p[-deep:]] == 1
        }
    return found


def _path(subject: Subject) -> tuple[str, ...]:
    """Of a log with its name for its file, which may end in .log.gz; of a run as it is: many have one name."""
    path = Path(subject.log.source).absolute()
    return path.parts if path.is_dir() else (*path.parent.parts, subject.name)


def metric(tracks: Sequence[Track], asked: str | None, tokenisers: str | None) -> Metric:
    """`tokenisers` is why losses are not compared. Else what most runs share: a loss or an evaluation."""
    have = [curves.metrics(track) for track in tracks]
    every = list(dict.fromkeys(name for own in have for name in own))
    if tokenisers and (asked is None or depends_on_tokeniser(asked)):
        return _in_bits(have, every, tokenisers)
    if asked is not None:
        if asked not in every:
            raise GputelError(
                f"--metric {asked}", "no run has it", f"they have {', '.join(every) or 'no metric'}"
            )
        return Metric(asked, [])
    evaluated = {name for track in tracks for name in curves.evaluated(track)}
    ranked = [*FIRST, *(n for n in every if n not in FIRST and (LOSS.search(n) or n in evaluated))]
    best = max(ranked, key=lambda name: sum(name in own for own in have))
    return Metric(best, [])


def _in_bits(have: list[list[str]], every: list[str], why: str) -> Metric:
    bits = [name for name in every if BITS in name]
    if not bits:
        raise GputelError(
            "loss", f"cannot be compared: {why}", "compare runs that print validation bits per byte"
        )
    best = max(bits, key=lambda name: sum(name in own for own in have))
    return Metric(best, [f"compared by {best}, bits per byte, and not by loss: {why}"])


def depends_on_tokeniser(metric: str) -> bool:
    """Whether it is a mean over tokens."""
    return "loss" in metric or "perplexity" in metric or "ppl" in metric
