"""The parser as a whole: pieces give what the whole gives, memory is bounded, and nothing makes it fail."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gputel.analysis.logs import formats, regex_engine, result, summary
from gputel.analysis.logs.lines import LIMIT
from gputel.analysis.logs.log import Log
from gputel.analysis.logs.parser import Parser, infer, make_parser, read
from gputel.analysis.logs.patterns import Engine
from tests.analysis.logs.scraps import SCRAPS

LATEST = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
LINES = [
    *SCRAPS,
    b"iter 10: loss 3.5, time 42.97ms, mfu -100.00%\n",
    b"step 20: train loss 3.2, val loss 3.4\n",
    b"\x1b[31mstep:  8  \x1b[32mloss:  8.1\x1b[39m\r\n",
    b"Epoch 2/5\r\n",
    b"\n",
    b"\x1b[",
    b"^[[B",
    b"step 0000",
]


def parsed(data: bytes, cuts: list[int], read: Engine = read) -> Log:
    parser = Parser(formats.shipped(), read, infer)
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in pairwise(edges):
        parser.feed(data[start:end])
    parser.finish()
    return result.conclude(parser, "x", "x.log", LATEST)


def answers(log: Log) -> object:
    rejects = [(reject.line, reject.reason) for reject in log.rejects]
    return summary.run(log), list(summary.rows(log)), rejects


logs = st.lists(st.sampled_from(LINES), max_size=40).map(b"".join)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(logs, st.lists(st.integers(0, 10_000), max_size=6))
def test_parser_gives_the_same_for_pieces_of_any_size(data: bytes, cuts: list[int]) -> None:
    assert answers(parsed(data, cuts)) == answers(parsed(data, []))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(logs)
def test_parser_gives_the_same_byte_by_byte(data: bytes) -> None:
    assert answers(parsed(data[:600], list(range(600)))) == answers(parsed(data[:600], []))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(logs)
def test_engines_give_the_same_log(data: bytes) -> None:
    assert answers(parsed(data, [], regex_engine.read)) == answers(parsed(data, []))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), logs)
@example(b"!", b"validation loss: 5.25\n[batch=3/100]:\n")  # what is kept ends in a line without an end
def test_parser_reads_any_bytes_without_failing(noise: bytes, data: bytes) -> None:
    parsed(noise + data[:200] + noise, [])


@pytest.mark.long
def test_gigabyte_without_a_line_feed_takes_little_memory() -> None:
    """Sixteen of these make one; what is kept of a line does not depend on how long it grows."""
    parser = make_parser()
    piece = b"x" * (1 << 22)
    parser.feed(piece)
    tracemalloc.start()
    for _ in range(16):
        parser.feed(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    parser.finish()
    assert peak < 24 << 20
    assert parser.lines == 1


def test_line_after_one_that_is_too_long_is_read() -> None:
    parser = make_parser()
    parser.feed(b"x" * (LIMIT + 5) + b"\niter 10: loss 3.5, time 42.97ms\n")
    parser.finish()
    log = result.conclude(parser, "x", "x.log", LATEST)
    assert log.records["line"].to_list() == [2]


@pytest.mark.parametrize("data", [b"", b"\n", b"\0" * 100, b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 20])
def test_file_without_records_gives_an_empty_log(data: bytes) -> None:
    assert parsed(data, []).is_empty


def test_utf16_as_a_windows_shell_writes_it_is_read() -> None:
    text = "iter 10: loss 3.5, time 42.97ms, mfu 20.00%\r\n" * 2
    assert parsed(text.encode("utf-16"), []).records.height == 2


def test_echoed_source_code_is_no_record() -> None:
    source = b"""print0(f"step {step:05d} | loss: {loss:.6f} | lr {lr:.4e}")
print(f"iter {iter_num}: loss {lossf:.4f}, time {dt*1000:.2f}ms")
logger.info("step: %d loss: %f", step, loss)
"""
    log = parsed(source, [])
    assert log.records.height == 0
    assert log.events.height == 0


def test_run_folder_of_nothing_is_not_needed(tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.write_bytes(b"")
    assert parsed(empty.read_bytes(), []).lines == 0


def test_line_of_a_banner_may_say_several_facts(read: Callable[[str], Log]) -> None:
    log = read("[rank0]: GPU: NVIDIA A100-SXM4-80GB | world_size: 8 | global batch size: 524288 tokens\n")
    assert log.config == {"gpu": "NVIDIA A100-SXM4-80GB", "world_size": 8, "batch_tokens": 524288}


def test_last_line_that_was_cut_behind_the_point_of_a_number_is_no_record(read: Callable[[str], Log]) -> None:
    whole = "".join(f"step {step} | loss: 3.{step} | lr 1e-4 | dt: 5.1s\n" for step in range(8))
    log = read(whole + "step 8 | loss: 3.")
    assert log.records["step"].to_list() == [*range(8)]
    assert [reject.reason for reject in log.rejects] == ["the log ends in the middle of a number"]


def test_format_that_only_rejects_lines_keeps_no_other_from_them(read: Callable[[str], Log]) -> None:
    """Torchvision's lines begin alike, and have no brackets around the loss."""
    line = "2020-04-27 20:21:{0},180:INFO:[TRAIN] Epoch: [1] [{0}00/60000] Loss: [2.{0}]\n"
    log = read("".join(line.format(i) for i in range(10, 40)))
    assert (log.records.height, log.records["loss"][0], log.rejects) == (30, 2.1, [])


def test_epochs_that_another_format_knows_hold_the_batches_of_an_unknown_one(
    read: Callable[[str], Log],
) -> None:
    """Keras prints `Epoch 1/3` too; the 40 of `Batch 1/40` is the length of an epoch, not the run's total."""
    batches = "".join(f"  Batch {i}/40\n    Loss: {{0}}.{i}\n    Grad norm: 2.{i}\n" for i in (1, 11, 21))
    log = read("".join(f"Epoch {e}/3\n" + batches.format(9 - e) for e in (1, 2, 3)))
    assert log.records["step"].to_list() == [1, 11, 21] * 3
    assert "total_steps" not in log.records.columns or not log.records["total_steps"].count()
