"""Choosing the GPUs of a machine by index or UUID."""

import pytest

from gputel.telemetry.errors import GputelError
from gputel.telemetry.machine import Gpu, choose

GPUS = (
    Gpu("0", "H100", "GPU-a", None),
    Gpu("0:0", "H100 MIG", "MIG-a-0", None, parent="0"),
    Gpu("1", "H100", "GPU-b", None),
)


@pytest.mark.parametrize(
    ("wanted", "indexes"),
    [(None, ["0", "0:0", "1"]), (["1", "0"], ["0", "1"]), (["GPU-b"], ["1"]), (["0:0"], ["0:0"]), ([], [])],
)
def test_gpus_are_chosen_in_the_order_of_the_machine(wanted: list[str] | None, indexes: list[str]) -> None:
    assert [gpu.index for gpu in choose(GPUS, wanted)] == indexes


def test_gpu_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(GputelError) as refusal:
        choose(GPUS, ["1", "7"])
    assert str(refusal.value) == "--gpus: there is no GPU 7; this machine has 0, 0:0, 1; name some of these"
    assert refusal.value.exit_code == 2


def test_gpu_in_json_calls_its_index_gpu() -> None:
    assert list(GPUS[1].as_json().items())[:2] == [("gpu", "0:0"), ("name", "H100 MIG")]
    assert GPUS[1].as_json()["parent"] == "0"
