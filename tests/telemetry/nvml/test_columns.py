"""Many reads decoded at once give what each gives alone: values, nulls, and the types that a driver changes."""

from collections.abc import Sequence

import pytest

from gputel.telemetry.machine import BufferedReader
from gputel.telemetry.readings import BY_NAME
from gputel.telemetry.sampling.rows import RawTier
from tests.fake_nvml import GPU_IS_LOST, H100, MS, NO_PERMISSION, NOT_SUPPORTED, SECOND, FakeNvml
from tests.telemetry.conftest import MakeFake
from tests.telemetry.nvml.driver import STEPS

pytestmark = pytest.mark.needs("cc")
NAMES = (
    "power_w energy_j temp_mem_c power_limit_w nvlink_rx_mib_s pcie_rx_mib_s temp_c util mem_util mem_used_mib "
    "sm_mhz pstate throttle"
).split()


class Readers:
    """Two readers of each GPU: one is decoded at each read, the other together with its neighbors."""

    def __init__(self, driver: FakeNvml, names: Sequence[str] = NAMES) -> None:
        self.driver, machine = driver, driver.open()
        readings = [BY_NAME[name] for name in names]
        self.one_by_one = [machine.reader(gpu, readings) for gpu in machine.gpus]
        buffered = [machine.reader(gpu, readings) for gpu in machine.gpus]
        assert all(isinstance(reader, BufferedReader) for reader in buffered)
        self.together = [reader for reader in buffered if isinstance(reader, BufferedReader)]
        self.tier = RawTier(self.together, [len(names)] * len(buffered))
        self.rows: list[bytes] = []
        self.expected: list[list[int | None]] = []

    def read(self, tick: int) -> None:
        self.driver.state.now_ns = now = 60 * SECOND + tick * 10 * MS
        row: list[int | None] = []
        for place, (alone, reader) in enumerate(zip(self.one_by_one, self.together, strict=True)):
            alone.ask()
            row += alone.answer(now)
            reader.ask()
            self.tier.times[place] = now
        self.expected.append(row)
        self.rows.append(self.tier.take())

    def decoded(self) -> list[list[int | None]]:
        values, valid = self.tier.decode(self.rows)
        there = valid.tolist() if valid is not None else [[True] * values.shape[1]] * len(values)
        return [
            [v if ok else None for v, ok in zip(*row, strict=True)]
            for row in zip(values.tolist(), there, strict=True)
        ]


def moving(driver: FakeNvml) -> FakeNvml:
    for i, gpu in enumerate(driver.gpus):
        driver.power([(duration, level + 1000 * i) for duration, level in STEPS], i)
        gpu.nvlink_rx_rate, gpu.nvlink_refresh_ns = 133 * 10**9, 100 * MS
        gpu.pcie_rx_rate, gpu.pcie_refresh_ns = 3 * 10**9 * (i + 1), 20 * MS
    return driver


def test_reads_decoded_together_equal_those_decoded_one_by_one(fake: MakeFake) -> None:
    readers = Readers(moving(fake(H100, H100, H100)))
    for tick in range(120):
        readers.read(tick)
    decoded = readers.decoded()
    assert decoded == readers.expected
    assert None not in decoded[-1]


@pytest.mark.parametrize("names", [["util"], ["pstate", "temp_c"], ["power_w"], ["energy_j", "power_w"]])
def test_few_readings_of_calls_alone_or_of_fields_alone_are_decoded(fake: MakeFake, names: list[str]) -> None:
    readers = Readers(moving(fake(H100, H100)), names)
    for tick in range(3):
        readers.read(tick)
    assert readers.decoded() == readers.expected


def test_calls_and_fields_that_fail_for_some_reads_are_null_in_these_alone(fake: MakeFake) -> None:
    driver = moving(fake(H100, H100))
    readers = Readers(driver)
    for tick in range(90):
        driver.fault("TemperatureV", NO_PERMISSION if 20 <= tick < 35 else 0, 1)
        driver.state.gpus[0].field_status[82] = NOT_SUPPORTED if tick >= 60 else 0
        driver.state.gpus[0].pstate = 32 if tick % 7 == 0 else 2
        readers.read(tick)
    assert readers.decoded() == readers.expected
    column = [row[len(NAMES) + NAMES.index("temp_c")] for row in readers.decoded()]
    assert [i for i, value in enumerate(column) if value is None] == list(range(20, 35))


def test_gpu_whose_fields_say_that_it_is_lost_is_found_when_its_reads_are_decoded(fake: MakeFake) -> None:
    """Its calls still answer, so that no return code shows it at the read itself."""
    driver = fake(H100, H100)
    readers = Readers(driver)
    readers.read(0)
    for field in range(320):
        driver.state.gpus[1].field_status[field] = GPU_IS_LOST
    readers.together[1].ask()
    readers.rows.append(readers.tier.take())
    assert readers.decoded()[1][len(NAMES) :] == [None] * len(NAMES)
    assert [reader.failed for reader in readers.together] == [False, True]


def test_one_value_of_a_row_is_read_without_decoding_the_others(fake: MakeFake) -> None:
    readers = Readers(moving(fake(H100, H100)))
    readers.read(0)
    for name in ("power_w", "util", "throttle"):
        place = len(NAMES) + NAMES.index(name)
        assert readers.tier.value(readers.rows[0], place) == readers.expected[0][place]
