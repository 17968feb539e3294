"""The interface of a machine with GPUs, which `nvml/`, a simulation and a replayed recording implement.

Asking and answering are two steps, because only asking enters the driver: it can be slow, fail, or never return.
A reader owns its buffers and never shares or reuses them: a late call still writes into them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, runtime_checkable

from gputel.telemetry.errors import GputelError
from gputel.telemetry.readings import Reading

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Values = Sequence[int | None]
Integers: TypeAlias = "npt.NDArray[np.int64]"
Bits: TypeAlias = "npt.NDArray[np.bool_]"
Prepared = tuple[Callable[..., object], tuple[object, ...]]
"""A function and its arguments."""
Report = Callable[..., None]
"""`report(kind, text, **facts)` writes an event into events.jsonl."""


@dataclass(frozen=True)
class Gpu:
    """What does not change about a GPU during a recording; None for what it does not have."""

    index: str
    """As text; the second MIG instance of GPU 0 is `0:1`."""
    name: str
    uuid: str
    driver: str | None
    memory_total_mib: int | None = None
    limits: Mapping[str, float | None] = field(default_factory=dict, hash=False)
    parent: str | None = None

    def as_json(self) -> dict[str, object]:
        return {"gpu": self.index, **{key: value for key, value in asdict(self).items() if key != "index"}}


COMMAND = 0
"""Stands for the recorded command where a GPU is simulated: no process has this number."""


class GpuUser(NamedTuple):
    """A process on a GPU, with what it uses of it; None where the driver does not say."""

    pid: int
    """As the driver numbers processes: in a container it may be the host's number."""
    memory: int | None
    """Bytes."""
    share: int | None
    """Percent of the time in which a kernel of it ran."""


class GpuUsers(NamedTuple):
    """Who uses a GPU; `fault` says why that is not known."""

    users: tuple[GpuUser, ...] = ()
    fault: str | None = None


class UserLook(NamedTuple):
    """What the driver said of one GPU's users, and until when it stands (monotonic ns)."""

    users: GpuUsers
    until: int


class GpuLost(Exception):  # noqa: N818 - a state of the machine, not a mistake
    """This GPU no longer answers; the others may."""


NOT_OPEN = "it is not open"
"""Why a GPU is lost from the start: `Machine.listen` reports it."""


class Answer(NamedTuple):
    """The result of a probe: where the reading comes from, or why it is missing."""

    value: int | None
    source: str | None
    fault: str | None = None


class CounterState(NamedTuple):
    """What was learned of a counter from its changes; `unknown` says why it gives no rate."""

    refresh_hz: float | None
    unknown: str | None = None


NO_MOMENT = 0
"""The moment of a counter in a read that took so long that it is not known."""


class Reader(Protocol):
    """Reads some readings of one GPU, in the order in which they were requested."""

    failed: bool
    """Whether a call failed since the last `check`, so that the GPU may be lost."""

    @property
    def prepared(self) -> Sequence[Prepared]:
        """The calls that `ask` makes, to be made without it while each returns 0; none if that is not enough."""

    def ask(self) -> None:
        """Call the driver."""

    def timed(self, monotonic: Callable[[], int]) -> Sequence[int]:
        """Call the driver as `ask` does, and every second time for each field by itself.

        Returns the nanoseconds of each of `calls`; of a field what it adds to the call that reads all.
        """

    @property
    def calls(self) -> Sequence[tuple[str, ...]]:
        """The readings that each call gives; a field counts as a call."""

    def answer(self, now: int) -> Values:
        """Decode the last `ask`, made at `now` (monotonic ns), or at NO_MOMENT. Raises GpuLost."""

    def counters(self) -> Mapping[str, CounterState]:
        """What is known of the counters behind rates, by reading."""

    def faults(self) -> Mapping[str, str]:
        """The driver's error of each reading that it did not give in the last `ask`; none for a lost GPU."""


class RawRows(NamedTuple):
    """What some GPUs answered at some ticks: the bytes of each GPU `step` after those of the one before it."""

    data: bytes
    offset: int
    ticks: int
    stride: int
    """Bytes from one tick to the next."""
    gpus: int = 1
    step: int = 0


@runtime_checkable
class BufferedReader(Reader, Protocol):
    """A reader whose answers lie in `memory` until the next `ask`, and are decoded later, many at a time.

    At 100 Hz the processor's caches are cold at every tick; a second of rows at once costs a tenth.
    """

    memory: memoryview

    def check(self) -> None:
        """Raises GpuLost if the last `ask` shows that the GPU no longer answers."""

    def value(self, row: bytes, offset: int, place: int) -> int | None:
        """One value of a copy of `memory`; for a rate its counter."""

    layout: object
    """Readers of equal layouts can decode each other's memory."""

    def decode(self, raw: RawRows, values: Integers, valid: Bits) -> None:
        """Decode copies of `memory` into arrays of (tick, GPU, reading); counters are not rates yet."""

    def follow(self, times: Sequence[int], values: Integers, valid: Bits) -> None:
        """Take what `decode` gave for this GPU, asked at `times`; in their order and each once.

        Counters become rates, which follow from their changes.
        """


class Machine(Protocol):
    """The GPUs of one node and how to read them."""

    @property
    def gpus(self) -> Sequence[Gpu]: ...

    @property
    def simulated(self) -> str | None:
        """What is simulated, such as `2xH100`; None for a real machine."""

    def probe(self, gpu: Gpu, reading: Reading) -> Answer:
        """Read once. Raises GpuLost."""

    def reader(self, gpu: Gpu, readings: Sequence[Reading]) -> Reader:
        """A reader with buffers of its own. Raises GpuLost."""

    def users(self, gpu: Gpu, now: int) -> GpuUsers:
        """Who uses this GPU at `now` (monotonic ns). Raises GpuLost."""

    def revive(self, gpu: Gpu) -> None:
        """Try a lost GPU again. Raises GpuLost while it still does not answer."""

    def listen(self, report: Report) -> None:
        """Report the driver's own events (Xid errors) until closed."""

    def close(self) -> None: ...


class ReaderWithoutDriver:
    """Base of readers whose values follow from the time: there are no calls, and their rates are rates already."""

    calls: Sequence[tuple[str, ...]] = ()
    prepared: Sequence[Prepared] = ()
    failed = False

    def ask(self) -> None:
        """Does nothing."""

    def timed(self, monotonic: Callable[[], int]) -> Sequence[int]:
        return ()

    def counters(self) -> Mapping[str, CounterState]:
        return {}

    def faults(self) -> Mapping[str, str]:
        return {}


class MachineWithoutDriver:
    """Base of machines whose GPUs are simulated or replayed: none is ever lost, and no driver reports events."""

    def revive(self, gpu: Gpu) -> None:
        """Does nothing."""

    def listen(self, report: Report) -> None:
        """Reports nothing."""

    def close(self) -> None:
        """Does nothing."""


def choose(gpus: Sequence[Gpu], wanted: Sequence[str] | None) -> tuple[Gpu, ...]:
    """The GPUs named by index or UUID, in the machine's order. A GPU does not include its MIG instances."""
    if wanted is None:
        return tuple(gpus)
    names = {name for gpu in gpus for name in (gpu.index, gpu.uuid)}
    unknown = [name for name in wanted if name not in names]
    if unknown:
        indexes = [gpu.index for gpu in gpus]
        hint = f"this machine has {', '.join(indexes)}; name some of these" if len(indexes) > 1 else ""
        hint = hint or f"this machine has GPU {''.join(indexes)} only"
        raise GputelError("--gpus", f"there is no GPU {unknown[0]}", hint, exit_code=2)
    return tuple(gpu for gpu in gpus if gpu.index in wanted or gpu.uuid in wanted)
