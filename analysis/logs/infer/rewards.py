"""Which names only an agent's training has: rewards, and scores of its episodes.

A score alone may be of anything that has episodes; beside its mean, or a share of random actions, it is an agent's.
"""

from __future__ import annotations

from collections.abc import Sequence

from gputel.analysis.logs.patterns import lazy_regex

REWARD = lazy_regex(
    r"(?i)(?:^|[\W_])(?:rewards?|ep_?rew\w*|returns?|utility|fitness|success(?:[ _]rate)?)(?:$|[\W_])"
)
EPISODE = lazy_regex(r"(?i)episod(?:es?|ic)|time_?steps?|\b(?:games?|cycles?|generations?)\b")
_COUNTED = lazy_regex(rb"(?i)\b(?:done|played|finished) \d+ (?:games|episodes)\b")
_SCORE = lazy_regex(r"(?i)(?:^|[\W_])scores?(?:$|[\W_])")
_ACTS = lazy_regex(r"(?i)^(?:e|eps|epsilon|exploration\w*)$")
_MEAN = lazy_regex(
    r"(?i)(?:^|[\W_])(?:avg|average|mean|running|moving)[\W_]?\d*(?:$|[\W_])"
)  # `Average100 Score`
_EPISODES = ("episode", "episodes", "ep")


def are_named(moving: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a figure that changes from line to line is a reward, or a score of an agent's episode."""
    if any(map(REWARD.search, moving)):
        return True
    acts = any(map(_ACTS.search, names)) or any(map(_MEAN.search, names))
    return names[0].lower() in _EPISODES and acts and any(map(_SCORE.search, moving))


def are_means(names: Sequence[str]) -> bool:
    """Whether one of them is a mean of rewards, as that of the episodes of an evaluation: `Average Return`."""
    return any(REWARD.search(name) and _MEAN.search(name) for name in names)


def are_of_episodes(names: Sequence[str], words: bytes) -> bool:
    """Whether a line counts episodes, by a name or as `done 12 games`."""
    return any(map(EPISODE.search, names)) or _COUNTED.search(words) is not None
