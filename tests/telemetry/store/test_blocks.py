"""The laws of blocks: what is packed comes out again, and damage stays where it is."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gputel.telemetry.clock import Stamp
from gputel.telemetry.store import blocks
from gputel.telemetry.store.blocks import Fault, JournalBlock, Ticks

INT64 = st.integers(-(2**63), 2**63 - 1)
READINGS = st.one_of(st.none(), st.integers(-300, 300), INT64)
PERIOD = 10_000_000


@st.composite
def tables(draw: st.DrawFn) -> list[list[int | None]]:
    columns = draw(st.integers(1, 5))
    return draw(st.lists(st.lists(READINGS, min_size=columns, max_size=columns), min_size=1, max_size=12))


def ticks_of(table: list[list[int | None]], start: int = 10**12) -> Ticks:
    values = np.array([[0 if value is None else value for value in row] for row in table], np.int64)
    valid = np.array([[value is not None for value in row] for row in table])
    deadlines = start + np.arange(len(table)) * PERIOD
    late = np.arange(len(table)) % 7 - 2
    return Ticks(Stamp(start + 5, start, start + 9), deadlines, late, values, None if valid.all() else valid)


def table_of(ticks: Ticks) -> list[list[int | None]]:
    valid = np.ones(ticks.values.shape, bool) if ticks.valid is None else ticks.valid
    return [
        [value if there else None for value, there in zip(row, marks, strict=True)]
        for row, marks in zip(ticks.values.tolist(), valid.tolist(), strict=True)
    ]


def packed(table: list[list[int | None]], sequence: int = 0) -> bytes:
    ticks = ticks_of(table)
    payload, flags = blocks.encode(ticks, PERIOD)
    return blocks.pack(
        payload, flags=flags, tier=1, sequence=sequence, schema=7, rows=len(table), anchor=ticks.anchor
    )


def journal_of(count: int) -> list[bytes]:
    return [packed([[n, None, -n], [n + 1, 5, 2**40]], n) for n in range(count)]


def whole(data: bytes) -> list[JournalBlock]:
    return [block for block in blocks.scan(data) if isinstance(block, JournalBlock)]


@given(tables())
def test_packed_block_is_scanned_unchanged(table: list[list[int | None]]) -> None:
    (block,) = whole(packed(table))
    ticks = blocks.decode(block, len(table[0]), PERIOD)
    assert table_of(ticks) == table
    assert ticks.deadlines.tolist() == ticks_of(table).deadlines.tolist()
    assert ticks.late_us.tolist() == ticks_of(table).late_us.tolist()


@given(st.lists(INT64, min_size=1, max_size=20))
def test_deadlines_and_lateness_may_be_anything(numbers: list[int]) -> None:
    values = np.zeros((len(numbers), 1), np.int64)
    start = numbers[0]
    ticks = Ticks(Stamp(1, start, 2), np.array(numbers), np.array(numbers[::-1]), values, None)
    payload, flags = blocks.encode(ticks, PERIOD)
    data = blocks.pack(
        payload, flags=flags, tier=0, sequence=0, schema=0, rows=len(numbers), anchor=ticks.anchor
    )
    again = blocks.decode(whole(data)[0], 1, PERIOD)
    assert again.deadlines.tolist() == numbers
    assert again.late_us.tolist() == numbers[::-1]


@given(st.data())
def test_file_cut_at_any_byte_holds_its_first_blocks_and_no_fault(data: st.DataObject) -> None:
    journal = journal_of(4)
    cut = data.draw(st.integers(0, sum(map(len, journal))))
    found = list(blocks.scan(b"".join(journal)[:cut]))
    ends = np.cumsum([len(block) for block in journal])
    assert [block.sequence for block in whole(b"".join(journal)[:cut])] == list(
        range(int((ends <= cut).sum()))
    )
    assert not any(isinstance(one, Fault) for one in found)


@given(st.data())
def test_flipped_byte_costs_the_block_it_is_in_and_is_reported(data: st.DataObject) -> None:
    journal = journal_of(4)
    damaged = bytearray(b"".join(journal))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] ^= data.draw(st.integers(1, 255))
    ends = np.cumsum([len(block) for block in journal])
    hit = int((ends <= at).sum())
    found = list(blocks.scan(bytes(damaged)))
    assert [block.sequence for block in found if isinstance(block, JournalBlock)] == [
        n for n in range(4) if n != hit
    ]
    faults = [fault for fault in found if isinstance(fault, Fault)]
    start = int(ends[hit]) - len(journal[hit])
    assert faults == ([] if hit == 3 else [Fault(start, len(journal[hit]))])


@given(st.binary(max_size=300))
def test_any_bytes_can_be_scanned(data: bytes) -> None:
    assert whole(data) == []
    assert [block.sequence for block in whole(data + packed([[1]]))] == [0]


def test_reading_that_does_not_change_costs_a_few_bytes_a_second() -> None:
    steady = packed([[70_000, None, 53]] * 100)
    assert len(steady) < blocks.HEADER.size + 50
