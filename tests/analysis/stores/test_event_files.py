import math
import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputel.analysis.stores.event_files import EventDecoder, is_event_file
from tests.analysis.stores.compose_events import (
    event,
    losses,
    masked,
    packed,
    record,
    session_start,
    simple,
    tensor,
    varint,
    version,
)

Row = tuple[str, int, int, float, int]


def rows(data: bytes, cuts: tuple[int, ...] = ()) -> tuple[list[Row], EventDecoder]:
    """The scalars of a file that is read in pieces."""
    decoder, read = EventDecoder(), []
    edges = [0, *sorted(cuts), len(data)]
    for start, end in pairwise(edges):
        block = decoder.feed(data[start:end])
        columns = (block.tag, block.step, block.time, block.value, block.record)
        read += [(decoder.tags[row[0]], *row[1:]) for row in zip(*(c.tolist() for c in columns), strict=True)]
    return read, decoder


def values(data: bytes) -> list[tuple[str, int, float]]:
    return [(tag, step, value) for tag, step, _, value, _ in rows(data)[0]]


def test_simple_values_and_tensors_of_both_widths_are_scalars() -> None:
    data = version() + event(
        3,
        [
            simple("old", 0.1),
            tensor("content", 1, packed(4, struct.pack("<f", 0.1))),
            tensor("list", 1, packed(5, struct.pack("<f", 2.5))),
            tensor("double", 2, packed(6, struct.pack("<d", 0.1))),
            tensor("content64", 2, packed(4, struct.pack("<d", 0.1))),
            tensor("whole", 9, packed(10, varint(-7))),
        ],
    )
    single = struct.unpack("<f", struct.pack("<f", 0.1))[0]
    assert values(data) == [
        ("old", 3, single),
        ("content", 3, single),
        ("list", 3, 2.5),
        ("double", 3, 0.1),
        ("content64", 3, 0.1),
        ("whole", 3, -7.0),
    ]


def test_many_records_of_several_tags_equal_the_same_records_read_one_by_one() -> None:
    """Steps take one to three bytes, and one tag is a prefix of another."""
    records = [
        event(step, [simple(tag, step / 7)], 1.7e9 + step / 3)
        for step in [*range(300), 20_000, 2**40]
        for tag in ("loss", "loss/aux", "lr", "lrx")
    ]
    together, _ = rows(version() + b"".join(records))
    alone = [row[:4] for each in records for row in rows(version() + each)[0]]
    assert [row[:4] for row in together] == alone


def test_wall_time_is_kept_to_the_microsecond() -> None:
    (row,), _ = rows(version() + event(1, [simple("loss", 1)], 1700000000.25))
    assert row[2] == 1700000000250000000


def test_nan_and_infinities_are_values() -> None:
    read = values(
        version() + b"".join(event(s, [simple("loss", v)]) for s, v in enumerate((math.nan, math.inf)))
    )
    assert [step for _, step, _ in read] == [0, 1]
    assert math.isnan(read[0][2])
    assert read[1][2] == math.inf


def test_wrong_length_costs_one_record() -> None:
    good = [event(step, [simple("loss", step)]) for step in range(50)]
    bad = bytearray(good[20])
    bad[3] ^= 0x40
    read, decoder = rows(version() + b"".join([*good[:20], bytes(bad), *good[21:]]))
    assert [row[1] for row in read] == [*range(20), *range(21, 50)]
    assert [(reject.line, reject.reason) for reject in decoder.rejects] == [
        (22, "the length of a record is damaged")
    ]


def test_flipped_byte_costs_the_record_that_it_is_in() -> None:
    data = bytearray(version() + losses(range(30)))
    start = len(version()) + 10 * len(losses([5])) + 30
    data[start] ^= 1
    read, decoder = rows(bytes(data))
    assert len(read) == 29
    assert len(decoder.rejects) == 1


def test_length_beyond_the_file_is_waited_for_and_not_allocated() -> None:
    """The checksum of the length is right, so the writer may still write as much."""
    length = struct.pack("<Q", 2**62)
    read, decoder = rows(version() + losses([1]) + length + masked(length) + b"abc")
    assert [row[1] for row in read] == [1]
    assert decoder.is_torn
    assert decoder.rejects == []


def test_torn_last_record_is_not_yet_there() -> None:
    data = version() + losses(range(5))
    read, decoder = rows(data[:-7])
    assert [row[1] for row in read] == [0, 1, 2, 3]
    assert decoder.is_torn
    assert not decoder.rejects


def test_start_of_a_session_is_kept_with_its_step() -> None:
    _, decoder = rows(version() + session_start(120) + losses([120]))
    assert decoder.starts == [(1, 120)]


def test_histograms_images_and_graphs_are_counted_and_skipped() -> None:
    histogram = packed(1, packed(1, b"weights") + packed(5, b"\x09" + struct.pack("<d", 1.0)))
    image = packed(1, packed(1, b"sample") + packed(4, b"\x08\x10"))
    graph = event(0, (), 1.7e9, packed(4, b"\x0a\x00" * 40_000))
    read, decoder = rows(version() + graph + event(1, [histogram, image, simple("loss", 2)]) + losses([2]))
    assert [row[:2] for row in read] == [("loss", 1), ("train/loss", 2)]
    assert decoder.skipped == {"histograms": 1, "images": 1, "graphs": 1}


def test_texts_are_kept_and_hyperparameters_become_settings() -> None:
    text = tensor("notes", 7, packed(8, b"a long run"), "text")
    setting = packed(1, packed(1, b"lr") + packed(2, b"\x11" + struct.pack("<d", 0.001)))
    named = packed(1, packed(1, b"optimizer") + packed(2, packed(3, b"muon")))
    content = packed(2, packed(3, setting + named))
    metadata = packed(9, packed(1, packed(1, b"hparams") + content))
    hparams = packed(1, packed(1, b"_hparams_/session_start_info") + metadata)
    _, decoder = rows(version() + event(0, [text, hparams]))
    assert decoder.texts == {"notes": "a long run"}
    assert decoder.config == {"lr": 0.001, "optimizer": "muon"}


def test_payload_that_is_no_event_is_a_reject() -> None:
    read, decoder = rows(version() + record(b"\x0a\xff\xff\xff\xff\x01") + losses([1]))
    assert len(read) == 1
    assert len(decoder.rejects) == 1


@pytest.mark.parametrize("name", ["version", "bare"])
def test_event_file_is_known_by_its_first_record(name: str) -> None:
    first = version() if name == "version" else losses([0])
    assert is_event_file(first + losses(range(3)))
    damaged = bytearray(first)
    damaged[8] ^= 1
    assert not is_event_file(bytes(damaged))
    assert not is_event_file(b"step 1 loss 2.0\n" * 10)


DATA = (
    version()
    + losses(range(12))
    + event(12, [simple("a", 1), simple("b", 2)])
    + losses(range(130, 160), "x/y")
)
DAMAGED = bytearray(DATA)
DAMAGED[len(version()) + 4 * len(losses([3])) + 2] ^= 0x10


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, len(DATA)), max_size=6), st.booleans())
def test_any_cut_and_going_on_gives_the_rows_of_the_whole(cuts: list[int], is_damaged: bool) -> None:
    data = bytes(DAMAGED) if is_damaged else DATA
    whole, decoder = rows(data)
    pieces, other = rows(data, tuple(cuts))
    assert pieces == whole
    assert other.rejects == decoder.rejects


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400), st.integers(0, len(DATA)))
def test_random_bytes_anywhere_raise_nothing(noise: bytes, at: int) -> None:
    read, _ = rows(DATA[:at] + noise + DATA[at:])
    assert len(read) <= len(values(DATA)) + len(noise)


def test_values_equal_those_of_the_tensorboard_library(tmp_path: Path) -> None:
    """The library's own reader is the judge of a file that its own writer made."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    data = version() + b"".join(
        event(step, [simple(tag, np.sin(step))], 1.7e9 + step)
        for step in range(200)
        for tag in ("loss", "lr")
    )
    (tmp_path / "events.out.tfevents.1700000000.host.1.0").write_bytes(data)
    judge = accumulator.EventAccumulator(str(tmp_path), {"scalars": 0})
    judge.Reload()
    for tag in ("loss", "lr"):
        expected = [(each.step, each.value) for each in judge.Scalars(tag)]
        assert [(step, value) for name, step, value in values(data) if name == tag] == expected
