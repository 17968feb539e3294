"""Which files of a gpu/ folder are read."""

from pathlib import Path

from gputel.telemetry.store import parts


def create(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).touch()


def read_files(folder: Path) -> list[str]:
    return [part.path.name for part in parts.current(folder)]


def test_parquet_file_replaces_the_journals_in_its_range(tmp_path: Path) -> None:
    create(tmp_path, "fast-000001.gtb", "fast-000001.parquet", "fast-000002.gtb", "slow-000001.gtb")
    assert read_files(tmp_path) == ["fast-000001.parquet", "slow-000001.gtb", "fast-000002.gtb"]
    assert [part.path.name for part in parts.superseded(tmp_path)] == ["fast-000001.gtb"]


def test_merged_table_of_seconds_replaces_the_tables_it_was_made_from(tmp_path: Path) -> None:
    create(tmp_path, "seconds-000001.parquet", "seconds-000002.parquet", "seconds-000001-000008.parquet")
    assert read_files(tmp_path) == ["seconds-000001-000008.parquet"]
    assert len(parts.superseded(tmp_path)) == 2


def test_next_number_follows_the_last_part_of_any_tier(tmp_path: Path) -> None:
    assert parts.next_number(tmp_path) == 1
    create(tmp_path, "fast-000003.gtb", "seconds-000001-000008.parquet")
    assert parts.next_number(tmp_path) == 9


def test_names_are_read_back_and_other_files_are_ignored(tmp_path: Path) -> None:
    create(tmp_path, parts.journal_name("fast", 7), parts.compacted_name("slow", 8, 8))
    create(tmp_path, parts.compacted_name("my-tier", 1, 64), ".fast-000009.parquet.12", "notes-1.txt")
    files = sorted((part.tier, part.first, part.last, part.compacted) for part in parts.every_file(tmp_path))
    assert files == [("fast", 7, 7, False), ("my-tier", 1, 64, True), ("slow", 8, 8, True)]
