"""Rows of a tier as bytes: GPUs without a reader, and readers of other layouts, side by side."""

import pytest

from gputel.telemetry.machine import BufferedReader
from gputel.telemetry.readings import BY_NAME
from gputel.telemetry.sampling.rows import RawTier
from tests.fake_nvml import H100, MS, SECOND
from tests.telemetry.conftest import MakeFake

pytestmark = pytest.mark.needs("cc")


def test_gpu_without_a_reader_is_null_and_its_neighbors_are_not(fake: MakeFake) -> None:
    driver = fake(H100, H100, H100)
    for number, watts in enumerate((100, 200, 300)):
        driver.power([(SECOND, watts * 1000)], number)
    machine, wanted = driver.open(), [["power_w", "util"], ["power_w"], ["power_w", "sm_mhz"]]
    driver.at(60)
    readers: list[BufferedReader | None] = []
    for gpu, names in zip(machine.gpus, wanted, strict=True):
        reader = machine.reader(gpu, [BY_NAME[name] for name in names])
        assert isinstance(reader, BufferedReader)
        reader.ask()
        readers.append(reader)
    readers[1] = None
    tier = RawTier(readers, [2, 1, 2])
    values, valid = tier.decode([tier.take()] * 2)
    assert valid is not None
    assert values[:, [0, 3]].tolist() == [[100_000, 300_000]] * 2
    assert valid.tolist() == [[True, True, False, True, True]] * 2
    assert [tier.value(tier.take(), column) for column in (0, 2, 3)] == [100_000, None, 300_000]


def test_rate_is_taken_from_when_each_gpu_was_read(fake: MakeFake) -> None:
    """The second GPU is read 5 ms after the first, at which its counter has moved on."""
    driver = fake(H100, H100)
    for fake_gpu in driver.gpus:
        fake_gpu.nvlink_rx_rate, fake_gpu.nvlink_refresh_ns = 1024 * 10**6, 100 * MS
    machine = driver.open()
    readers = [machine.reader(gpu, [BY_NAME["nvlink_rx_mib_s"]]) for gpu in machine.gpus]
    buffered = [reader for reader in readers if isinstance(reader, BufferedReader)]
    tier, rows = RawTier(buffered, [1, 1]), []
    for tick in range(100):
        for place, reader in enumerate(buffered):
            now = 60 * SECOND + tick * 10 * MS + place * 5 * MS
            driver.state.now_ns = tier.times[place] = now
            reader.ask()
        rows.append(tier.take())
    values, valid = tier.decode(rows)
    assert valid is not None
    assert valid[50:].all()
    assert values[50:].ravel().tolist() == pytest.approx([10**6] * 100, rel=0.12)
