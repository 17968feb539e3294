"""output.idx: a line has the time of the read that brought its last byte, or none."""

from pathlib import Path

from gputel.telemetry.process import output_index


def folder_of(path: Path, reads: list[tuple[int | None, bytes]]) -> tuple[Path, Path]:
    log, index = path / "output.log", path / "output.idx"
    log.write_bytes(b"".join(data for _, data in reads))
    end, records = 0, b""
    for wall, data in reads:
        end += len(data)
        records += output_index.pack(wall, end)
    index.write_bytes(records)
    return log, index


def test_line_has_the_stamp_of_the_read_that_brought_its_last_byte(tmp_path: Path) -> None:
    log, index = folder_of(tmp_path, [(10, b"a\nb"), (20, b"c\nd\n"), (30, b"e")])
    assert list(output_index.lines(log, index)) == [(10, b"a\n"), (20, b"bc\n"), (20, b"d\n"), (30, b"e")]


def test_line_without_a_timestamp_has_none(tmp_path: Path) -> None:
    log, index = folder_of(tmp_path, [(None, b"old\n"), (20, b"new\n")])
    with log.open("ab") as more:
        more.write(b"not yet\n")
    assert [wall for wall, _ in output_index.lines(log, index)] == [None, 20, None]


def test_torn_record_is_not_yet(tmp_path: Path) -> None:
    log, index = folder_of(tmp_path, [(10, b"a\n"), (20, b"b\n")])
    index.write_bytes(index.read_bytes()[:-3])
    assert [wall for wall, _ in output_index.lines(log, index)] == [10, None]


def test_lines_have_no_timestamp_without_an_index(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_bytes(b"a\nb\n")
    assert [wall for wall, _ in output_index.lines(tmp_path / "output.log", tmp_path / "output.idx")] == [
        None,
        None,
    ]
