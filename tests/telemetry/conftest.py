"""A fake driver for each test that asks for one, and a clock that moves only when it is slept on."""

import resource
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gputel.telemetry.clock import Stamp
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
    """A store in memory: what the sampler appended."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, list[int | None]]] = []
        self.arranged: list[tuple[int, Sequence[Tier]]] = []
        """After how many rows other tiers began, and which."""

    def append(self, tier: int, deadline_ns: int, stamp_ns: int, values: Sequence[int | None]) -> None:
        self.rows.append((tier, deadline_ns, stamp_ns, list(values)))

    def append_raw(self, tier: int, deadline_ns: int, stamp_ns: int, row: bytes, decode: Decode) -> None:
        values, valid = decode([row])
        there = [True] * values.shape[1] if valid is None else valid[0].tolist()
        self.append(
            tier,
            deadline_ns,
            stamp_ns,
            [v if ok else None for v, ok in zip(values[0].tolist(), there, strict=True)],
        )

    def rearrange(self, tiers: Sequence[Tier]) -> None:
        self.arranged.append((len(self.rows), tiers))

    def close(self) -> None:
        pass

    def column(self, number: int, tier: int = 0) -> list[int | None]:
        return [values[number] for where, _, _, values in self.rows if where == tier]

    def stamps(self, tier: int = 0) -> list[int]:
        return [stamp for where, _, stamp, _ in self.rows if where == tier]


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
