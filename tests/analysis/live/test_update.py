"""Streams of given rows, and the segments beside whose output they stand."""

import pytest

from gputel.analysis.live.update import segment_of, stream_of


@pytest.mark.parametrize("segment", ["", "segments/2", "nodes/1/segments/3"])
def test_stream_of_given_rows_names_its_segment(segment: str) -> None:
    assert segment_of(stream_of(segment)) == segment


@pytest.mark.parametrize("stream", ["", "rank 3", "segments/2", "apis"])
def test_stream_of_printed_rows_stands_beside_no_segment(stream: str) -> None:
    assert segment_of(stream) is None
