"""The line of a save -> the step that it names, and the path: `step_000150.pt`, `at iteration 4000 to out`.

Without the word `step`, a number in a file's name may be an epoch: it counts if it fits the records around it.
"""

from __future__ import annotations

import polars as pl

from gputel.analysis.logs.patterns import lazy_regex

_NAMED = lazy_regex(
    r"(?i)(?<![a-z])(?:global[ _-]?)?(?:steps?|iter|iterations?|updates?)[ _=:#-]{0,2}0*(\d{1,12})(?!\d)"
)
_UPDATES = lazy_regex(r"(?i)@ ?0*(\d{1,12}) updates\b")
_NUMBERED = lazy_regex(
    r"(?i)(?<![a-z])(?:checkpoint|ckpt|model|weights|state|optim|meta|snapshot)[_-]?0*(\d{1,12})(?!\d)"
)
_PATH = lazy_regex(
    r"""[^\s'"=,;()]*/[^\s'"=,;()]+|[^\s'"=,;()]+\.(?:pt|pth|ckpt|safetensors|bin|h5|keras|npz)(?![\w])"""
)
_FOLDER = lazy_regex(
    r"""(?i)\b(?:checkpoints?|ckpt|model|weights|state|snapshot)\b[^'"=,;()]{0,40}?\b(?:to|in|into|at)\b:?"""
    r"""(?! (?:iter\w*|step|epoch|disk|the|a)\b) ['"]?([^\W\d][^\s'"=,;()]*)['"]?\W*$"""
)
_NO_WEIGHTS = lazy_regex(r"(?i)(?<![a-z])(?:optim\w*|meta(?:data)?|rng|scheduler|args|config)(?![a-z])")


def saved_path(text: str) -> str | None:
    """Returns the file or folder that a save was written to; a folder may be one word, as in `to out`."""
    path = _PATH.search(text)
    if path:
        return path.group().rstrip(".:!")
    folder = _FOLDER.search(text)
    return folder.group(1).rstrip(".:!") if folder else None


def has_weights(path: str) -> bool:
    """Returns whether a checkpoint's file may hold the model, and not the state of an optimizer alone."""
    return _NO_WEIGHTS.search(path.rpartition("/")[2]) is None


def naming(text: str) -> tuple[bool, bool, bool]:
    """Returns how well the line of a save names its checkpoint: a path, of weights, of a certain step."""
    path = saved_path(text)
    return path is not None, path is not None and has_weights(path), bool(named_numbers(text))


def named_numbers(text: str) -> set[int]:
    """Returns the numbers that may say which save a line is about: of steps, else of files."""
    for patterns in ((_NAMED, _UPDATES), (_NUMBERED,)):
        if numbers := {int(number) for pattern in patterns for number in pattern.findall(text)}:
            return numbers
    return set()


def resumed_step(text: str) -> int | None:
    """Returns the step at which a run goes on, as the line that resumes it names it; None if it does not."""
    numbers = [int(number) for pattern in (_NAMED, _UPDATES, _NUMBERED) for number in pattern.findall(text)]
    return numbers[-1] if len(set(numbers)) == 1 else None


def resumed_at(records: pl.DataFrame, events: pl.DataFrame) -> pl.Series:
    """Returns the step that the last resume before each record names; null where none does."""
    said = events.filter(pl.col("kind") == "resume").sort("line")
    steps = [None, *(resumed_step(text or "") for text in said["text"])]
    return pl.Series(steps, dtype=pl.Int64)[said["line"].search_sorted(records["line"], side="left")]


def begins_where_resumed(records: pl.DataFrame, events: pl.DataFrame) -> bool:
    """Returns whether the first record is of the very step at which the run says that it goes on."""
    first = records.filter(pl.col("step").is_not_null()).head(1)
    return bool((resumed_at(first, events) == first["step"]).any())


def saved_step(text: str, last: int | None, stride: int) -> int | None:
    """Returns the step that was saved: the one in the text, else `last`, that of the record before.

    `stride` is the number of steps between two records.
    """
    for pattern in (_NAMED, _UPDATES):
        if matches := pattern.findall(text):
            return int(matches[-1])
    numbers = [int(number) for number in _NUMBERED.findall(text)]
    if last is None:
        return None
    return next((number for number in numbers if last <= number <= last + max(stride, 1)), last)
