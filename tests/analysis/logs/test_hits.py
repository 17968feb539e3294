"""Hits of an engine become runs: rows of one pattern with the same fields, in the order of the file."""

from __future__ import annotations

import re

from gputel.analysis.logs import regex_engine
from gputel.analysis.logs.hits import Heads, HitTable, runs, stretches
from gputel.analysis.logs.lines import Chunk, Splitter
from gputel.analysis.logs.patterns import Field, Pattern, Role

NUMBER = rb"(?P<step>\d+)(?: (?P<loss>[\d.]+))?"


def pattern(name: str, role: Role, head: bytes) -> Pattern:
    fields = {"step": Field("step", "step"), "loss": Field("loss" if role == "train" else "val_loss", "loss")}
    return Pattern(name, role, re.compile(head + NUMBER), head.strip(), fields)


TRAIN, EVAL = pattern("train", "train", b"step "), pattern("eval", "eval", b"val ")


def tables(text: bytes) -> list[HitTable]:
    chunk: Chunk
    (chunk,) = Splitter().feed(text)
    return [HitTable(hits, chunk) for hits in regex_engine.read(chunk.data, (TRAIN, EVAL)).hits]


def test_run_ends_where_other_fields_are_printed_or_another_pattern_reads() -> None:
    text = b"step 1 2.5\nstep 2 2.4\nstep 3\nval 3 2.6\nstep 4 2.2\n"
    cut = [(run.table.pattern.name, run.first, run.end) for run in runs(tables(text))]
    assert cut == [("train", 0, 2), ("train", 2, 3), ("eval", 0, 1), ("train", 3, 4)]


def test_evaluations_do_not_interrupt_a_run() -> None:
    text = b"step 1 2.5\nval 1 2.6\nstep 2 2.4\nval 2 2.5\n"
    cut = [
        (run.table.pattern.name, run.first, run.end, [aside.before.tolist() for aside in asides])
        for run, asides in stretches(tables(text))
    ]
    assert cut == [("train", 0, 2, [[1]]), ("eval", 1, 2, [])]


def test_cells_of_a_row_are_named_by_column() -> None:
    (table,) = tables(b"step 1 2.5\nstep 2\n")
    assert table.cells(table.plan(0), 0) == {"step": 1.0, "loss": 2.5}
    assert table.cells(table.plan(1), 1) == {"step": 2.0}
    assert table.numbers.tolist() == [1, 2]


def test_heads_are_read_once_and_all_at_once_where_prefixes_differ_in_digits() -> None:
    (table,) = tables(b"".join(b"[rank0]: 2024-03-01 10:00:0%d step %d 2.5\n" % (i, i) for i in range(5)))
    heads = Heads()
    first, rank = heads.time_and_rank(table, 0)
    times = heads.times(table, 0, 5, "0")
    assert rank == "0"
    assert times is not None
    assert [time - times[0] for time in times] == [i * 1_000_000_000 for i in range(5)]
    assert first == times[0]


def test_ranks_that_differ_have_no_times_together() -> None:
    (table,) = tables(b"".join(b"[rank%d]: 2024-03-01 10:00:00 step %d 2.5\n" % (i % 2, i) for i in range(4)))
    assert Heads().times(table, 0, 4, "0") is None
