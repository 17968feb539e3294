"""A fake driver for each test that asks for one, and a clock that moves only when it is slept on."""

import resource
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from gputel.telemetry.clock import SECOND, Stamp
from gputel.telemetry.store.second import Decode
from gputel.telemetry.store.tiers import Tier
from tests.fake_nvml import H100, FakeNvml, build

MakeFake = Callable[..., FakeNvml]


class SteppedClock:
    """`moved` hears of each new time; `jumps` are added to the next sleeps, as a busy machine would."""

    def __init__(self, moved: Callable[[int], object] = id) -> None:
        self.now = 1_000_000_000_000
        self.jumps: list[int] = []
        self.moved = moved
        moved(self.now)

    def stamp(self) -> Stamp:
        return Stamp(1_700_000_000_000_000_000 + self.now, self.now, self.now)

    def monotonic(self) -> int:
        return self.now

    def sleep_until(self, monotonic: int) -> None:
        self.advance(max(0, monotonic - self.now) + (self.jumps.pop(0) if self.jumps else 0))

    def advance(self, ns: int) -> None:
        self.now += ns
        self.moved(self.now)


class Spending:
    """What the sampling thread spends by each read: nothing, until a test says so."""

    def __init__(self) -> None:
        self.cpu_ns = self.preempted = self._cpu_ns = self._preempted = 0

    def __call__(self) -> resource.struct_rusage:
        self._cpu_ns += self.cpu_ns
        self._preempted += self.preempted
        return resource.struct_rusage((self._cpu_ns / 1e9, *[0] * 14, self._preempted))


class Rows:
    """A store in memory: what the sampler appended, decoded a second at a time as the journal does."""

    def __init__(self) -> None:
        self.arranged: list[tuple[int, Sequence[Tier]]] = []
        """After how many rows other tiers began, and which."""
        self._rows: list[tuple[int, int, int, list[int | None]]] = []
        self._raw: list[tuple[int, Decode, bytes]] = []
        """Where in `_rows` the values of a row belong that is not decoded yet."""
        self._second = 0
        self._lock = threading.RLock()  # a test looks while another thread samples

    @property
    def rows(self) -> list[tuple[int, int, int, list[int | None]]]:
        """Tier, deadline, stamp and values of each row."""
        with self._lock:
            self._decode()
        return self._rows

    def _decode(self) -> None:
        by_decoder: dict[Decode, list[tuple[int, bytes]]] = {}
        for place, decode, row in self._raw:
            by_decoder.setdefault(decode, []).append((place, row))
        self._raw.clear()
        for decode, raw in by_decoder.items():
            values, valid = decode([row for _, row in raw])
            there = np.ones(values.shape, np.bool_) if valid is None else valid
            for (place, _), numbers, marks in zip(raw, values.tolist(), there.tolist(), strict=True):
                self._rows[place][3].extend(
                    value if ok else None for value, ok in zip(numbers, marks, strict=True)
                )

    def append(self, tier: int, deadline_ns: int, stamp_ns: int, values: Sequence[int | None]) -> None:
        self._rows.append((tier, deadline_ns, stamp_ns, list(values)))

    def append_raw(self, tier: int, deadline_ns: int, stamp_ns: int, row: bytes, decode: Decode) -> None:
        with self._lock:
            if self._raw and deadline_ns // SECOND != self._second:
                self._decode()
            self._second = deadline_ns // SECOND
            self._raw.append((len(self._rows), decode, row))
            self.append(tier, deadline_ns, stamp_ns, ())

    def rearrange(self, tiers: Sequence[Tier]) -> None:
        self.arranged.append((len(self._rows), tiers))

    def close(self) -> None:
        pass

    def column(self, number: int, tier: int = 0) -> list[int | None]:
        return [values[number] for where, _, _, values in self.rows if where == tier]

    def stamps(self, tier: int = 0) -> list[int]:
        return [stamp for where, _, stamp, _ in self._rows if where == tier]


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("driver"))


@pytest.fixture(scope="session")
def old_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("old-driver"), old_driver=True)


@pytest.fixture
def fake(driver: Path, tmp_path: Path) -> MakeFake:
    made = 0

    def make(*kinds: str, library: Path = driver) -> FakeNvml:
        nonlocal made
        made += 1
        return FakeNvml(tmp_path / f"driver-{made}", library, kinds or (H100,))

    return make
