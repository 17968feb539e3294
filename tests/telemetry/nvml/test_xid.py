"""Xid errors."""

import queue

import pytest

from tests.fake_nvml import (
    H100,
)
from tests.telemetry.conftest import MakeFake

pytestmark = pytest.mark.needs("cc")


def test_xid_is_reported_with_its_gpu_and_meaning(fake: MakeFake) -> None:
    driver = fake(H100, H100)
    machine = driver.open()
    events: queue.Queue[tuple[str, str, dict[str, object]]] = queue.Queue()
    machine.listen(lambda kind, text, **facts: events.put((kind, text, facts)))
    driver.xid(79, gpu=1)
    assert events.get() == (
        "xid",
        "Xid 79 on GPU 1: the GPU has fallen off the bus",
        {"gpu": "1", "xid": 79},
    )
    driver.xid(999, gpu=0)
    assert events.get()[1] == "Xid 999 on GPU 0"
    machine.close()
