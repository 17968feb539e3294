"""Byte counters that are refreshed in a rhythm of their own, and the rates between their changes."""

import itertools
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.telemetry.machine import NO_MOMENT
from gputel.telemetry.nvml.counters import Counter, Rates, link_bytes_s
from tests.fake_nvml import MIB, MS, SECOND, FakeNvml
from tests.telemetry.conftest import MakeFake
from tests.telemetry.nvml.driver import sample

KIB = 1024
Counts = Callable[[int], int]


def rates(
    counts: Counts | Sequence[int | None],
    *,
    every_ns: int = 10 * MS,
    reads: int = 200,
    refresh_ns: int = 1,
    narrow: bool = False,
    most: float = 64e9,
) -> list[int | None]:
    """KiB a second of a counter of bytes, read at regular moments."""
    made, seen = Rates([Counter("pcie_rx_mib_s", 0, 1, narrow, most)]), list[int | None]()
    for read in range(reads if callable(counts) else len(counts)):
        now = SECOND + read * every_ns
        value = counts(now // refresh_ns * refresh_ns) if callable(counts) else counts[read]
        row = [value % (1 << 32) if narrow and value is not None else value]
        made.into(row, now)
        seen += row
    return seen


def test_read_at_an_unknown_moment_keeps_the_rate_and_is_not_learned_from() -> None:
    """A stall of 200 ms after the counter was read looked like a standstill, and then like a slow refresh."""
    made, seen = Rates([Counter("pcie_rx_mib_s", 0, 1, False, 64e9)]), list[int | None]()
    for read in range(100):
        stalled = read == 50
        at = SECOND + read * 10 * MS + (200 * MS if read > 50 else 0)
        row: list[int | None] = [steadily(1e9)(at // (20 * MS) * 20 * MS)]
        made.into(row, NO_MOMENT if stalled else at)
        seen += row
    known = [value for value in seen[20:] if value is not None]
    assert len(known) == 80
    assert known == pytest.approx([1e9 / KIB] * 80, rel=0.2)


def steadily(bytes_s: float) -> Counts:
    return lambda at: round(at * bytes_s / SECOND)


@pytest.mark.needs("cc")
@pytest.mark.parametrize("gigabytes_s", [0.001, 25, 133, 307])
@pytest.mark.parametrize("hz", [77, 100, 1000])
def test_rate_is_that_of_the_counter_at_any_speed_and_null_before_the_second_change(
    fake: MakeFake, gigabytes_s: float, hz: float
) -> None:
    driver = fake()
    gpu = driver.state.gpus[0]
    gpu.nvlink_rx_rate, gpu.nvlink_refresh_ns = round(gigabytes_s * 1e9), 100 * MS
    column = [row[0] for row in sample(driver, 3, ["nvlink_rx_mib_s"], hz=hz)]
    missing = column.count(None)
    assert column[:missing] == [None] * missing
    assert 0.1 * hz < missing < 0.25 * hz
    assert [value for value in column[missing:] if value is not None] == pytest.approx(
        [gigabytes_s * 1e9 / KIB] * (len(column) - missing), rel=0.15
    )


def test_rate_is_held_between_two_changes() -> None:
    changing = rates(lambda at: (at // (100 * MS)) ** 2 * 100 * KIB, reads=100, refresh_ns=100 * MS)
    runs = [value for i, value in enumerate(changing) if value is not None and value != changing[i - 1]]
    assert all(changing.count(value) == 10 for value in runs[:-1])
    assert [b - a for a, b in itertools.pairwise(runs)] == [2000] * (len(runs) - 1)


def test_rate_is_zero_after_several_periods_of_standstill_and_null_until_the_second_change_after() -> None:
    stops, starts = 2 * SECOND, 4 * SECOND

    def counts(at: int) -> int:
        return (min(at, stops) + max(0, at - starts)) // MS * KIB

    seen = rates(counts, reads=450, refresh_ns=20 * MS)
    at = {SECOND + i * 10 * MS: value for i, value in enumerate(seen)}
    assert at[stops - 10 * MS] == at[stops + 50 * MS] == 1000
    assert at[stops + 150 * MS] == at[starts] == 0
    assert at[starts + 20 * MS] is None
    assert at[starts + 150 * MS] == 1000
    assert set(seen) == {None, 0, 1000}


def test_counter_that_never_moves_has_no_rate() -> None:
    assert set(rates(lambda _: 77)) == {None}


def test_traffic_in_regular_bursts_is_averaged_and_not_zero() -> None:
    seen = rates(lambda at: at // (500 * MS) * 500 * KIB, reads=1000)
    assert set(seen[-500:]) == {1000}


@pytest.mark.parametrize("bytes_s", [1e9, 25e9, 60e9])
def test_wrap_at_32_bits_is_undone(bytes_s: float) -> None:
    seen = rates(steadily(bytes_s), narrow=True, refresh_ns=20 * MS)
    values = [value for value in seen if value is not None]
    assert len(values) > 180
    assert values == pytest.approx([bytes_s / KIB] * len(values), rel=1e-3)


def test_counter_sent_as_64_bits_that_wraps_at_32_is_recognized() -> None:
    bytes_s = 25e9
    made, seen = Rates([Counter("pcie_rx_mib_s", 0, 1, False, 64e9)]), list[int | None]()
    for read in range(300):
        row: list[int | None] = [round(read * bytes_s / 100) % (1 << 32)]
        made.into(row, SECOND + read * 10 * MS)
        seen += row
    values = [value for value in seen if value is not None]
    assert None not in seen[-200:]
    assert values == pytest.approx([bytes_s / KIB] * len(values), rel=1e-3)


@pytest.mark.needs("cc")
def test_counter_that_may_wrap_twice_between_two_reads_gives_null_and_says_why(fake: MakeFake) -> None:
    driver = fake()
    gpu = driver.state.gpus[0]
    gpu.pcie_bits, gpu.pcie_rx_rate, gpu.pcie_refresh_ns = 32, 25_000 * MIB, 20 * MS
    assert {row[0] for row in sample(driver, 5, ["pcie_rx_mib_s"], hz=20)} == {None}
    gpu.pcie_generation = 4
    values = values_at_20_hz(driver)
    assert len(values) > 90
    assert values == pytest.approx([25_000 * KIB] * len(values), rel=0.15)
    made = Rates([Counter("pcie_rx_mib_s", 0, 1, True, 64e9)])
    for read in range(20):
        made.into([read * 1000], SECOND + read * 50 * MS)
    why = made.states()["pcie_rx_mib_s"].unknown
    assert why == "its counter of 32 bits may wrap every 67 ms, read it more often (--hz, --max-overhead)"


def values_at_20_hz(driver: FakeNvml) -> list[int]:
    column = [row[0] for row in sample(driver, 5, ["pcie_rx_mib_s"], hz=20)]
    return [value for value in column if value is not None]


def test_counter_that_begins_anew_gives_no_rate_that_no_link_could_reach() -> None:
    before, after = [2**40 + i * KIB for i in range(50)], [i * KIB for i in range(50)]
    assert set(rates([*before, *after])) == {None, 100}


def test_rate_restarts_after_a_null_without_bridging_the_gap() -> None:
    seen = rates([*(i * KIB for i in range(30)), None, *(9_999_999 + i * KIB for i in range(30))])
    assert seen[29:33] == [100, None, None, None]
    assert set(seen) == {None, 100}


def test_reads_at_one_moment_have_no_rate_between_them() -> None:
    assert rates([0, 1024, 4096, 9000], every_ns=0) == [None] * 4


def test_late_read_gives_no_rate_that_was_not_there() -> None:
    """A stall of 300 ms between two reads, and the reads that it delayed at once after it."""
    made, seen = Rates([Counter("nvlink_rx_mib_s", 0, 1, False, 2e12)]), list[int | None]()
    moments = [*range(0, 1000, 10), *range(1300, 1303), *range(1310, 2300, 10)]
    for moment in moments:
        at = moment * MS // (20 * MS) * (20 * MS)
        row: list[int | None] = [at * KIB // MS]
        made.into(row, SECOND + moment * MS)
        seen += row
    values = [value for value in seen[20:] if value is not None]
    assert values == pytest.approx([1000] * len(values), rel=0.2)


@given(
    st.lists(st.integers(0, 10**6), min_size=40, max_size=120),
    st.integers(1, 40),
    st.integers(7, 23),
)
def test_rate_never_exceeds_what_moved_at_any_time_beyond_its_precision(
    moves: list[int], refresh_ms: int, read_ms: int
) -> None:
    """Whatever moves: bytes by millisecond, so that the truth over any span is known."""
    sums = [0]
    for moved in (moved for moved in moves for _ in range(50)):
        sums.append(sums[-1] + moved)
    reads = (len(sums) - 1) // read_ms
    seen = rates(
        lambda at: sums[(at - SECOND) // MS],
        every_ns=read_ms * MS,
        reads=reads,
        refresh_ns=refresh_ms * MS,
        most=1e12,
    )
    most = max(moves) * 1000 / KIB
    assert all(value is None or 0 <= value <= most * 1.25 + 1 for value in seen)


@pytest.mark.parametrize(
    ("generation", "lanes", "gigabytes"), [(4, 16, 32), (5, 8, 32), (None, 16, 128), (99, 16, 128)]
)
def test_pcie_link_bounds_what_can_move(generation: int | None, lanes: int, gigabytes: float) -> None:
    assert link_bytes_s(generation, lanes) == gigabytes * 1e9
