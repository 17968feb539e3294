"""The doctor's page: a block for each kind of GPU."""

from typing import Any

import pytest

from gputel.analysis.document import Table
from gputel.analysis.documents.doctor import doctor_document, numbers


def reading(gpu: str, name: str = "power_w", **facts: Any) -> dict[str, Any]:
    known = {"name": "H100", "unit": "W", "tier": "fast", "source": "field 186", "fault": None}
    return {
        "gpu": gpu,
        "reading": name,
        **known,
        "latency_us": 1.0,
        "refresh_hz": 10.0,
        "idle": False,
        **facts,
    }


def table(*readings: dict[str, Any]) -> Table:
    (item,) = doctor_document([], readings).sections[1].items
    assert isinstance(item, Table)
    return item


def rows(*readings: dict[str, Any]) -> list[list[object]]:
    return [list(row) for row in table(*readings).rows]


def test_equal_gpus_are_one_block_with_the_range_of_their_figures() -> None:
    readings = [
        reading(str(gpu), name, latency_us=1.0 + gpu / 4) for gpu in range(8) for name in ("power_w", "util")
    ]
    assert rows(*readings) == [
        ["0-7", "power_w", "W", "fast", "field 186", "1 to 2.75", 10.0],
        ["0-7", "util", "W", "fast", "field 186", "1 to 2.75", 10.0],
    ]


@pytest.mark.parametrize(
    "difference", [{"name": "A100"}, {"source": None, "fault": "NotSupported"}, {"tier": "medium"}]
)
def test_gpu_of_another_kind_has_a_block_of_its_own(difference: dict[str, Any]) -> None:
    assert [row[0] for row in rows(reading("0"), reading("1", **difference), reading("2"))] == ["0, 2", "1"]


def test_figure_that_one_gpu_lacks_is_that_of_the_others() -> None:
    (row,) = rows(reading("0", refresh_hz=None), reading("1"))
    assert row[-1] == 10.0


def test_range_of_thousands_is_written_in_whole_numbers() -> None:
    (row,) = rows(reading("0", latency_us=7840.4), reading("1", latency_us=12_700.2))
    assert row[-2] == "7,840 to 12,700"


def test_note_says_which_gpus_were_idle_and_which_command_tells_more() -> None:
    too_few = "no refresh rate: too few changes to tell"
    assert table(reading("0"), reading("1")).note == too_few
    assert table(reading("0", idle=True), reading("1")).note == (
        f"{too_few}; GPU 0 was idle: run `gputel doctor` again while a training runs on it"
    )
    assert table(reading("0", idle=True), reading("1", idle=True)).note == (
        f"{too_few}; GPUs 0-1 were idle: run `gputel doctor` again while a training runs on them"
    )


def test_gpus_in_a_row_are_a_range() -> None:
    assert numbers(["0", "1", "2", "5", "7:0", "7:1"]) == "0-2, 5, 7:0, 7:1"
