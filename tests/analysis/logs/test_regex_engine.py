"""The plain engine: the first pattern that matches a line reads it, or the line is a reject with a reason."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from gputel.analysis.logs import numpy_engine, regex_engine
from gputel.analysis.logs.names import Vocabulary
from gputel.analysis.logs.patterns import Field, Pairs, Pattern

LOSS = Field("loss", "loss")
WORDS = re.compile(rb"(?P<key>[a-z_]+)=(?P<value>\S+)(?: \((?P<also>\S+)\))?")


def pattern(name: str, regex: bytes, needle: bytes = b"loss", **options: Any) -> Pattern:
    return Pattern(name, "train", re.compile(regex), needle, **options)


def columns(data: bytes, *patterns: Pattern) -> dict[str, list[float]]:
    (hits,) = regex_engine.read(data, patterns).hits
    return {what.column: values.numbers.tolist() for what, values in hits.values.items()}


def test_line_belongs_to_the_first_pattern_that_matches() -> None:
    first = pattern("first", rb"^loss (?P<v>\d+)", fields={"v": LOSS})
    second = pattern("second", rb"loss")
    reading = regex_engine.read(b"loss 3\nloss x\nnothing\nloss 5\n", (first, second))
    assert [(hits.pattern.name, hits.lines.tolist()) for hits in reading.hits] == [
        ("first", [0, 3]),
        ("second", [1]),
    ]
    assert reading.lines == 4


def test_starts_and_begins_say_where_line_and_match_begin() -> None:
    (hits,) = regex_engine.read(b"x\n[0] loss 3\n", (pattern("p", rb"loss \d"),)).hits
    assert (hits.starts.tolist(), hits.begins.tolist()) == ([2], [6])


def test_pairs_behind_the_match_are_read_with_the_second_number_in_brackets() -> None:
    pairs = Pairs(WORDS, Vocabulary())
    read = columns(b"at loss=2.5 (3.5) lr=1e-4\n", pattern("p", b"^at ", pairs=pairs))
    assert read == {"loss": [2.5], "loss_avg": [3.5], "lr": [1e-4]}


def test_line_that_lacks_a_needed_pair_is_none_of_the_pattern() -> None:
    pairs = Pairs(WORDS, Vocabulary(), need=frozenset({"loss"}))
    reading = regex_engine.read(b"at lr=1e-4\n", (pattern("p", b"^at ", b"at", pairs=pairs),))
    assert (reading.hits, reading.rejects) == ([], [])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"loss=oops", "loss is 'oops', expected a number"),
        (b"lost loss", "looks like p, but the rest of the line does not match"),
    ],
)
def test_line_that_cannot_be_read_is_a_reject_that_says_why(line: bytes, reason: str) -> None:
    pairs = Pairs(WORDS, Vocabulary(), must=frozenset({"loss"}))
    reading = regex_engine.read(line, (pattern("p", b"^(?=loss)", pairs=pairs, looks=re.compile(b"loss$")),))
    assert [(reject.line, reject.reason) for reject in reading.rejects] == [(0, reason)]


def test_name_in_backticks_is_no_value() -> None:
    """Transformers says so behind the first redraw of its bar."""
    pairs = Pairs(WORDS, Vocabulary(), must=frozenset({"loss"}), need=frozenset({"loss"}))
    line = b"0/50 Using the default loss: `ForCausalLMLoss`."
    reading = regex_engine.read(line, (pattern("p", b"^0/50", pairs=pairs),))
    assert (reading.hits, reading.rejects) == ([], [])


def test_placeholder_is_missing_and_nan_is_a_value() -> None:
    what = Field("loss", "loss", nulls=frozenset({b"N/A"}))
    data = b"loss N/A\nloss nan\nloss 1\n"
    (hits,) = regex_engine.read(data, (pattern("p", rb"^loss (?P<v>\S+)", fields={"v": what}),)).hits
    assert hits.values[what].present.tolist() == [False, True, True]


def test_texts_are_kept_where_they_stand() -> None:
    what = Field("stage", "stage", kind="text")
    (hits,) = regex_engine.read(
        b"loss of sft\nloss of rl", (pattern("p", rb"of (?P<v>\w+)", fields={"v": what}),)
    ).hits
    assert list(hits.texts[what]) == [b"sft", b"rl"]


def test_last_redraw_of_a_bar_counts_unless_it_is_another_bar() -> None:
    count, total = Field("count", "#"), Field("total", "#")
    pairs, fields = Pairs(WORDS, Vocabulary(), need=frozenset({"loss"})), {"c": count, "t": total}
    bar = replace(pattern("p", rb"(?P<c>\d+)/(?P<t>\d+) \[", b"/", fields=fields, pairs=pairs), role="bar")
    lines = b"5/9 [loss=3 9/9 [loss=2\n5/9 [loss=3 7/7 [loss=2\n5/9 [loss=3 9/9 [none\n" * 3
    for engine in (regex_engine.read, numpy_engine.read):
        (hits,) = engine(lines, (bar,)).hits
        assert hits.values[count].numbers.tolist() == [9, 5, 5] * 3
