"""Pipes and compressed files as sources of a followed log."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from gputel.analysis.live.sources import CompressedFile, PipeSource, is_compressed

LOG = b"".join(b"step %d loss 2.5\n" % step for step in range(1000))


def compressed(folder: Path, content: bytes = LOG) -> Path:
    path = folder / "train.log.gz"
    path.write_bytes(gzip.compress(content))
    return path


def read_all(source: CompressedFile, most: int) -> bytes:
    return b"".join(iter(lambda: source.read(most), b""))


def test_pipe_never_blocks_and_is_over_when_its_writer_closes() -> None:
    reader, writer = os.pipe()
    source = PipeSource(reader)
    assert (source.read(100), source.is_over, source.written) == (b"", False, None)
    os.write(writer, b"step 1\n")
    assert source.read(100) == b"step 1\n"
    assert (source.position, source.written is not None, source.descriptors) == (7, True, [reader])
    os.close(writer)
    assert (source.read(100), source.is_over, source.descriptors) == (b"", True, [])
    source.close()
    os.close(reader)


@pytest.mark.parametrize("most", [7, 1 << 20])
def test_compressed_log_gives_all_its_bytes_and_is_over(tmp_path: Path, most: int) -> None:
    source = CompressedFile(compressed(tmp_path))
    assert read_all(source, most) == LOG
    assert (source.is_over, source.position, source.trouble) == (True, len(LOG), None)
    source.close()


def test_compressed_log_counts_bytes_that_were_shown_before(tmp_path: Path) -> None:
    path = compressed(tmp_path)
    first = CompressedFile(path)
    first.read(100)
    again = CompressedFile(path, first.place)
    assert again.repeats == 100
    again.read(60)
    assert (again.repeats, again.repeated) == (40, True)
    for source in (first, again):
        source.close()


def test_other_compressed_log_of_the_same_name_is_all_new(tmp_path: Path) -> None:
    first = CompressedFile(compressed(tmp_path))
    first.read(100)
    other = CompressedFile(compressed(tmp_path, b"step 0 loss 9\n" * 50), first.place)
    assert other.repeats == 0
    for source in (first, other):
        source.close()


def test_truncated_compressed_log_gives_its_beginning_and_the_trouble(tmp_path: Path) -> None:
    path = compressed(tmp_path, os.urandom(500_000).hex().encode())
    path.write_bytes(path.read_bytes()[:300_000])
    source = CompressedFile(path)
    assert len(read_all(source, 1 << 16)) > 100_000
    assert source.trouble is not None
    assert source.trouble.startswith("only part of it could be read: ")
    source.close()


def test_compression_is_recognized_by_content(tmp_path: Path) -> None:
    plain = tmp_path / "plain.gz"
    plain.write_bytes(LOG)
    assert is_compressed(compressed(tmp_path))
    assert not is_compressed(plain)
    assert not is_compressed(tmp_path / "missing.gz")
