"""A damaged file of a recording costs its own content, and one warning names it."""

import json
import random
import warnings
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from gputel.telemetry.clock import SECOND
from gputel.telemetry.errors import DamagedFile
from gputel.telemetry.store import checksum, frames, parquet, parquet_pages, parts
from gputel.telemetry.store.tiers import Tier, TierColumn

FAST = Tier("fast", 10.0, (TierColumn("power_w", "W", 1000, "0"), TierColumn("power_w", "W", 1000, "1")))
SLOW = Tier("slow", 1.0, (TierColumn("fan", "%", 1, "0"),))
PAGE_OF_VALUES = (
    b"\x2c\x15"  # a field of a page's header, a structure whose first number is that of its values
)


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garbled(path: Path) -> None:
    """Its footer is whole, the pages are not."""
    data = path.read_bytes()
    path.write_bytes(data[:4] + bytes(byte ^ 0x5A for byte in data[4:200]) + data[200:])


def flipped(path: Path) -> None:
    """One bit of the first page's header, which has the number of its values."""
    data = bytearray(path.read_bytes())
    data[9] ^= 0x10
    path.write_bytes(data)


def foreign(path: Path) -> None:
    pl.DataFrame({"x": [1, 2, 3]}).write_parquet(path)


def of_another_version(path: Path) -> None:
    facts = json.dumps({"version": 3, "tier": "fast", "hz": 10, "gpus": ["0"], "columns": []})
    pl.DataFrame({"x": [1]}).write_parquet(path, metadata={"gputel": facts})


def wrongly_described(path: Path) -> None:
    facts = json.loads(pl.read_parquet_metadata(path)["gputel"])
    del facts["crc32"]
    columns = pl.exclude("time", "gpu", "ticks").cast(pl.String)
    pl.read_parquet(path).select(columns).write_parquet(path, metadata={"gputel": json.dumps(facts)})


def made_to_harm(path: Path) -> None:
    """A page is said to have a negative number of values, and the checksum is right.

    polars wants exabytes of memory for that, and ends the process.
    """
    data = bytearray(with_page_of(path, -(1 << 6)))
    summed = data.rindex(b'"crc32":"') + len(b'"crc32":"')
    data[summed : summed + 8] = checksum.EMPTY.encode()
    path.write_bytes(checksum.with_checksum(bytes(data)))


def with_page_of(path: Path, count: int) -> bytes:
    """The content of a Parquet file whose first page of values states another number of them."""
    data, rows = path.read_bytes(), pl.read_parquet(path).height
    header = b"\x2c\x15"  # a structure, and that its first field is an integer
    return data.replace(header + varint(rows), header + varint(count), 1)


def varint(number: int) -> bytes:
    """An integer as Thrift writes it."""
    rest, stated = (number << 1) ^ (number >> 63), bytearray()
    while rest > 127:
        stated.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*stated, rest])


def deeply_nested(path: Path) -> None:
    pl.DataFrame({"x": [1]}).write_parquet(path, metadata={"gputel": "[" * 100_000})


DAMAGE = (
    truncated,
    empty,
    garbled,
    flipped,
    foreign,
    of_another_version,
    wrongly_described,
    deeply_nested,
    made_to_harm,
)


@pytest.fixture
def folder(tmp_path: Path, compose: Callable[..., None]) -> Path:
    """Three parts of two seconds, compacted."""
    rows = [(0, n * SECOND // 10, [n, -n]) for n in range(60)] + [(1, n * SECOND, [n]) for n in range(6)]
    compose(tmp_path, [FAST, SLOW], sorted(rows, key=lambda row: row[1]), seal_after_s=2)
    parquet.compact(tmp_path, everything=True)
    return tmp_path


def warned(read: Callable[[], pl.DataFrame]) -> tuple[pl.DataFrame, set[str]]:
    """What was read, and the names of the files that warnings named."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        frame = read()
    messages = [warning.message for warning in caught]
    return frame, {message.path.name for message in messages if isinstance(message, DamagedFile)}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_part_costs_its_own_ticks(folder: Path, damage: Callable[[Path], None]) -> None:
    whole = frames.ticks(folder)
    damage(folder / "fast-000002.parquet")
    second = pl.col("time").dt.epoch("s") - 10**9
    for read in (lambda: frames.ticks(folder), lambda: frames.scan(folder).collect()):
        left, names = warned(read)
        assert names == {"fast-000002.parquet"}
        assert left.filter(~second.is_between(2, 3)).equals(whole.filter(~second.is_between(2, 3)))
        assert left.filter(second.is_between(2, 3))["power_w"].null_count() == left.height - 80
    seconds, _ = warned(lambda: frames.seconds(folder))
    assert seconds.height == 12


@pytest.mark.parametrize("damage", DAMAGE)
def test_seconds_come_from_the_ticks_where_their_table_is_damaged(
    folder: Path, damage: Callable[[Path], None]
) -> None:
    whole = frames.seconds(folder)
    damage(folder / "seconds-000002.parquet")
    left, names = warned(lambda: frames.seconds(folder))
    assert names == {"seconds-000002.parquet"}
    assert left.equals(whole)


def test_no_damaged_byte_of_a_parquet_file_reaches_polars(folder: Path) -> None:
    """It would print backtraces, or ask for exabytes of memory and end the process."""
    path = folder / "fast-000002.parquet"
    data = path.read_bytes()
    checksum.check(data)
    metadata = data.rindex(b'"crc32"')
    places = set(range(0, len(data), 23)) - set(range(metadata, metadata + len(b'"crc32":"')))
    for place in places:
        with pytest.raises(ValueError, match="checksum"):
            checksum.check(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])


def test_pages_of_a_file_of_ours_are_as_they_are_described(folder: Path) -> None:
    for path in folder.glob("*.parquet"):
        parquet_pages.check(path.read_bytes())


def test_garbled_description_of_pages_is_an_error_and_no_crash(folder: Path) -> None:
    data = (folder / "fast-000002.parquet").read_bytes()
    chance = random.Random(1)
    refused = 0
    for _ in range(1500):
        place, length = chance.randrange(len(data)), chance.choice([1, 1, 2, 5])
        try:
            parquet_pages.check(data[:place] + chance.randbytes(length) + data[place + length :])
        except ValueError:
            refused += 1
    assert refused > 300


@pytest.mark.parametrize("count", [-1, 10**9])
def test_page_that_cannot_have_so_many_values_is_refused(folder: Path, count: int) -> None:
    content = with_page_of(folder / "fast-000002.parquet", count)
    with pytest.raises(ValueError, match=f"a page of it is said to have {count} of 40 values"):
        parquet_pages.check(content)


def test_compaction_leaves_a_damaged_table_alone_and_ends(
    tmp_path: Path, compose: Callable[..., None]
) -> None:
    rows = [(0, n * SECOND // 10, [n, -n]) for n in range(160)]
    compose(tmp_path, [FAST], rows, seal_after_s=2)
    parquet.compact(tmp_path, everything=False)
    truncated(tmp_path / "seconds-000003.parquet")
    with pytest.warns(DamagedFile, match="seconds-000003.parquet: cannot be read"):
        parquet.compact(tmp_path, everything=True)
    assert len(list(tmp_path.glob("seconds-*"))) == 8


def test_journal_of_garbage_is_left_out(tmp_path: Path, compose: Callable[..., None]) -> None:
    compose(tmp_path, [FAST], [(0, n * SECOND // 10, [n, -n]) for n in range(40)], seal_after_s=2)
    (tmp_path / "fast-000001.gtb").write_bytes(b"GTB1" * 5000)
    with pytest.warns(DamagedFile, match=r"fast-000001\.gtb: .* \(its description is damaged\)"):
        assert frames.ticks(tmp_path).height == 40


def test_journal_whose_recorder_was_killed_before_its_first_write_is_no_damage(
    tmp_path: Path, compose: Callable[..., None]
) -> None:
    (tmp_path / "fast-000001.gtb").touch()
    compose(tmp_path, [FAST], [(0, n * SECOND // 10, [n, -n]) for n in range(40)])
    assert frames.ticks(tmp_path).height == 40 * len(FAST.subjects)
    parquet.compact(tmp_path, everything=True)
    assert frames.ticks(tmp_path).height == 40 * len(FAST.subjects)


def test_torn_end_of_a_journal_is_damage_only_before_the_newest(
    tmp_path: Path, compose: Callable[..., None]
) -> None:
    compose(tmp_path, [FAST], [(0, n * SECOND // 10, [n, -n]) for n in range(40)], seal_after_s=2)
    sealed, *_, newest = [part.path for part in parts.current(tmp_path)]
    newest.write_bytes(newest.read_bytes()[:-5])
    frames.ticks(tmp_path)
    sealed.write_bytes(sealed.read_bytes()[:-5])
    with pytest.warns(DamagedFile, match=r"fast-000001\.gtb: has a part that cannot be read"):
        frames.ticks(tmp_path)


@pytest.mark.parametrize("name", ["seconds-000001-999999999999.parquet", "fast-0000010000000.parquet"])
def test_part_of_more_numbers_than_are_ever_merged_is_no_part(
    tmp_path: Path, compose: Callable[..., None], name: str
) -> None:
    compose(tmp_path, [FAST], [(0, n * SECOND // 10, [n, -n]) for n in range(40)])
    (tmp_path / name).touch()
    assert [part.path.name for part in parts.current(tmp_path)] == ["fast-000001.gtb"]


def test_reading_named_with_half_a_surrogate_pair_is_read_with_a_question_mark(
    tmp_path: Path, compose: Callable[..., None]
) -> None:
    """The name cannot be encoded, so no table could hold it."""
    tier = Tier("fast", 10.0, (TierColumn("power\ud83d_w", "W", 1, "0"),))
    compose(tmp_path, [tier], [(0, n * SECOND // 10, [n]) for n in range(40)])
    assert frames.ticks(tmp_path)["power?_w"].to_list() == list(range(40))
    parquet.compact(tmp_path, everything=True)
    assert frames.ticks(tmp_path)["power?_w"].to_list() == list(range(40))
    assert frames.seconds(tmp_path).height == 4


def test_compacted_part_that_names_half_a_surrogate_pair_is_left_out(folder: Path) -> None:
    path = folder / "fast-000002.parquet"
    facts = json.loads(pl.read_parquet_metadata(path)["gputel"])
    facts["columns"][0]["name"] = "power\ud83d_w"
    pl.read_parquet(path).write_parquet(path, metadata={"gputel": json.dumps(facts)})
    frame, names = warned(lambda: frames.ticks(folder))
    assert names == {"fast-000002.parquet"}
    assert frame["power_w"].drop_nulls().len() == 2 * 40
