"""Requests of remote write, read again by protobuf and by a library for snappy."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.telemetry.remote import remote_write
from gputel.telemetry.remote.remote_write import ABSENT, LAST_MS

cramjam = pytest.importorskip("cramjam", reason="cramjam, which reads snappy, is not installed")
descriptors = pytest.importorskip("google.protobuf.descriptor_pb2", reason="protobuf is not installed")

MESSAGES = {
    "Label": [("name", 1, "STRING"), ("value", 2, "STRING")],
    "Sample": [("value", 1, "DOUBLE"), ("timestamp", 2, "INT64")],
    "TimeSeries": [("labels", 1, "Label"), ("samples", 2, "Sample")],
    "WriteRequest": [("timeseries", 1, "TimeSeries")],
}
"""The fields that we write of Prometheus' remote.proto."""


def write_request() -> Any:
    from google.protobuf import descriptor_pool, message_factory

    file = descriptors.FileDescriptorProto(name="remote.proto", package="prometheus", syntax="proto3")
    for message, fields in MESSAGES.items():
        described = file.message_type.add(name=message)
        for name, number, kind in fields:
            field = described.field.add(name=name, number=number, label=1)
            if kind in MESSAGES:
                field.type, field.type_name, field.label = 11, f".prometheus.{kind}", 3
            else:
                field.type = {"STRING": 9, "DOUBLE": 1, "INT64": 3}[kind]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("prometheus.WriteRequest"))


WRITE_REQUEST = write_request()


def decoded(body: bytes) -> dict[tuple[tuple[str, str], ...], list[tuple[int, bytes]]]:
    """The samples of each series, values as their bytes: NaN is compared, too."""
    message = WRITE_REQUEST.FromString(bytes(cramjam.snappy.decompress_raw(body)))
    return {
        tuple((label.name, label.value) for label in series.labels): [
            (sample.timestamp, struct.pack("<d", sample.value)) for sample in series.samples
        ]
        for series in message.timeseries
    }


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=90)
series_names = st.lists(
    st.dictionaries(st.sampled_from(["gpu", "node", "run", "rule"]), texts, max_size=4),
    max_size=12,
    unique_by=lambda found: tuple(sorted(found.items())),
)
values = st.one_of(st.floats(), st.just(ABSENT))


@given(st.data(), series_names, st.lists(st.integers(0, LAST_MS - 1), min_size=1, max_size=12, unique=True))
def test_every_value_comes_back_with_its_labels_and_its_time(
    data: st.DataObject, series: list[dict[str, str]], times: list[int]
) -> None:
    count = len(series) * len(times)
    flat = data.draw(st.lists(values, min_size=count, max_size=count))
    rows = np.array(flat, np.float64).reshape(len(times), len(series))
    body = remote_write.request([remote_write.labels("gputel_x", each) for each in series], times, rows)
    absent = struct.pack("<d", ABSENT)
    expected = {}
    for place, each in enumerate(series):
        samples = [(time, rows[row, place].tobytes()) for row, time in enumerate(times)]
        if there := [sample for sample in samples if sample[1] != absent]:
            expected[tuple(sorted({"__name__": "gputel_x", **each}.items()))] = there
    assert decoded(body) == expected


def test_value_that_is_not_a_number_is_sent_and_an_absent_one_is_not() -> None:
    series = [remote_write.labels("loss", {"run": "d16"}), remote_write.labels("step", {"run": "d16"})]
    body = remote_write.request(series, [1000], np.array([[math.nan, ABSENT]]))
    assert list(decoded(body)) == [(("__name__", "loss"), ("run", "d16"))]


def test_request_without_samples_is_empty() -> None:
    assert remote_write.request([], [], np.empty((0, 0))) == b"\0"


def test_labels_of_eight_gpus_are_said_once() -> None:
    """210 series take less than a third of what their text would."""
    series = [
        remote_write.labels(f"gputel_gpu_{reading}_mean", {"job": "gputel", "run": "d16", "gpu": f"{gpu}"})
        for reading in range(26)
        for gpu in range(8)
    ]
    body = remote_write.request(series, [1_790_000_000_000], np.zeros((1, len(series))))
    assert len(body) < 32 * len(series) < len(cramjam.snappy.decompress_raw(body)) / 2


def test_time_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="before 1970"):
        remote_write.request([remote_write.labels("x", {})], [-1], np.zeros((1, 1)))
