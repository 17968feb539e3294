"""The door to a machine with GPUs: what the sampler asks, and what `nvml/`, a simulation and a recording answer.

Asking and answering are two steps, because only asking enters the driver: it can take long, fail, or never return.
A reader owns its buffers; a late call goes on writing into them, so they are never shared nor used again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple, Protocol

from gputel.telemetry.errors import GputelError
from gputel.telemetry.readings import Reading

Values = Sequence[int | None]
Report = Callable[..., None]
"""`report(kind, text, **facts)`: something happened that belongs into events.jsonl."""


@dataclass(frozen=True)
class Gpu:
    """What does not change about a GPU while it is recorded. None where it has no such thing."""

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


class GpuLost(Exception):  # noqa: N818 - a state of the machine, not a mistake
    """This GPU does not answer any more. Others may."""


class Answer(NamedTuple):
    """What a probe found: where the reading comes from, or why there is none."""

    value: int | None
    source: str | None
    fault: str | None = None


class Reader(Protocol):
    """Some readings of one GPU, in the order in which they were asked for."""

    def ask(self) -> None:
        """Enter the driver."""

    def answer(self, now: int) -> Values:
        """Decode what was asked last; `now` is when (monotonic ns). Raises GpuLost."""


class Machine(Protocol):
    @property
    def gpus(self) -> Sequence[Gpu]: ...

    @property
    def simulated(self) -> str | None:
        """What is simulated, `2xH100` say; None for a real machine."""

    def probe(self, gpu: Gpu, reading: Reading) -> Answer:
        """Ask once. Raises GpuLost."""

    def reader(self, gpu: Gpu, readings: Sequence[Reading]) -> Reader:
        """A reader with buffers of its own. Raises GpuLost."""

    def revive(self, gpu: Gpu) -> None:
        """Look whether a lost GPU is back. Raises GpuLost while it is not."""

    def listen(self, report: Report) -> None:
        """Report what the driver says by itself, Xid errors, until closed."""

    def close(self) -> None: ...


def choose(gpus: Sequence[Gpu], wanted: Sequence[str] | None) -> tuple[Gpu, ...]:
    """The GPUs named by index or UUID, in the machine's order; a GPU does not bring its MIG instances along."""
    if wanted is None:
        return tuple(gpus)
    known = {name for gpu in gpus for name in (gpu.index, gpu.uuid)}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        have = [gpu.index for gpu in gpus]
        hint = f"this machine has {', '.join(have)}; name some of these" if len(have) > 1 else ""
        hint = hint or f"this machine has GPU {''.join(have)} only"
        raise GputelError("--gpus", f"there is no GPU {unknown[0]}", hint, exit_code=2)
    return tuple(gpu for gpu in gpus if gpu.index in wanted or gpu.uuid in wanted)
